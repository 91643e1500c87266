"""One table as an engine sees it: intraday and history, each row once, growing with every committed epoch.

An engine only ever appends. So a row that was shown stays as it was: a merge changes nothing of an attached table,
because its intraday locations go on showing the rows that are now in history as well; a truncate or delete leaves the
rows in mappings that were made before. Where that cannot be, because epochs that were shown were rolled back, or files
were gone before they were mapped, the table *ends* with a SnapshotMovedError: it never shows a wrong row.

Order of a look (``advance``), under the lock of the table: 1. records of the logs, 2. rows of grown locations, 3.
removals, of which each maps what is left of its location, 4. new streams and merged dates, if ``wide``. Values are
mapped first and then the logs are looked at, as every reader does (``store.epochs.pins``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from readers.arrow.opening import pinned_table
from readers.live.columns import LiveColumn
from readers.live.follower import Changes, Follower
from readers.live.merged import AGAIN, Merged
from readers.live.places import Committed, Held, Mapped, Place
from readers.live.served import ServedSchema, served_schema
from store.epochs.reading.load import list_streams
from store.epochs.recovery.witnesses import Witnesses, refuse
from store.epochs.state.removal import Removal
from store.epochs.state.values import LocationState
from store.errors import FormatError, SnapshotMovedError, SparkhavenError
from store.io.fs import Fs
from store.io.system_errors import as_ours, as_storage_errors
from store.layout import Layout, LocationKey, TableName
from store.merges.records import merged_rows
from store.scan.checksums import Checks
from store.scan.ranges import Slice
from store.schema.deployed.deploy import load_deployed
from store.types.committed import FileState

MAX_ROWS, MAX_PLACES = 1 << 43, 1 << 20  # of an engine: rows a location, locations a table
MEMORY = 256 << 20  # bytes of small files and symbols that a table keeps
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Update:
    """What one look has added: new places, places with their new numbers of rows, and why the table ends."""

    places: tuple[Place, ...] = ()
    grown: tuple[tuple[Place, int], ...] = ()
    ended: SparkhavenError | None = None


class LiveTable:
    """A table from now on. Raises what opening a table raises, and UnsupportedVersionError for a type that engines
    cannot take. Thread-safe."""

    def __init__(
        self, fs: Fs, layout: Layout, name: TableName, checks: Checks | None = None, *, memory: int = MEMORY
    ) -> None:
        self._fs, self._layout, self.name, self._checks = fs, layout, name, checks
        self._lock = threading.RLock()
        self._mapped = Mapped(memory)
        self._forget_places()
        self.error: SparkhavenError | None = None
        for attempt in range(_ATTEMPTS):
            try:
                with as_storage_errors():
                    self._open()
                break
            except SnapshotMovedError:  # rows were merged or rolled back while it was opened
                if attempt == _ATTEMPTS - 1:
                    raise

    def _open(self) -> None:
        fs, layout, name = self._fs, self._layout, self.name
        self._forget_places()
        schema = load_deployed(fs, layout, name)
        self.schema: ServedSchema = served_schema(schema)
        self._streams = {stream: Follower(fs, layout, name, stream) for stream in list_streams(fs, layout, name)}
        if not self._streams:
            refuse(Witnesses(fs, layout, name, ()).locations())
        pins = [follower.pin() for follower in self._streams.values()]
        table = pinned_table(fs, layout, name, schema, pins, self._checks)
        plan = table.plan()
        self._merged = Merged(fs, layout, name)
        for record in plan.records:
            self._merged.note(record)
        for slice_ in plan.slices:
            self._add_slice(slice_)
        if len(self._held) > MAX_PLACES:
            raise SnapshotMovedError("table has too many locations for an engine", expected=MAX_PLACES)
        self.publish()

    def _forget_places(self) -> None:
        self._held: dict[Place, Held] = {}
        self._current: dict[tuple[str, LocationKey], Held] = {}
        self._pending: dict[Place, Held] = {}

    def _add_slice(self, slice_: Slice) -> None:
        if slice_.stream is None:
            self._add_history(slice_.key, slice_.rows, slice_.files)
        else:
            self._grow(slice_.stream, self._streams[slice_.stream].state.locations[slice_.key])

    def _add_history(self, at: LocationKey, rows: int, files: Mapping[str, FileState]) -> None:
        directory = self._layout.history_location(self.name, at)
        self._add(Held(Place("history", None, at, 0, 0, 0), directory, Committed(rows, 0, files)))

    def _add(self, held: Held) -> None:
        self._held[held.place] = held
        self._pending[held.place] = held

    # --- what an engine asks ---------------------------------------------------------------------------

    def places(self) -> list[Place]:
        """All places that are shown, in the order in which they came."""
        with self._lock:
            return [place for place, held in self._held.items() if held.shown]

    def size(self, place: Place) -> int:
        """Rows of a place that are shown."""
        with self._lock:
            return self._held[place].size

    def values(self, place: Place, name: str, offset: int, least: int, most: int) -> pa.Array:
        """Values of a column from row ``offset`` of a place on: at least and at most so many, and none beyond its size.

        SnapshotMovedError: the rows are gone. CorruptFileError: they are not those that were committed.
        """
        with self._lock:
            if self.error is not None:
                raise self.error.with_traceback(None)
            held = self._held[place]
            shown = held.shown
        column = held.column(self._fs, self.schema.column(name), self._checks)
        rows = shown.rows if shown else place.first
        start, stop = place.first + offset, min(place.first + offset + most, rows)
        if stop - start < least:
            raise IndexError(f"rows [{offset}, {offset + least}) of {rows - place.first} in {place}")
        if shown is not None and column.rows < stop:
            self._map(held, shown, column, name)
        with as_storage_errors():
            return column.read(start, stop)

    def _map(self, held: Held, shown: Committed, column: LiveColumn, name: str) -> None:
        """Maps a column, then looks whether the rows were still there."""
        failed: Exception | None = None
        try:
            column.map(shown.rows, shown.files)
        except (OSError, FormatError) as error:
            failed = error
        if held.place.tier == "intraday":
            self.advance()
        if failed is not None and held.place.tier == "history" and self._fs.stat(held.directory) is None:
            self._end(held.gone("history of this date was merged again, and what it replaced has been removed"))
        if self.error is not None:
            raise self.error.with_traceback(None)
        if failed is not None:
            raise as_ours(failed) if isinstance(failed, OSError) else failed
        with self._lock:
            self._mapped.add(held, name)

    # --- following -------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Rows that are shown."""
        with self._lock:
            return sum(held.size for held in self._held.values())

    @property
    def committed_ms(self) -> int:
        """Time of the newest commit that was seen since the table was opened (ms since the epoch), or 0."""
        return max((follower.committed_ms for follower in self._streams.values()), default=0)

    @property
    def waits(self) -> bool:
        """Whether ``publish`` has something to show."""
        return bool(self._pending) or self.error is not None

    def advance(self, *, wide: bool = False) -> None:
        """Looks for new epochs and removals; ``wide``: also for new streams and for dates that were merged elsewhere.

        Nothing of it is shown before ``publish``. What cannot go on sets ``error``.
        """
        with self._lock:
            if self.error is not None:
                return
            try:
                with as_storage_errors():
                    self._look(wide)
            except SparkhavenError as error:
                self._end(error)

    def publish(self) -> Update:
        """Shows what was found: whole epochs, since a record is applied at once."""
        with self._lock:
            if self.error is not None:
                return Update(ended=self.error)
            fresh: list[Place] = []
            grown: list[Place] = []
            for place, held in self._pending.items():
                (grown if held.shown else fresh).append(place)
                held.shown = held.committed
            self._pending = {}
            return Update(tuple(fresh), tuple((place, self._held[place].size) for place in grown))

    def release(self) -> None:
        """Lets mappings, copies and places go: nobody follows the table any more, or it has ended."""
        with self._lock:
            for held in self._held.values():
                held.columns.clear()
            self._forget_places()
            self._streams = {}
            self._mapped.clear()

    def _end(self, error: SparkhavenError) -> None:
        with self._lock:
            self.error = self.error or error.with_traceback(None)  # its frames would keep mappings

    def _look(self, wide: bool) -> None:
        again = False
        if wide:
            for stream in list_streams(self._fs, self._layout, self.name):
                if stream not in self._streams:
                    self._streams[stream] = Follower(self._fs, self._layout, self.name, stream)
                    self._take(stream, self._streams[stream].state.locations)
        for stream, follower in self._streams.items():
            changes = follower.advance()
            if changes is not None:
                self._change(stream, follower, changes)
                again = again or changes.keys is None
        if wide or again:
            self._look_at_merges(again)

    def _change(self, stream: str, follower: Follower, changes: Changes) -> None:
        if changes.restored is not None:
            self._roll_back(stream, changes.restored)
        if changes.keys is None:
            self._take(stream, follower.state.locations)
            self._require_still(stream, follower, changes.removals)
        else:
            self._take(stream, changes.keys)
        for removal in changes.removals:
            self._remove(stream, removal)
        if changes.keys is not None:
            follower.remove(changes.removals)

    def _roll_back(self, stream: str, epoch: int) -> None:
        """Ends the table if rows that it has shown were rolled back; what was not shown yet goes without a trace."""
        for (owner, at), held in list(self._current.items()):
            if owner != stream or held.left:
                continue
            if held.shown and held.shown.epoch > epoch:
                raise held.gone(f"rows of this table were rolled back to epoch {epoch} of stream {stream!r}")
            if held.committed.epoch > epoch:
                self._pending.pop(held.place, None)
                if held.shown is None:
                    del self._held[held.place], self._current[owner, at]
                else:
                    held.committed = held.shown

    def _take(self, stream: str, keys: Iterable[LocationKey]) -> None:
        locations = self._streams[stream].state.locations
        for key in keys:
            found = locations.get(key)
            if found is not None and not found.truncated:
                self._grow(stream, found)

    def _grow(self, stream: str, found: LocationState) -> None:
        held = self._current.get((stream, found.key))
        if held is not None and (held.place.since, held.place.made_ms) != (found.since, found.made_ms):
            self._merged.note_rows(stream, found.key, held.place.since, held.committed.rows)
            held = None  # another location, created after that one was removed
        if held is None:
            first = self._merged.rows(stream, found.key, found.since)
            if found.rows <= first:
                return
            place = Place("intraday", stream, found.key, found.since, found.made_ms, first)
            directory = self._layout.intraday_location(self.name, found.key)
            held = Held(place, directory, Committed(found.rows, found.epoch, found.files))
            self._current[stream, found.key] = held
            self._add(held)
        elif found.rows > held.committed.rows and not held.left:
            held.committed = Committed(found.rows, found.epoch, found.files)
            self._pending[held.place] = held

    def _remove(self, stream: str, removal: Removal) -> None:
        """Maps what is left of a truncated location; ends the table if rows are gone that it cannot map any more."""
        held = self._current.get((stream, removal.key))
        if held is None or not _means(removal, held.place):
            if removal.rows > self._merged.rows(stream, removal.key, removal.since):
                raise self._unseen(removal.key.value)
            return
        if held.left:
            return
        what = "rows were merged and removed from intraday before this table had mapped them"
        if removal.phase == "delete" or removal.rows > held.committed.rows:
            raise held.gone(what)
        try:
            held.keep(self._fs, self.schema.columns, self._checks)
        except (FileNotFoundError, FormatError) as error:
            raise held.gone(what) from error
        # a delete that came meanwhile may have made place for another location
        changes = self._streams[stream].advance()
        if changes is not None:
            self._change(stream, self._streams[stream], changes)
            if changes.keys is None or any(r.phase == "delete" and _means(r, held.place) for r in changes.removals):
                raise held.gone(what)

    def _require_still(self, stream: str, follower: Follower, removals: tuple[Removal, ...]) -> None:
        """Of a stream that was loaded anew: each place is there, with its rows, or was truncated with them."""
        for (owner, at), held in list(self._current.items()):
            if owner != stream or held.left:
                continue
            found = follower.state.locations.get(at)
            same = found is not None and (found.since, found.made_ms) == (held.place.since, held.place.made_ms)
            removed = any(_means(removal, held.place) for removal in removals)
            if not removed and (not same or found is None or found.rows < held.committed.rows):
                raise held.gone("rows of this table are no longer in intraday")

    # --- history ---------------------------------------------------------------------------------------

    def _look_at_merges(self, every: bool) -> None:
        """Nothing changes where the rows of a merge are shown; a date of which there are none is added as history."""
        for record in self._merged.fresh(every=every):
            for stream, follower in self._streams.items():
                changes = follower.advance()
                if changes is not None:
                    self._change(stream, follower, changes)
            shown = [self._shows(record.value, key, rows) for key, rows in merged_rows(record).items()]
            if not shown or not all(shown):
                if any(held.place.at.value == record.value for held in self._held.values()):
                    raise self._unseen(record.value)
                for output in record.outputs:
                    if output.rows:
                        self._add_history(LocationKey(output.internal, record.value), output.rows, output.files)
            self._merged.note(record)

    def _shows(self, value: str, key: tuple[str, str, int], rows: int) -> bool:
        stream, internal, since = key
        at = LocationKey(internal, value)
        held = self._current.get((stream, at))
        if held is not None and held.place.since == since and held.committed.rows >= rows:
            return True
        return self._merged.rows(stream, at, since) >= rows

    def _unseen(self, value: str) -> SnapshotMovedError:
        return SnapshotMovedError(
            "a date was merged with rows that this table has not seen",
            where=self._layout.merges(self.name) / value,
            hint=AGAIN,
            phase="read",
        )


def _means(removal: Removal, place: Place) -> bool:
    made = {removal.made_ms, place.made_ms} - {0}
    return (removal.key, removal.since) == (place.at, place.since) and len(made) < 2
