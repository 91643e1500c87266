"""One table as an engine sees it: intraday and history, each row once, growing with every committed epoch.

An engine only ever appends. So a row that was shown stays as it was: a merge changes nothing of an attached table,
because its intraday locations go on showing the rows that are now in history as well; a truncate or delete leaves the
rows in mappings that were made before. Where that cannot be, because epochs that were shown were rolled back, or files
were gone before they were mapped, the table *ends* with a SnapshotMovedError: it never shows a wrong row.

Order of a look (``advance``), under the lock of the table: 1. records of the logs, 2. rows of grown locations, 3.
removals, of which each maps what is left of its location, 4. new streams and merged dates, if ``wide``. Values are
mapped first and then the logs are looked at, as every reader does (``store.epochs.pins``).

Each stream's commit log is followed: which locations each new record has grown, rolled back or removed. Without new
records a look costs two ``stat`` calls, else reading the records since the last look. Only after a rollback, or where
log or removals were replaced, the stream is loaded anew.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from sparkhaven.readers.arrow.opening import pinned_table
from sparkhaven.readers.arrow.slices import schema_moved
from sparkhaven.readers.live.live_column import LiveColumn, Plain, ServedSchema, served_schema
from sparkhaven.readers.live.shown_locations import Committed, Held, LiveLocation, Mapped, ShownPlaces, Update
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.reading.log_reader import read_on, read_rollbacks
from sparkhaven.store.epochs.reading.stream_state import Loaded, list_streams, load_read
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.log_records import CommitRecord, Record, RollbackRecord, WithdrawRecord
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.epochs.state.replay import StreamState, grown, restored
from sparkhaven.store.errors import (
    FormatError,
    SchemaMismatchError,
    SnapshotMovedError,
    SparkhavenError,
    as_ours,
    as_storage_errors,
    replaced,
)
from sparkhaven.store.expressions.predicate.nodes import Key, Lookup
from sparkhaven.store.framing import refuse_damage
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.scan.checksums import Checks
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.narrowing import indexed_rows
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import NOW, Column, Form, Kind, TableSchema
from sparkhaven.store.types.null_char import has_other_null, with_null_char
from sparkhaven.store.types.row_ranges import RowRanges


@dataclass(frozen=True, slots=True)
class LocationChanges:
    """What new records did. ``keys``: locations that may have grown; None: any of them.

    ``restored``: the oldest epoch that a rollback went back to. ``removals`` were recorded after the rows of ``keys``.
    """

    keys: frozenset[LocationKey] | None
    removals: tuple[Removal, ...] = ()
    restored: int | None = None


class Follower:
    """The newest state of one stream. Raises what ``load_read`` raises; not thread-safe."""

    _seen: tuple[Stat | None, Stat | None]
    _end: tuple[int, bytes]
    _removals_end: int

    def __init__(self, place: StreamPlace) -> None:
        self._place = place
        self._log, self._removals = place.stream_log, place.stream_removals
        self._load()

    @property
    def state(self) -> StreamState:
        """Epoch and locations; replaced or changed by ``advance`` and ``remove``."""
        return self._loaded.state

    @property
    def committed_ms(self) -> int:
        """Time of the newest commit that was read (ms since the epoch); 0 before the first."""
        return self._committed_ms

    def pin(self) -> Pin:
        """The state as a pin of snapshots, until the next ``advance``."""
        return Pin(self._place, self._loaded, self._seen)

    def advance(self) -> LocationChanges | None:
        """Reads what was recorded since and applies the commits; None: nothing was.

        The caller takes the rows of grown locations, and then calls ``remove`` with the removals.
        SnapshotMovedError: the log is gone, or older than what was read.
        """
        stats = self._place.fs.stat(self._log), self._place.fs.stat(self._removals)
        if stats == self._seen:
            return None
        if stats[0] is None:
            raise self._moved("the commit log is gone", "nothing")
        # the log after the removals: so it has every commit that came before them
        new = read_removals(self._place, self._removals_end) if stats[1] != self._seen[1] else None
        records = self._appended()
        removals = tuple(removal for _, removal in new.entries) if new else ()
        if records is None or any(isinstance(record, RollbackRecord) for record in records):
            return self._again()
        if new:
            self._removals_end = max(self._removals_end, new.end)
        self._seen = stats
        keys: set[LocationKey] = set()
        for record in records:
            keys |= self._apply(record)
        return LocationChanges(frozenset(keys), removals)

    def remove(self, removals: tuple[Removal, ...]) -> None:
        """Applies removals; of a state that was loaded anew they are already part."""
        for removal in removals:
            self.state.remove(removal)

    def _apply(self, record: Record) -> set[LocationKey]:
        state = self.state
        state.n = record.n
        if isinstance(record, WithdrawRecord):
            state.apply(record)
            return {part.key for part in record.locations}
        if not isinstance(record, CommitRecord):
            return set()
        batch = record.batch
        for report in batch.reports:
            before = state.locations.get(report.key)
            state.locations[report.key] = grown(before, report, record.epoch, batch.schema_version, batch.time_ms)
        state.epoch, self._committed_ms = record.epoch, batch.time_ms
        return {report.key for report in batch.reports}

    def _appended(self) -> list[Record] | None:
        """The records after the last known one; None: the log does not continue from there."""
        more = read_on(self._place, self._end, self.state.n)
        if more is None:
            return None
        records, end = more
        self._end = end.last
        return records

    def _again(self) -> LocationChanges:
        """Loads the stream anew: what it shows may be any state after the last one."""
        before, end = self.state, self._removals_end
        self._load()
        if self.state.n < before.n:
            raise self._moved("the commit log is older than what was read from it", f"record {self.state.n}")
        rollbacks = read_rollbacks(self._place)
        refuse_damage(rollbacks.found, self._log)
        older = restored((*rollbacks.folded, *rollbacks.logged), before.epoch)
        removals = tuple(removal for _, removal in read_removals(self._place, end).entries)
        return LocationChanges(None, removals, older)

    def _load(self) -> None:
        self._seen = (
            self._place.fs.stat(self._log),
            self._place.fs.stat(self._removals),
        )  # before reading: later is read again
        self._loaded: Loaded = load_read(self._place)
        self._end = self._loaded.found.last
        self._removals_end = self._loaded.removals_end
        self._committed_ms = 0

    def _moved(self, message: str, state: str) -> SnapshotMovedError:
        return SnapshotMovedError(
            message,
            where=self._log,
            expected=f"record {self.state.n} or a later one",
            found=state,
            hint="if it was restored from an older copy, restore it from a newer one",
            phase="read",
        )


class LiveIndexes:
    """Of one table, whose ``schema`` is that of its opening. What was opened stays open, as for other reads."""

    def __init__(self, fs: Fs, schema: TableSchema, checks: Checks | None) -> None:
        self._schema, self._files = schema, LocationFiles(fs, checks)
        self._leading = {keys[0] for keys in schema.built_indexes}

    def has(self, name: str) -> bool:
        """Whether merges write an index that begins with a column."""
        column = self._column(name)
        return column is not None and (column.kind is Kind.GROUPING or name in self._leading)

    def _column(self, name: str) -> Column | None:
        """A column of which indexes know the nulls."""
        column = self._schema.column(name)
        return None if column is None or has_other_null(column) else column

    def rows(self, held: Held, shown: Committed, name: str, keys: Sequence[Key]) -> RowRanges | None:
        """Rows of a location in which a column has one of these values; None: no index tells, or it saves nothing."""
        column = self._column(name)
        if held.place.tier != "history" or column is None or self._schema.version < shown.named_by < NOW:
            return None  # of a later version it is not known whose names an index has
        rows = (0, shown.rows, shown.rows)
        held_at = held.place.at, str(held.directory)
        named = shown.named_by
        whole = Slice("history", None, *held_at, *rows, shown.files, {}, indexes=shown.indexes, named_by=named)
        values = tuple(None if key == column.type.null else key for key in keys)
        return indexed_rows(self._files, self._schema, whole, Lookup("in", name, values))


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
                committed = Committed(slice_.rows, 0, slice_.files, slice_.indexes, slice_.named_by)
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
