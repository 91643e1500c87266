"""Follows the commit log of one stream: which locations each new record has grown, rolled back or removed.

Without new records a look costs two ``stat`` calls, else reading the records since the last look. Only after a
rollback, or where log or removals were replaced, the stream is loaded anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.reading.log_reader import read_rollbacks
from sparkhaven.store.epochs.reading.stream_state import Loaded, load_read
from sparkhaven.store.epochs.state.log_records import CommitRecord, Record, RollbackRecord, WithdrawRecord, decode
from sparkhaven.store.epochs.state.replay import StreamState, grown
from sparkhaven.store.epochs.state.rollbacks import restored
from sparkhaven.store.epochs.state.tombstone import Removal
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.framing.log_frames import FRAME, frame, refuse_damage, scan
from sparkhaven.store.io.fs import Stat
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import StreamPlace


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
    _last: int
    _mark: bytes
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
        stat = self._place.fs.stat(self._log)
        if stat is None or not self._mark or stat.size < self._last + FRAME.size:
            return None
        try:
            data = self._place.fs.read_range(self._log, self._last, stat.size - self._last)
        except (CorruptFileError, FileNotFoundError):
            return None  # replaced by a shorter one just now
        frames = scan(data, 0)
        if data[: FRAME.size] != self._mark or not frames.frames or frames.beyond:
            return None
        records = [decode(log_frame.payload, self._log) for log_frame in frames.frames[1:]]
        if [record.n for record in records] != list(range(self.state.n + 1, self.state.n + 1 + len(records))):
            return None
        last = frames.frames[-1]
        self._last, self._mark = self._last + last.offset, frame(last.payload)[: FRAME.size]
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
        self._last, self._mark = self._loaded.found.last
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
