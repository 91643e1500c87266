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
from collections.abc import Sequence
from itertools import chain

import pyarrow as pa

from sparkhaven.readers.arrow.opening import pinned_table
from sparkhaven.readers.arrow.slices import schema_moved
from sparkhaven.readers.live.follower import Follower, LocationChanges
from sparkhaven.readers.live.live_column import LiveColumn, Plain
from sparkhaven.readers.live.live_indexes import LiveIndexes
from sparkhaven.readers.live.live_locations import Committed, Held, LiveLocation, Mapped
from sparkhaven.readers.live.served_columns import ServedSchema, served_schema
from sparkhaven.readers.live.shown_locations import ShownPlaces, Update
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.errors import FormatError, SchemaMismatchError, SnapshotMovedError, SparkhavenError, replaced
from sparkhaven.store.expressions.predicate.lookups import Key
from sparkhaven.store.io.system_errors import as_ours, as_storage_errors
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import Form
from sparkhaven.store.types.null_char import with_null_char
from sparkhaven.store.types.row_ranges import RowRanges

MAX_ROWS, MAX_PLACES = 1 << 43, 1 << 20  # of an engine: rows a location, locations a table
MEMORY = 256 << 20  # bytes of small files and symbols that a table keeps
_ATTEMPTS = 5


