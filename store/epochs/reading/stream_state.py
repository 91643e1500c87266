"""Reading a stream's commit log without changing anything: for readers, maintenance, and the log's own recovery.

``known_state`` reads what is left of a log, whatever of its files is lost or damaged.

``newest_state`` keeps the states that this process has read: a state is read on where its log has grown. A change is
seen by inode, size or time of change. Other bytes of the same length would be missed if they were written in place
within a tick of the kernel's clock after the read. No program of ours does that: logs and removals grow, all other
files are replaced.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sparkhaven.store.epochs.files.checkpoint import open_saved
from sparkhaven.store.epochs.files.head import decode_head, open_head
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.log_reader import advance, read_files, read_newest, read_on, read_rollbacks
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_records import (
    CommitRecord,
    EpochRecord,
    OpenRecord,
    Record,
    RollbackRecord,
    SyncRecord,
    WithdrawRecord,
)
from sparkhaven.store.epochs.state.log_values import OffsetRange, absent_in, ignored_in, rejected_in
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.epochs.state.removed_locations import Named
from sparkhaven.store.epochs.state.replay import StreamState, chain, furthest_back
from sparkhaven.store.errors import CorruptFileError, FormatError, TableNotFoundError
from sparkhaven.store.framing import Survey, refuse_damage
from sparkhaven.store.gc_pause import gc_paused
from sparkhaven.store.io.open_files import Identity
from sparkhaven.store.places import StreamPlace, TablePlace

MOST = 16  # streams whose state stays in memory
MOST_RECORDS = 1024
FEW = 64  # locations of a record that are changed at once; those of a larger one when they are asked for


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state, the end of the log that it was read from, and the end of the removals applied to it.

    ``last``: the last of these removals, as ``last_removal`` takes it. ``named``: newest epoch and generation in the
    removals that neither checkpoint nor head has folded in.
    """

    state: StreamState
    found: Survey
    removals_end: int
    last: tuple[int, bytes]
    named: Named


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """One epoch of the list of epochs; ``live`` is False if it was rolled back. ``ranges`` and ``gaps`` of offsets.

    ``counts`` are those of its batch: rows rejected by reason, fields not stored by name, and the like. ``oldest_ns``:
    the oldest modification time of its files (ns since the epoch), None without files. ``withdrawn``: rows that it took
    out; ``undoes``: the epochs whose rows these are, where they are all of those. ``seconds``: since the live commit
    before it, of a live commit that has one in the log.
    """

    epoch: int
    kind: Literal["commit", "rollback", "withdraw"]
    generation: int
    time_ms: int
    query_id: str | None
    batch_id: int | None
    rows: int
    locations: int
    files: int
    restores: int | None
    live: bool
    ranges: tuple[OffsetRange, ...] = ()
    gaps: tuple[OffsetRange, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    oldest_ns: int | None = None
    withdrawn: int = 0
    undoes: tuple[int, ...] = ()
    seconds: float | None = None
    schema_version: int | None = None

    @property
    def messages(self) -> int:
        return sum(part.messages for part in self.ranges)

    @property
    def is_commit(self) -> bool:
        """Whether it is a batch that was not rolled back."""
        return self.live and self.kind == "commit"

    @property
    def lag(self) -> float | None:
        """Seconds for which its oldest file had waited when it was committed; None without files."""
        if self.oldest_ns is None or self.oldest_ns <= 0:
            return None
        return round(max(0.0, self.time_ms / 1000 - self.oldest_ns / 1e9), 3)

    @property
    def rejected(self) -> dict[str, int]:
        """Its rejected rows by reason code."""
        return rejected_in(self.counts)

    @property
    def ignored(self) -> dict[str, int]:
        """Fields that no column took, with their number of rows."""
        return ignored_in(self.counts)

    @property
    def absent(self) -> dict[str, int]:
        """Columns whose field rows did not have, with their number of rows."""
        return absent_in(self.counts)


def list_streams(place: TablePlace) -> list[str]:
    """Names of the streams of a table that have a commit log, sorted."""
    names = place.fs.names(place.streams)
    return [name[:-4] for name in names if name.endswith(".log") and not name.startswith(".")]


def load_stream(place: StreamPlace, *, epoch: int | None = None, cached: bool = True) -> StreamState:
    """The state of a stream at its newest epoch, or at any epoch above the rollback floor.

    Removals apply to every epoch. Without ``cached`` the head is not used. TableNotFoundError: there is no such stream,
    or the epoch is not kept. CorruptFileError: log or checkpoint is damaged (a torn last record is not damage: it was
    never acknowledged).
    """
    return load_read(place, epoch=epoch, cached=cached).state


def newest_states(place: TablePlace) -> list[StreamState]:
    return [load_stream(place.of_stream(stream)) for stream in list_streams(place)]


def load_read(place: StreamPlace, *, epoch: int | None = None, cached: bool = True) -> Loaded:
    """Loads the state of a stream, with the ends of its log and removals."""
    path = place.stream_log
    with gc_paused():
        files = read_newest(place, cached=cached and epoch is None)
        refuse_damage(files.found, path)
        state = files.start
        advance(state, files, epoch, path)
    state.floor = files.opened.epoch
    removals = read_removals(place, files.removals)
    for _, removal in removals.entries:
        state.remove(removal)
    return Loaded(state, files.found, removals.end, removals.last, removals.named)


def _without_locations(place: StreamPlace) -> StreamState:
    path = place.stream_log
    with gc_paused():
        files = read_newest(place, reports=False)
        refuse_damage(files.found, path)
        state = files.start
        advance(state, files, None, path, locations=False)
        state.files.read()
    return state


def load_joint_positions(places: Sequence[StreamPlace]) -> tuple[FileWindow, Offsets]:
    """What all of some tables have taken of the source that they are fed from; a stream that is not there has nothing.

    Raises what ``load_stream`` raises of a log that is there.
    """
    states = []
    for place in places:
        with suppress(TableNotFoundError):
            states.append(_without_locations(place))
    state = furthest_back(states or [StreamState("")])
    return state.files, state.offsets


def list_epochs(place: StreamPlace) -> list[EpochEntry]:
    """The epochs in the log, oldest first: those between the floor and now, and those rolled back since."""
    files = read_files(place)
    path = place.stream_log
    refuse_damage(files.found, path)
    live = {record.n for record in chain(files.records, files.epoch, None, path)}
    records = (files.full(r) for r in files.records if isinstance(r, EpochRecord))
    return _timed(_entry(r, r.n in live) for r in records if isinstance(r, EpochRecord))


def _timed(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    timed: list[EpochEntry] = []
    before: int | None = None
    for entry in entries:
        if entry.is_commit:
            if before is not None:
                entry = replace(entry, seconds=max(0, entry.time_ms - before) / 1000)
            before = entry.time_ms
        timed.append(entry)
    return timed


def list_rollbacks(place: StreamPlace) -> list[tuple[int, int]]:
    """The rollbacks in the log, oldest first: (epoch of the rollback, restored epoch). Decodes only those records."""
    rollbacks = read_rollbacks(place)
    refuse_damage(rollbacks.found, place.stream_log)
    return [(epoch, to) for to, epoch in rollbacks.logged]


def _entry(record: EpochRecord, live: bool) -> EpochEntry:
    epoch, generation = record.epoch, record.generation
    if isinstance(record, RollbackRecord):
        changed = len(record.changed)
        return EpochEntry(epoch, "rollback", generation, record.time_ms, None, None, 0, changed, 0, record.to, live)
    if isinstance(record, WithdrawRecord):
        numbers = 0, len(record.locations), 0, None, live
        entry = EpochEntry(epoch, "withdraw", generation, record.time_ms, None, None, *numbers)
        return replace(entry, withdrawn=record.rows, undoes=record.undoes)
    batch = record.batch
    counts = batch.rows, len(batch.reports), len(batch.files)
    names = batch.time_ms, batch.query_id, batch.batch_id
    oldest = min((file.mtime_ns for file in batch.files), default=None)
    spans = batch.ranges, batch.gaps
    entry = EpochEntry(epoch, "commit", generation, *names, *counts, None, live, *spans, batch.counts, oldest)
    return replace(entry, schema_version=batch.schema_version)


def known_state(place: StreamPlace) -> StreamState:
    """The newest state of log with checkpoint, checkpoint alone, and head alone; empty if none is readable."""
    states = [StreamState(place.stream)]
    with suppress(FormatError, TableNotFoundError):
        states.append(load_stream(place))
    with suppress(FileNotFoundError, FormatError):
        path = place.stream_checkpoint
        saved = open_saved(place.fs.read(path), path)
        saved.check()
        states.append(_whole(saved.decode(place.stream).state))
    with suppress(FileNotFoundError, FormatError):
        path = place.stream_head
        data = place.fs.read(path)
        head = open_head(data, path)
        head.check()
        states.append(_whole(decode_head(head, place.stream, len(data)).state))
    return max(states, key=lambda state: (state.epoch, state.n))


def _whole(state: StreamState) -> StreamState:
    """Decodes what a state leaves for later; CorruptFileError where that is damaged."""
    state.locations.settle()
    state.files.read()
    return state


_Files = tuple[tuple[Identity, ...] | None, ...]  # of log, checkpoint, head and removals
_KEPT: OrderedDict[Path, _Kept] = OrderedDict()  # by the path of the log
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Kept:
    """A state, which nobody changes, what its files were before it was read, and how many records were read on."""

    files: _Files
    loaded: Loaded
    records: int = 0


def newest_state(place: StreamPlace, *, most_records: int = MOST_RECORDS) -> Loaded:
    """The newest state of a stream, for a caller who may change its locations; raises what ``load_stream`` raises.

    After ``most_records`` that were read on, it is read from its head again.
    """
    log = place.stream_log
    names = [log.name, place.stream_checkpoint.name, place.stream_head.name, place.stream_removals.name]
    files = tuple(place.fs.identities(log.parent, [name]) for name in names)  # before reading
    with _LOCK:
        kept = _KEPT.get(log)
    if kept is None or kept.files != files:
        if kept is not None:
            kept = _read_on(place, kept, files) if kept.records <= most_records else None
        kept = kept or _Kept(files, load_read(place))
        with _LOCK:
            _KEPT[log] = kept
            _KEPT.move_to_end(log)
            while len(_KEPT) > MOST:
                _KEPT.popitem(last=False)
    state = kept.loaded.state
    return replace(kept.loaded, state=replace(state, locations=state.locations.copy()))


def _read_on(place: StreamPlace, known: _Kept, files: _Files) -> _Kept | None:
    """The state after what the log has more than before; None where it has to be read anew."""
    loaded = known.loaded
    if not _has_grown(known.files, files):
        return None
    try:
        more = read_on(place, loaded.found.last, loaded.state.n)
        if more is None or not all(isinstance(record, CommitRecord | OpenRecord | SyncRecord) for record in more[0]):
            return None
    except CorruptFileError:
        return None  # which is told when it is read anew
    (records, end), state = more, loaded.state
    state = replace(
        state, locations=state.locations.copy(), files=state.files.fork(), offsets=Offsets(dict(state.offsets.items()))
    )
    for record in records:
        state.note(record)
        state.apply(record, later=_is_large(record))
    return _Kept(files, replace(loaded, state=state, found=end), known.records + len(records))


def _has_grown(before: _Files, now: _Files) -> bool:
    """Whether the log has, in place, and nothing else that a state is made of is another one: the head is a cache."""
    (log_before, checkpoint_before, _, removals_before), (log, checkpoint, _, removals) = before, now
    if log_before is None or log is None or (checkpoint_before, removals_before) != (checkpoint, removals):
        return False
    return log_before[0][:2] == log[0][:2] and log_before[0][2] <= log[0][2]


def _is_large(record: Record) -> bool:
    return isinstance(record, CommitRecord) and len(record.batch.reports) > FEW
