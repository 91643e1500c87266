"""Log, checkpoint and head of a stream as they lie on disk: the one place that reads them.

``read_files`` decodes every record from the checkpoint on. ``read_newest`` gives what leads to the newest state, which
is less where a head (``store.epochs.head``) stands in for the records before it. Every frame of the log is looked at
either way, so damage is found wherever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.epochs.checkpoint import Checkpoint, Saved, open_saved
from store.epochs.framing import LOG_MAGIC, Frame, Scan, read_header, scan
from store.epochs.graves import Graves
from store.epochs.head import Head, HeadFiles
from store.epochs.records import ROLLBACK, Record, RollbackRecord, decode
from store.epochs.replay import StreamState, chain
from store.epochs.rollbacks import RolledBack
from store.errors import CorruptFileError, TableNotFoundError
from store.fs import Fs
from store.layout import Layout, TableName

READ_ATTEMPTS = 20


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
class Newest:
    """What leads to the newest state: ``start``, of the head or else of the checkpoint, and the records after it.

    ``removals``: how many bytes of the removals are in ``start``. ``floor``: epoch of the checkpoint; the state's is
    set by who takes it to the end. ``frames`` are those of the log after the checkpoint, ``records`` the last of them.
    """

    start: StreamState
    removals: int
    floor: int
    records: tuple[Record, ...]
    frames: tuple[Frame, ...]
    found: Scan
    log: bytes
    checkpoint_bytes: int
    head: Head | None = None


@dataclass(frozen=True, slots=True)
class _Bytes:
    """The three files, checksums looked at, nothing else decoded."""

    stream: str
    path: Path
    checkpoint: Saved | None
    checkpoint_bytes: int
    log: bytes
    base: int
    found: Scan
    head: bytes | None

    def decoded(self) -> Checkpoint:
        return self.checkpoint.decode(self.stream) if self.checkpoint else Checkpoint(StreamState(self.stream), 0)


def read_files(fs: Fs, layout: Layout, table: TableName, stream: str, *, reports: bool = True) -> LogFiles:
    """Checkpoint and log, read again while a compaction comes between the two; ``reports`` as in ``decode``."""
    return _files(_read(fs, layout, table, stream, None), reports)


def read_newest(
    fs: Fs, layout: Layout, table: TableName, stream: str, *, reports: bool = True, cached: bool = True
) -> Newest:
    """The same for the newest state alone, from the head on where there is one that can be used.

    Without ``cached`` the head is left aside. Without ``reports`` the state has no locations from records or head.
    """
    files = HeadFiles.of(fs, layout, table, stream)
    found = _read(fs, layout, table, stream, files if cached else None)
    return (found.head and _from_head(files, found, reports)) or _from_checkpoint(_files(found, reports))


@dataclass(frozen=True, slots=True)
class Rollbacks:
    """Pairs (epoch gone back to, epoch of the rollback): those in the log, and those ``folded`` into the checkpoint."""

    logged: RolledBack
    folded: RolledBack
    found: Scan


def read_rollbacks(fs: Fs, layout: Layout, table: TableName, stream: str) -> Rollbacks:
    """The rollbacks that are on record, oldest first; decodes hardly anything else."""
    files = _read(fs, layout, table, stream, None)
    parts = [part for part in files.found.frames if ROLLBACK in part.payload]
    records = [decode(part.payload, f"{files.path} at byte {part.offset}") for part in parts]
    logged = tuple((record.to, record.epoch) for record in records if isinstance(record, RollbackRecord))
    return Rollbacks(logged, files.checkpoint.rolled_back() if files.checkpoint else (), files.found)


def read_graves(fs: Fs, layout: Layout, table: TableName, stream: str) -> Graves:
    """What was rolled back since the checkpoint."""
    files = read_files(fs, layout, table, stream)
    path = layout.stream_log(table, stream)
    return Graves.of(files.records, chain(files.records, files.checkpoint.state.epoch, None, path))


def _from_checkpoint(files: LogFiles) -> Newest:
    start, removals = files.checkpoint.state, files.checkpoint.removals
    return Newest(
        start, removals, start.epoch, files.records, files.frames, files.found, files.log, files.checkpoint_bytes
    )


def _from_head(files: HeadFiles, found: _Bytes, reports: bool) -> Newest | None:
    frames, floor = found.found.frames, found.checkpoint.epoch if found.checkpoint else 0
    assert found.head is not None  # noqa: S101 - asked before
    placed = files.find(found.head, found.stream, found.checkpoint, frames, locations=reports)
    if placed is None:
        return None
    index, head = placed
    _, records = _decoded(found.path, frames[index + 1 :], head.state.n + 1, reports)
    if any(isinstance(record, RollbackRecord) and record.to < head.state.epoch for record in records):
        return None
    folded = found.checkpoint.number("n") if found.checkpoint else 0
    after = frames[index - (head.state.n - folded) + 1 :]
    return Newest(
        head.state, head.removals, floor, records, after, found.found, found.log, found.checkpoint_bytes, head
    )


def _read(fs: Fs, layout: Layout, table: TableName, stream: str, files: HeadFiles | None) -> _Bytes:
    path = layout.stream_log(table, stream)
    checkpoint_path = layout.stream_checkpoint(table, stream)
    epoch = base = 0
    for _ in range(READ_ATTEMPTS):
        saved, size = _checkpoint(fs, checkpoint_path)
        head = files.read() if files else None  # before the log, which then is not behind it
        log = _read_or_none(fs, path)
        if log is None:
            raise TableNotFoundError(
                "stream has no commit log",
                where=path,
                expected="a log",
                found="checkpoint only" if size else "nothing",
                hint="`sparkhaven stats` lists the streams of a table",
            )
        epoch, base = saved.epoch if saved else 0, read_header(log, LOG_MAGIC, path)
        if base <= epoch:
            return _Bytes(stream, path, saved, size, log, base, scan(log), head)
    raise CorruptFileError(
        "the checkpoint that the commit log goes on from is missing",
        where=checkpoint_path,
        expected=f"epoch {base} or newer",
        found=f"epoch {epoch}",
        hint="restore the checkpoint from a copy; nothing was changed or deleted",
    )


def _checkpoint(fs: Fs, path: Path) -> tuple[Saved | None, int]:
    if fs.stat(path) is None:
        return None, 0
    data = fs.read(path)
    saved = open_saved(data, path)
    saved.check()
    return saved, len(data)


def _read_or_none(fs: Fs, path: Path) -> bytes | None:
    try:
        return fs.read(path)
    except FileNotFoundError:
        return None


def _files(found: _Bytes, reports: bool) -> LogFiles:
    checkpoint = found.decoded()
    frames, records = _decoded(found.path, found.found.frames, checkpoint.state.n + 1, reports)
    return LogFiles(checkpoint, found.checkpoint_bytes, found.log, found.base, found.found, frames, records)


def _decoded(
    path: Path, parts: Sequence[Frame], expected: int, reports: bool
) -> tuple[tuple[Frame, ...], tuple[Record, ...]]:
    """The records from number ``expected`` on, with their frames; CorruptFileError where one is missing."""
    frames: list[Frame] = []
    records: list[Record] = []
    for part in parts:
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
    return tuple(frames), tuple(records)
