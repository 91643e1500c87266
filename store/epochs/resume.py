"""What a new generation starts from: the sound records of the log, and which epochs outlived a power cut. Reads only.

The last record may be torn: it was never acknowledged and is left out. A damaged earlier one is a CorruptFileError,
except where the machine went down in mode ``periodic`` or ``none``: then records after the durable epoch were never
synced, and what is left of them ends at the first damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.epochs.framing import LOG_MAGIC, Scan, frame, header, refuse_damage
from store.epochs.load import LogFiles, read_files
from store.epochs.records import CommitRecord, Record, RollbackRecord, decode, encode
from store.epochs.removals import read_removals
from store.epochs.replay import StreamState, chain
from store.epochs.state import LocationState
from store.epochs.survivors import first_lost, first_unwritten
from store.errors import CorruptFileError
from store.fs import Fs
from store.layout import Layout, LocationKey, TableName


@dataclass(frozen=True, slots=True)
class Resumed:
    """State at the newest epoch that holds, and the log up to it.

    ``log`` is what the new log begins with; the files of its epochs are on disk.
    ``rolled_back`` are locations that only rolled-back records know, ``dead`` the epochs that were rolled back, each
    (last that stays, last that goes). ``went_down`` is True when epochs without a sync met another boot id.
    """

    state: StreamState
    log: bytes
    removals_end: int
    checkpoint_bytes: int = 0
    rolled_back: frozenset[LocationKey] = frozenset()
    dead: tuple[tuple[int, int], ...] = ()
    dropped_bytes: int = 0
    lost: tuple[int, ...] = ()
    went_down: bool = False


def resume(fs: Fs, layout: Layout, table: TableName, stream: str, *, boot_id: str, time_ms: int) -> Resumed:
    """Reads checkpoint, log and removals and decides what holds; CorruptFileError where that cannot be told."""
    path = layout.stream_log(table, stream)
    if fs.stat(path) is None:
        return _first(fs, layout, table, stream, path)
    files = read_files(fs, layout, table, stream)
    records = files.records
    log = header(LOG_MAGIC, files.checkpoint.state.epoch) + b"".join(files.log[f.offset : f.end] for f in files.frames)
    state = files.checkpoint.state
    floor = state.epoch
    for record in records:
        state.note(record)
    went_down = state.boot_id != boot_id and state.durability != "fsync"
    _refuse_damage(files.found, path, went_down=went_down)
    kept = chain(records, floor, None, path)
    durable = _apply(state, kept, state.durable)
    unsynced = [r for r in kept if isinstance(r, CommitRecord) and r.epoch > state.durable]
    lost: tuple[int, ...] = ()
    if unsynced:
        with fs.during("resume-sync"):
            left = first_lost if went_down else first_unwritten
            first = left(fs, layout, table, durable, unsynced)
        if first is not None:
            gone = [r for r in unsynced if r.epoch >= first]
            rollback = _fall_back(kept, gone, state, floor, time_ms)
            lost, records = tuple(r.epoch for r in gone), (*records, rollback)
            log += frame(encode(rollback))
            state = _state_after(fs, layout, table, stream, records, path)
            kept = chain(records, floor, None, path)
    state.floor = floor
    removals = read_removals(fs, layout, table, stream, files.checkpoint.removals)
    for _, removal in removals.entries:
        state.remove(removal)
    return Resumed(
        state=state,
        log=log,
        removals_end=removals.end,
        checkpoint_bytes=files.checkpoint_bytes,
        rolled_back=_only_rolled_back(records, kept),
        dead=tuple((record.to, record.epoch) for record in records if isinstance(record, RollbackRecord)),
        dropped_bytes=files.found.rest,
        lost=lost,
        went_down=went_down,
    )


def _first(fs: Fs, layout: Layout, table: TableName, stream: str, path: Path) -> Resumed:
    checkpoint = layout.stream_checkpoint(table, stream)
    if fs.stat(checkpoint) is not None:
        raise CorruptFileError(
            "the commit log is missing beside its checkpoint",
            where=path,
            expected=f"a log that goes on from {checkpoint}",
            found="nothing",
            hint="restore the log from a copy; nothing was changed or deleted",
        )
    removals = read_removals(fs, layout, table, stream)
    return Resumed(StreamState(stream), header(LOG_MAGIC, 0), removals.end)


def _refuse_damage(found: Scan, path: Path, *, went_down: bool) -> None:
    later = [decode(part.payload, f"{path} at byte {part.offset}") for part in found.beyond]
    if not went_down or any(not isinstance(record, CommitRecord) for record in later):
        refuse_damage(found, path)


def _apply(state: StreamState, kept: list[Record], durable: int) -> dict[LocationKey, LocationState]:
    """Takes the state along the chain; returns the locations as they were at the durable epoch."""
    snapshot: dict[LocationKey, LocationState] | None = None
    for record in kept:
        if snapshot is None and isinstance(record, CommitRecord) and record.epoch > durable:
            snapshot = dict(state.locations)
        state.apply(record)
    return snapshot if snapshot is not None else state.locations


def _fall_back(
    kept: list[Record], gone: list[CommitRecord], state: StreamState, floor: int, time_ms: int
) -> RollbackRecord:
    made = [r.epoch for r in kept if isinstance(r, CommitRecord | RollbackRecord) and r.epoch < gone[0].epoch]
    touched = {report.key for record in gone for report in record.batch.reports if report.base_epoch}
    return RollbackRecord(
        n=state.n + 1,
        epoch=state.epoch + 1,
        generation=state.generation,
        time_ms=time_ms,
        to=made[-1] if made else floor,
        reason="these epochs were not synced, and the disk does not have them",
        changed=tuple(sorted(touched)),
    )


def _state_after(
    fs: Fs, layout: Layout, table: TableName, stream: str, records: tuple[Record, ...], path: Path
) -> StreamState:
    files: LogFiles = read_files(fs, layout, table, stream)
    state = files.checkpoint.state
    for record in chain(records, state.epoch, None, path):
        state.apply(record)
    for record in records:
        state.note(record)
    return state


def _only_rolled_back(records: tuple[Record, ...], kept: list[Record]) -> frozenset[LocationKey]:
    live = {record.n for record in kept}
    dead = [r for r in records if isinstance(r, CommitRecord) and r.n not in live]
    return frozenset(report.key for record in dead for report in record.batch.reports)
