"""Reading a stream's commit log without changing anything: for readers, maintenance, and the log's own recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from store.collector import no_cycles
from store.epochs.checkpoint import Checkpoint, decode_checkpoint
from store.epochs.framing import LOG_MAGIC, Frame, Scan, read_header, refuse_damage, scan
from store.epochs.offsets import Offsets
from store.epochs.positions import FileWindow
from store.epochs.records import CommitRecord, Record, RollbackRecord, decode
from store.epochs.removals import read_removals
from store.epochs.replay import StreamState, chain
from store.epochs.state import OffsetRange
from store.errors import CorruptFileError, TableNotFoundError
from store.fs import Fs
from store.layout import Layout, TableName

READ_ATTEMPTS = 20

__all__ = [
    "EpochEntry",
    "Loaded",
    "LogFiles",
    "StreamState",
    "list_epochs",
    "list_streams",
    "load_read",
    "load_stream",
    "read_files",
]


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Checkpoint and log of a stream as they lie on disk, from one moment between compactions.

    ``records`` are those after the checkpoint, ``frames`` the same as bytes; ``found`` covers the whole log.
    """

    checkpoint: Checkpoint
    checkpoint_bytes: int
    log: bytes
    base: int
    found: Scan
    frames: tuple[Frame, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state, the frames of the log that it was read from, and the end of the removals that are in it."""

    state: StreamState
    found: Scan
    removals_end: int


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """One epoch as a list shows it; ``live`` is False once it was rolled back. ``ranges`` and ``gaps`` of offsets."""

    epoch: int
    kind: Literal["commit", "rollback"]
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

    @property
    def messages(self) -> int:
        """Offsets that the epoch took."""
        return sum(part.messages for part in self.ranges)


def list_streams(fs: Fs, layout: Layout, table: TableName) -> list[str]:
    """Names of the streams that have a commit log for a table, sorted; none for a table without streams."""
    names = fs.names(layout.streams(table))
    return [name[:-4] for name in names if name.endswith(".log") and not name.startswith(".")]


def load_stream(fs: Fs, layout: Layout, table: TableName, stream: str, *, epoch: int | None = None) -> StreamState:
    """The state of a stream at its newest epoch, or at any epoch between the floor and now.

    TableNotFoundError where there is no such stream or the epoch is not kept; CorruptFileError where the log or
    checkpoint is damaged (a torn last record is not: it was never acknowledged). Removals hold at every epoch.
    """
    return load_read(fs, layout, table, stream, epoch=epoch).state


def load_read(fs: Fs, layout: Layout, table: TableName, stream: str, *, epoch: int | None = None) -> Loaded:
    """The same, with how far log and removals were read."""
    with no_cycles():
        files = read_files(fs, layout, table, stream)
        refuse_damage(files.found, layout.stream_log(table, stream))
        state = files.checkpoint.state
        replay(state, files.records, epoch, layout.stream_log(table, stream))
    removals = read_removals(fs, layout, table, stream, files.checkpoint.removals)
    for _, removal in removals.entries:
        state.remove(removal)
    return Loaded(state, files.found, removals.end)


def load_positions(fs: Fs, layout: Layout, table: TableName, stream: str) -> tuple[FileWindow, Offsets]:
    """What the newest epoch has taken of a stream's source; raises what ``load_stream`` raises."""
    path = layout.stream_log(table, stream)
    with no_cycles():
        files = read_files(fs, layout, table, stream, reports=False)
        refuse_damage(files.found, path)
        state = files.checkpoint.state
        replay(state, files.records, None, path)
    return state.files, state.offsets


def replay(state: StreamState, records: tuple[Record, ...], epoch: int | None, where: object) -> None:
    """Takes a checkpoint's state forward to ``epoch`` (None: the newest) along its chain."""
    floor = state.epoch
    for record in records:
        state.note(record)
    for record in chain(records, floor, epoch, where):
        state.apply(record)
    state.floor = floor


def read_files(fs: Fs, layout: Layout, table: TableName, stream: str, *, reports: bool = True) -> LogFiles:
    """Checkpoint and log, read again while a compaction comes between the two; ``reports`` as in ``decode``."""
    path = layout.stream_log(table, stream)
    checkpoint_path = layout.stream_checkpoint(table, stream)
    checkpoint, base = None, 0
    for _ in range(READ_ATTEMPTS):
        checkpoint, size = _read_checkpoint(fs, layout, table, stream)
        log = _read_or_none(fs, layout, table, stream)
        if log is None:
            raise TableNotFoundError(
                "stream has no commit log",
                where=path,
                expected="a log",
                found="checkpoint only" if size else "nothing",
                hint="`sparkhaven stats` lists the streams of a table",
            )
        base = read_header(log, LOG_MAGIC, path)
        if base <= checkpoint.state.epoch:
            return _files(checkpoint, size, log, base, path, reports)
    raise CorruptFileError(
        "the checkpoint that the commit log goes on from is missing",
        where=checkpoint_path,
        expected=f"epoch {base} or newer",
        found=f"epoch {checkpoint.state.epoch if checkpoint else 0}",
        hint="restore the checkpoint from a copy; nothing was changed or deleted",
    )


def list_epochs(fs: Fs, layout: Layout, table: TableName, stream: str) -> list[EpochEntry]:
    """The epochs in the log, oldest first: those between the floor and now, and those rolled back since."""
    files = read_files(fs, layout, table, stream)
    path = layout.stream_log(table, stream)
    refuse_damage(files.found, path)
    live = {record.n for record in chain(files.records, files.checkpoint.state.epoch, None, path)}
    return [_entry(r, r.n in live) for r in files.records if isinstance(r, CommitRecord | RollbackRecord)]


def _entry(record: CommitRecord | RollbackRecord, live: bool) -> EpochEntry:
    made, generation = record.epoch, record.generation
    if isinstance(record, RollbackRecord):
        changed = len(record.changed)
        return EpochEntry(made, "rollback", generation, record.time_ms, None, None, 0, changed, 0, record.to, live)
    batch = record.batch
    counts = batch.rows, len(batch.reports), len(batch.files)
    names = batch.time_ms, batch.query_id, batch.batch_id
    return EpochEntry(made, "commit", generation, *names, *counts, None, live, batch.ranges, batch.gaps)


def _read_checkpoint(fs: Fs, layout: Layout, table: TableName, stream: str) -> tuple[Checkpoint, int]:
    path = layout.stream_checkpoint(table, stream)
    if fs.stat(path) is None:
        return Checkpoint(StreamState(stream), 0), 0
    data = fs.read(path)
    return decode_checkpoint(data, stream, path), len(data)


def _read_or_none(fs: Fs, layout: Layout, table: TableName, stream: str) -> bytes | None:
    try:
        return fs.read(layout.stream_log(table, stream))
    except FileNotFoundError:
        return None


def _files(checkpoint: Checkpoint, size: int, log: bytes, base: int, path: object, reports: bool) -> LogFiles:
    found = scan(log)
    frames: list[Frame] = []
    records: list[Record] = []
    expected = checkpoint.state.n + 1
    for part in found.frames:
        record = decode(part.payload, f"{path} at byte {part.offset}", reports=reports)
        if record.n < expected and not records:
            continue
        if record.n != expected + len(records):
            raise CorruptFileError(
                "commit log has a gap",
                where=f"{path} at byte {part.offset}",
                expected=f"record {expected + len(records)}",
                found=f"record {record.n}",
                hint="restore log and checkpoint from one copy; nothing was changed or deleted",
            )
        frames.append(part)
        records.append(record)
    return LogFiles(checkpoint, size, log, base, found, tuple(frames), tuple(records))