class LiveTable:
    """A table from now on. Raises what opening a table raises, and UnsupportedVersionError for a type that engines
    cannot take. Thread-safe."""

    def __init__(
        self, place: TablePlace, checks: Checks | None = None, *, memory: int = MEMORY, null_char: int = CHAR_NULL
    ) -> None:
        self._null_char = null_char
        self._place, self.name, self._checks = place, place.table, checks
        self._lock = threading.RLock()
        self._mapped = Mapped(memory)
        self._shown = ShownPlaces(place)
        self._indexes: LiveIndexes | None = None
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
        place = self._place
        self._shown = ShownPlaces(place)
        self._schema_seen = place.fs.stat(place.schema)
        schema = with_null_char(load_deployed(place), self._null_char)
        self.schema: ServedSchema = served_schema(schema)
        self._indexes = LiveIndexes(place.fs, schema, self._checks)
        self._streams = {stream: Follower(place.of_stream(stream)) for stream in list_streams(place)}
        if not self._streams:
            refuse(Witnesses(place, ()).locations())
        pins = [follower.pin() for follower in self._streams.values()]
        table = pinned_table(place, schema, pins, self._checks)
        plan = table.plan()
        for record in plan.records:
            self._shown.merged.note(record)
        for slice_ in plan.slices:
            if slice_.stream is None:
                committed = Committed(slice_.rows, 0, slice_.files, slice_.indexes)
                self._shown.add_history(slice_.key, committed, slice_.chosen)
            else:
                self._shown.grow(slice_.stream, self._streams[slice_.stream].state.locations[slice_.key])
        if len(self._shown.held) > MAX_PLACES:
            raise SnapshotMovedError("table has too many locations for an engine", expected=MAX_PLACES)
        self.publish()

    def places(self) -> list[LiveLocation]:
        with self._lock:
            return [location for location, held in self._shown.held.items() if held.shown]

    def size(self, location: LiveLocation) -> int:
        with self._lock:
            return self._shown.held[location].size

    def values(self, location: LiveLocation, name: str, offset: int, least: int, most: int) -> pa.Array:
        """Values of a column from row ``offset`` of a place on: at least and at most so many, and none beyond its size.

        SnapshotMovedError: the rows are gone. CorruptFileError: they are not those that were committed.
        """
        held, shown, column = self._column(location, name)
        rows = location.shown_of(shown.rows) if shown else location.first
        start, stop = location.first + offset, min(location.first + offset + most, rows)
        if stop - start < least:
            raise IndexError(f"rows [{offset}, {offset + least}) of {rows - location.first} in {location}")
        if shown is not None and column.rows < stop:
            self._map(held, shown, column, name)
        with as_storage_errors():
            return column.read(start, stop)

    def plain(self, location: LiveLocation, name: str) -> Plain | None:
        """All shown rows of a column as they are mapped; None: they are not. Raises what ``values`` raises."""
        held, shown, column = self._column(location, name)
        if shown is None:
            return None
        if column.rows < shown.rows:
            self._map(held, shown, column, name)
        with as_storage_errors():
            return column.plain(location.first, location.shown_of(shown.rows))

    def is_indexed(self, name: str) -> bool:
        """Whether merges write an index that begins with a column."""
        return self._indexes is not None and self._indexes.has(name)

    def indexed_rows(self, location: LiveLocation, name: str, keys: Sequence[Key]) -> RowRanges | None:
        """Rows of a place in which a column has one of these values; None: no index tells."""
        with self._lock:
            self._require_open()
            held = self._shown.held[location]
        if self._indexes is None or held.shown is None:
            return None
        return self._indexes.rows(held, held.shown, name, keys)

    def _column(self, location: LiveLocation, name: str) -> tuple[Held, Committed | None, LiveColumn]:
        with self._lock:
            self._require_open()
            held = self._shown.held[location]
            if name not in held.columns:
                self._learn_names()
            return held, held.shown, held.column(self._place.fs, self.schema.column(name), self._checks)

    def _require_open(self) -> None:
        """Raises an error like that of an ended table: the frames of one that is kept would keep mappings."""
        if self.error is not None:
            raise replaced(self.error)

    def _learn_names(self) -> None:
        """Before files are looked for: a column may have been renamed since, and have another name in newer ones."""
        stat = self._place.fs.stat(self._place.schema)
        if stat != self._schema_seen:
            self.schema = self.schema.known_as(with_null_char(load_deployed(self._place), self._null_char))
            self._schema_seen = stat

    def _map(self, held: Held, shown: Committed, column: LiveColumn, name: str) -> None:
        """Maps a column, then looks whether the rows were still there."""
        failed: Exception | None = None
        try:
            column.map(shown.rows, shown.files)
        except (OSError, FormatError, SchemaMismatchError) as error:
            failed = error
        self._confirm(held)
        if isinstance(failed, SchemaMismatchError) and self._is_widened(name):
            self._end(schema_moved(held.directory, name, "has another type now"))
        if failed is not None and held.place.tier == "history" and self._place.fs.stat(held.directory) is None:
            self._end(held.gone("history of this date was merged again, and what it replaced has been removed"))
        self._require_open()
        if failed is not None:
            raise as_ours(failed) if isinstance(failed, OSError) else failed
        with self._lock:
            self._mapped.add(held, name)

    def _is_widened(self, name: str) -> bool:
        """Whether the deployed schema has a wider form of a column than the engine."""
        served, deployed = self.schema.column(name), load_deployed(self._place)
        forms = [column.forms for column in deployed.columns if column.id == served.id]
        return Form(served.type, served.storage) in chain(*forms)

    def _confirm(self, held: Held) -> None:
        """After files of a place were mapped: looks whether they were still those of the place."""
        if held.place.tier == "intraday":
            self.advance()

    @property
    def rows(self) -> int:
        with self._lock:
            return sum(held.size for held in self._shown.held.values())

    @property
    def committed_ms(self) -> int:
        """Time of the newest commit that was seen since the table was opened (ms since the epoch), or 0."""
        return max((follower.committed_ms for follower in self._streams.values()), default=0)

    @property
    def waits(self) -> bool:
        return bool(self._shown.pending) or self.error is not None

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
            return self._shown.publish()

    def release(self) -> None:
        """Lets mappings, copies and places go: nobody follows the table any more, or it has ended."""
        with self._lock:
            for held in self._shown.held.values():
                held.columns.clear()
            self._shown = ShownPlaces(self._place)
            self._streams = {}
            self._indexes = None
            self._mapped.clear()

    def _end(self, error: SparkhavenError) -> None:
        with self._lock:
            self.error = self.error or error.with_traceback(None)  # its frames would keep mappings

    def _look(self, wide: bool) -> None:
        again = False
        if wide:
            for stream in list_streams(self._place):
                if stream not in self._streams:
                    follower = self._streams[stream] = Follower(self._place.of_stream(stream))
                    for location in follower.state.locations.values():
                        self._shown.grow(stream, location)
        for stream, follower in self._streams.items():
            changes = follower.advance()
            if changes is not None:
                self._change(stream, follower, changes)
                again = again or changes.keys is None
        if wide or again:
            self._look_at_merges(again)

    def _change(self, stream: str, follower: Follower, changes: LocationChanges) -> None:
        locations, again = follower.state.locations, changes.keys is None
        if changes.restored is not None:
            self._shown.roll_back(stream, changes.restored)
        for key in locations if changes.keys is None else changes.keys:
            if key in locations:
                self._shown.grow(stream, locations[key])
        if again:
            self._shown.require_still(stream, locations, changes.removals)
        for removal in changes.removals:
            self._learn_names()
            mapped = self._shown.remove(self._place.fs, stream, removal, self.schema.columns, self._checks)
            later = follower.advance() if mapped else None
            if mapped and later is not None:
                self._change(stream, follower, later)
                self._shown.require_kept(mapped, None if later.keys is None else later.removals)
        if not again:
            follower.remove(changes.removals)

    def _look_at_merges(self, newer: bool) -> None:
        for record in self._shown.merged.fresh(newer=newer):
            for stream, follower in self._streams.items():
                changes = follower.advance()
                if changes is not None:
                    self._change(stream, follower, changes)
            self._shown.merge(record)
