"""Decides where a new generation starts: the sound records of the log, and the epochs that survived. Reads only.

A torn last record was never acknowledged and is ignored. A damaged earlier one is a CorruptFileError, except after a
power failure in mode ``periodic`` or ``none``: then records after the durable epoch were never synced, and the log ends
at the first damage.

*The durable prefix* is what of unsynced epochs survived a power failure or the end of the process (modes ``periodic``
and ``none``). Epochs up to the durable one are on disk. Of later ones any write may be lost, in any order; what holds
is the longest prefix of epochs whose files are long enough and whose running CRC-32 matches at every epoch. Only bytes
written after the durable epoch are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkhaven.store.epochs.files.logfile import KeptRecords
from sparkhaven.store.epochs.files.published_size import (
    DATA_OFFSET,
    TABLE_DEFINITION,
    Unsynced,
    data_start,
    physical_size,
)
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.log_reader import Newest, advance, read_newest, rolled_back_epochs_of
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord, Record, RollbackRecord, decode, encode
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.replay import RolledBackEpochs, StreamState, chain
from sparkhaven.store.errors import FormatError
from sparkhaven.store.format.column.prefix import decode_prefix
from sparkhaven.store.framing import HEADER, Survey, frame, refuse_damage, survey, walk
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.native.checked_columns import checksum, crc32
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.types.committed_columns import FileState


@dataclass(slots=True)
class _Trail:
    """The lengths and checksums of one file at successive epochs, from its durable one (None: new) on."""

    base: FileState | None
    marks: list[tuple[int, FileState]] = field(default_factory=list)


def first_lost(
    place: TablePlace, durable: Mapping[LocationKey, LocationState], commits: Iterable[CommitRecord]
) -> int | None:
    """The oldest of ``commits`` (in order, after the ``durable`` locations) that was lost; None if all survived."""
    trails: dict[Path, _Trail] = {}
    lost: list[int] = []
    for commit in commits:
        for report in commit.batch.reports:
            directory = place.intraday_location(report.key)
            base = durable.get(report.key)
            if report.base_epoch == 0:
                definition = place.fs.stat(directory / TABLE_DEFINITION)
                if definition is None or not definition.size:
                    lost.append(commit.epoch)
            for name, state in report.files.items():
                before = base.files.get(name) if base and report.base_epoch else None
                trail = trails.setdefault(directory / name, _Trail(before))
                trail.marks.append((commit.epoch, state))
    lost.extend(epoch for path, trail in trails.items() if (epoch := _first_bad(place.fs, path, trail)) is not None)
    return min(lost, default=None)


def first_unwritten(
    place: TablePlace, durable: Mapping[LocationKey, LocationState], commits: Sequence[CommitRecord]
) -> int | None:
    """The oldest lost commit if the machine did not restart: syncs the epochs and reads them back from disk.

    The error of an earlier sync is not reported again: the kernel has dropped those pages, and a second sync succeeds.
    So a successful sync proves nothing about epochs of an ended process. Missing or short files have another cause;
    the plan of recovery reports them as damage. OSError: a sync failed.
    """
    unsynced = Unsynced(place)
    unsynced.note(report for commit in commits for report in commit.batch.reports)
    paths = unsynced.files(place.fs)
    lengths: dict[Path, int] = {}
    for commit in commits:
        for report in commit.batch.reports:
            directory = place.intraday_location(report.key)
            lengths |= {directory / name: physical_size(name, state.size) for name, state in report.files.items()}
    for path, length in lengths.items():
        stat = place.fs.stat(path)
        if stat is None or stat.size < length:
            return None
    unsynced.sync(place.fs)
    place.fs.drop_cached(paths)
    return first_lost(place, durable, commits)


def _first_bad(fs: Fs, path: Path, trail: _Trail) -> int | None:
    stat = fs.stat(path)
    start = data_start(path.name)
    if stat is None or (start and trail.base is None and not _has_prefix(fs, path, stat.size)):
        return trail.marks[0][0]
    position, crc = (trail.base.size, trail.base.crc) if trail.base else (0, 0)
    for epoch, mark in trail.marks:
        if not position <= mark.size <= stat.size - start:
            return epoch
        position, crc = mark.size, checksum(fs, path, start + position, mark.size - position, crc)
        if crc != mark.crc:
            return epoch
    return None


def _has_prefix(fs: Fs, path: Path, size: int) -> bool:
    if size < DATA_OFFSET:
        return False
    try:
        decode_prefix(fs.read_range(path, 0, DATA_OFFSET), path)
    except FormatError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Resumed:
    """State at the newest surviving epoch, and the log up to it.

    ``log``: the start of the new log; ``more``: a record after it; the files of their epochs are synced. ``head_end``:
    offset of the last record in the head in use (0: no head). ``went_down``: there were unsynced epochs and another
    boot id. ``known_removals``: removals before this place name nothing beyond the log, since the head in use has
    applied them. ``working``: the oldest generation that may have left uncommitted files, that of the newest epoch.
    """

    state: StreamState
    log: KeptRecords
    removals_end: int
    more: bytes = b""
    last_removal: tuple[int, bytes] = (HEADER.size, b"")
    checkpoint_bytes: int = 0
    head_end: int = 0
    head_bytes: int = 0
    undone: RolledBackEpochs = field(default_factory=RolledBackEpochs)
    dropped_bytes: int = 0
    lost: tuple[int, ...] = ()
    went_down: bool = False
    known_removals: int = 0
    working: int = field(default=0, compare=False)  # from a head on it may be a later one, which has recovered


def resume(place: StreamPlace, *, boot_id: str, time_ms: int, settle: bool = True) -> Resumed:
    """Reads checkpoint, log and removals and decides which epochs survived. CorruptFileError: they are damaged.

    Without ``settle`` nothing is synced: pages in memory count as written.
    """
    path = place.stream_log
    if place.fs.stat(path) is None:
        return _first(place)
    files = _read(place)
    log_end = survey(files.opened.source, crc32=crc32)
    if files.head is not None and log_end.end < files.at:  # the damage lies before the head
        files = read_newest(place, cached=False)
    records, state, base = files.records, files.start, files.start.epoch
    begun = state.generation
    start = _first_kept(files, path)
    kept_log = KeptRecords(files.opened.epoch, start, max(start, log_end.end), files.opened.source)
    for record in records:
        state.note(record)
    went_down = state.boot_id != boot_id and not state.syncs_each_batch
    _refuse_damage(log_end, path, went_down=went_down)
    kept = chain(records, base, None, path)
    working = next((r.generation for r in reversed(records) if isinstance(r, EpochRecord)), begun)
    durable = _apply(state, kept, files)
    unsynced = [r for r in kept if isinstance(r, CommitRecord) and r.epoch > state.durable]
    lost: tuple[int, ...] = ()
    more = b""
    if unsynced:
        commits = [r for r in map(files.full, unsynced) if isinstance(r, CommitRecord)]
        with place.fs.during("resume-sync"):
            left = first_unwritten if settle and not went_down else first_lost
            first = left(place, durable, commits)
        if first is not None:
            gone = [r for r in commits if r.epoch >= first]
            rollback = _fall_back(kept, gone, state, base, time_ms)
            lost = tuple(r.epoch for r in gone)
            more = frame(encode(rollback))
            files = _read(place)
            files = replace(files, records=(*files.records, rollback))
            state, records = files.start, files.records
            advance(state, files, None, path)
    state.floor = files.opened.epoch
    removals = read_removals(place, files.removals)
    for _, removal in removals.entries:
        state.remove(removal)
    state.locations.settle()
    if files.head is None:
        state.files.read()  # else they are held in memory
    undone = rolled_back_epochs_of(records, base, files.full)
    last = files.head.last_removal if files.head and not removals.last[1] else removals.last
    return Resumed(
        state=state,
        log=kept_log,
        more=more,
        removals_end=removals.end,
        last_removal=last,
        checkpoint_bytes=files.opened.checkpoint_bytes,
        head_end=HEADER.size + files.at - start if files.head else 0,
        head_bytes=files.head.size if files.head else 0,
        undone=files.head.undone + undone if files.head else undone,
        dropped_bytes=log_end.rest,
        lost=lost,
        went_down=went_down,
        known_removals=files.removals if files.head else 0,
        working=working,
    )


def _first_kept(files: Newest, path: Path) -> int:
    for part in walk(files.opened.source):
        if decode(part.payload, f"{path} at byte {part.offset}", reports=False).n > files.opened.folded:
            return part.offset
    return HEADER.size


def _read(place: StreamPlace) -> Newest:
    """Reads from the head on, unless earlier epochs may be unsynced: then their records are needed."""
    files = read_newest(place, held=True)
    if files.head is not None:
        noted = replace(files.start)
        for record in files.records:
            noted.note(record)
        if noted.durable < files.start.epoch:
            return read_newest(place, cached=False)
    return files


def _first(place: StreamPlace) -> Resumed:
    refuse(witness for witness in Witnesses(place, ()).all() if witness.stream == place.stream)
    removals = read_removals(place)
    return Resumed(StreamState(place.stream), KeptRecords(0), removals.end, last_removal=removals.last)


def _refuse_damage(log_end: Survey, path: Path, *, went_down: bool) -> None:
    later = [decode(part.payload, f"{path} at byte {part.offset}", reports=False) for part in log_end.beyond]
    if not went_down or any(not isinstance(record, CommitRecord) for record in later):
        refuse_damage(log_end, path)


def _apply(state: StreamState, kept: list[Record], files: Newest) -> Mapping[LocationKey, LocationState]:
    """Advances the state along the chain; returns the locations as of the durable epoch."""
    snapshot: Mapping[LocationKey, LocationState] | None = None
    durable = state.durable
    for record in kept:
        if snapshot is None and isinstance(record, CommitRecord) and record.epoch > durable:
            snapshot = dict(state.locations)
        state.apply(files.full(record), later=files.head is not None)
    return snapshot if snapshot is not None else state.locations


def _fall_back(
    kept: list[Record], gone: list[CommitRecord], state: StreamState, base: int, time_ms: int
) -> RollbackRecord:
    epochs = [r.epoch for r in kept if isinstance(r, EpochRecord) and r.epoch < gone[0].epoch]
    touched = {report.key for record in gone for report in record.batch.reports if report.base_epoch}
    return RollbackRecord(
        n=state.n + 1,
        epoch=state.epoch + 1,
        generation=state.generation,
        time_ms=time_ms,
        to=epochs[-1] if epochs else base,
        reason="these epochs were not synced, and the disk does not have them",
        changed=tuple(sorted(touched)),
    )
