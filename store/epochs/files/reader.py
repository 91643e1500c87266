"""Log, checkpoint and head of a stream as they lie on disk: the one place that reads them.

``read_files`` looks at every record from the checkpoint on, piece by piece, and keeps what does not speak of locations;
``LogFiles.full`` reads one again with them. ``read_newest`` gives what leads to the newest state: where a head
(``store.epochs.files.head``) stands in for the records before it, only those after it are read. So damage before the
head is not met by a reader: it uses nothing of those bytes. The start of a writer, and ``verify``, look at every frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from store.epochs.files.checkpoint import open_saved
from store.epochs.files.head import Head, HeadFiles
from store.epochs.files.removals import read_removals
from store.epochs.files.rolled_back import RolledBackEpochs
from store.epochs.files.saved import Checkpoint, Saved
from store.epochs.state.records import ROLLBACK, CommitRecord, Record, RollbackRecord, decode
from store.epochs.state.replay import StreamState, chain
from store.epochs.state.rollbacks import RolledBack
from store.errors import CorruptFileError, TableNotFoundError
from store.framing.canonical import written
from store.framing.frames import (
    HEADER,
    LOG_MAGIC,
    Frame,
    Source,
    Survey,
    ending,
    frame_at,
    read_header,
    refuse_damage,
    walk,
)
from store.io.fs import Fs
from store.layout import Layout, TableName

READ_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Checkpoint and log of a stream as they lie on disk, from one moment between compactions.

    ``records`` are those after the checkpoint, commits without locations; ``places`` tell where each begins and ends.
    ``found`` is about the end of the log.
    """

    stream: str
    path: Path
    saved: Saved | None
    checkpoint_bytes: int
    source: Source
    base: int
    found: Survey
    places: tuple[tuple[int, int], ...]
    records: tuple[Record, ...]

    @property
    def checkpoint(self) -> Checkpoint:
        """The state that the records go on from."""
        return self.saved.decode(self.stream) if self.saved else Checkpoint(StreamState(self.stream), 0)

    @property
    def epoch(self) -> int:
        """That of the checkpoint."""
        return self.saved.epoch if self.saved else 0

    def full(self, record: Record) -> Record:
        """One of the records with its locations."""
        if not isinstance(record, CommitRecord):
            return record
        start, end = self.places[record.n - self.records[0].n]
        part = frame_at(self.source.read(start, end - start), 0)
        if part is None:
            raise CorruptFileError("a record changed while it was read", where=f"{self.path} at byte {start}")
        return decode(part.payload, f"{self.path} at byte {start}")

    def chain(self, epoch: int | None = None) -> Iterator[Record]:
        """The records that lead to ``epoch`` (None: the newest), with their locations, one at a time."""
        for record in chain(self.records, self.epoch, epoch, self.path):
            yield self.full(record)


@dataclass(frozen=True, slots=True)
class Newest:
    """What leads to the newest state: ``start``, of the head or else of the checkpoint, and the records after it.

    ``removals``: how many bytes of the removals are in ``start``. ``floor``: epoch of the checkpoint; the state's is
    set by who takes it to the end. ``records`` come without their locations where there is no head; ``full`` gives one
    with them. ``at``: where in the log the first of them begins. ``folded``: number of the checkpoint's last record.
    """

    start: StreamState
    removals: int
    floor: int
    records: tuple[Record, ...]
    full: Callable[[Record], Record]
    found: Survey
    source: Source
    at: int
    checkpoint_bytes: int
    folded: int
    head: Head | None = None


@dataclass(frozen=True, slots=True)
class _Opened:
    """The three files, and nothing decoded."""

    stream: str
    path: Path
    checkpoint: Saved | None
    checkpoint_bytes: int
    source: Source
    base: int
    head: memoryview | None


def read_files(fs: Fs, layout: Layout, table: TableName, stream: str, *, whole: bool = False) -> LogFiles:
    """Checkpoint and log, read again while a compaction comes between the two.

    ``whole``: every byte of the checkpoint is looked at.
    """
    return _files(_open(fs, layout, table, stream, None, whole=whole))


def read_newest(
    fs: Fs, layout: Layout, table: TableName, stream: str, *, reports: bool = True, cached: bool = True
) -> Newest:
    """The same for the newest state alone, from the head on where there is one that can be used.

    Without ``cached`` the head is left aside, and all of the checkpoint is looked at. Without ``reports`` the state has
    no locations from records or head.
    """
    files = HeadFiles.of(fs, layout, table, stream)
    found = _open(fs, layout, table, stream, files if cached else None, whole=not cached)

    @lru_cache
    def rescue(epoch: int) -> StreamState:
        return _again(fs, layout, table, stream, epoch)

    return (found.head and _from_head(files, found, reports, rescue)) or _from_checkpoint(_files(found))


@dataclass(frozen=True, slots=True)
class Rollbacks:
    """Pairs (epoch gone back to, epoch of the rollback): those in the log, and those ``folded`` into the checkpoint."""

    logged: RolledBack
    folded: RolledBack
    found: Survey


def read_rollbacks(fs: Fs, layout: Layout, table: TableName, stream: str) -> Rollbacks:
    """The rollbacks that are on record, oldest first; decodes hardly anything else."""
    files = _open(fs, layout, table, stream, None)
    logged, last = [], None
    for part in walk(files.source):
        last = part
        if ROLLBACK in written(part.payload):
            record = decode(part.payload, f"{files.path} at byte {part.offset}")
            if isinstance(record, RollbackRecord):
                logged.append((record.to, record.epoch))
    found = ending(files.source, last.end if last else HEADER.size, last)
    return Rollbacks(tuple(logged), files.checkpoint.rolled_back() if files.checkpoint else (), found)


def read_rolled_back_epochs(fs: Fs, layout: Layout, table: TableName, stream: str) -> RolledBackEpochs:
    """What was rolled back since the checkpoint."""
    files = read_files(fs, layout, table, stream)
    return rolled_back_epochs_of(files.records, files.epoch, files.full)


def rolled_back_epochs_of(records: tuple[Record, ...], base: int, full: Callable[[Record], Record]) -> RolledBackEpochs:
    """The same of records after epoch ``base``; those that were rolled back are looked up with their locations."""
    kept = chain(records, base, None, "log")
    live = {record.n for record in kept}
    return RolledBackEpochs.of((r if r.n in live else full(r) for r in records), kept)


def advance(state: StreamState, files: Newest, epoch: int | None, where: object, *, locations: bool = True) -> None:
    """Takes the start forward to ``epoch`` (None: the newest) along its chain.

    From a head on, locations are changed when they are asked for.
    """
    floor = state.epoch
    for record in files.records:
        state.note(record)
    for record in chain(files.records, floor, epoch, where):
        state.apply(files.full(record) if locations else record, later=files.head is not None)
    state.floor = floor


def _again(fs: Fs, layout: Layout, table: TableName, stream: str, epoch: int) -> StreamState:
    files = read_newest(fs, layout, table, stream, cached=False)
    advance(files.start, files, epoch, layout.stream_log(table, stream))
    for _, removal in read_removals(fs, layout, table, stream, files.removals).entries:
        files.start.remove(removal)
    return files.start


def _from_checkpoint(files: LogFiles) -> Newest:
    found, size = files.checkpoint, files.checkpoint_bytes
    at = files.places[0][0] if files.places else files.found.end
    start = found.state
    return Newest(
        start=start,
        removals=found.removals,
        floor=start.epoch,
        records=files.records,
        full=files.full,
        found=files.found,
        source=files.source,
        at=at,
        checkpoint_bytes=size,
        folded=start.n,
    )


def _from_head(files: HeadFiles, found: _Opened, reports: bool, rescue: Callable[[int], StreamState]) -> Newest | None:
    assert found.head is not None  # noqa: S101 - asked before
    floor = found.checkpoint.epoch if found.checkpoint else 0
    if found.base > floor:
        return None
    placed = files.find(found.head, found.stream, floor, found.source, locations=reports, rescue=rescue)
    if placed is None:
        return None
    at, head = placed
    _, records, end = _decoded(found.path, walk(found.source, at), head.state.n + 1, reports, found.source, at)
    if any(isinstance(record, RollbackRecord) and record.to < head.state.epoch for record in records):
        return None
    if end.last[1] == b"":
        end = Survey(end.end, end.rest, end.beyond, head.mark)
    return Newest(
        start=head.state,
        removals=head.removals,
        floor=floor,
        records=records,
        full=_itself,
        found=end,
        source=found.source,
        at=at,
        checkpoint_bytes=found.checkpoint_bytes,
        folded=found.checkpoint.number("n") if found.checkpoint else 0,
        head=head,
    )


def _itself(record: Record) -> Record:
    return record


def _open(
    fs: Fs, layout: Layout, table: TableName, stream: str, files: HeadFiles | None, *, whole: bool = False
) -> _Opened:
    path = layout.stream_log(table, stream)
    checkpoint_path = layout.stream_checkpoint(table, stream)
    epoch = base = 0
    for _ in range(READ_ATTEMPTS):
        saved, size = _checkpoint(fs, checkpoint_path, whole)
        head = files.read() if files else None  # before the log, which then is not behind it
        try:
            source = fs.open(path)
        except FileNotFoundError:
            raise TableNotFoundError(
                "stream has no commit log",
                where=path,
                expected="a log",
                found="checkpoint only" if size else "nothing",
                hint="`sparkhaven stats` lists the streams of a table",
            ) from None
        epoch, base = saved.epoch if saved else 0, read_header(source.read(0, HEADER.size), LOG_MAGIC, path)
        if base <= epoch:
            return _Opened(stream, path, saved, size, source, base, head)
    raise CorruptFileError(
        "the checkpoint that the commit log goes on from is missing",
        where=checkpoint_path,
        expected=f"epoch {base} or newer",
        found=f"epoch {epoch}",
        hint="restore the checkpoint from a copy; nothing was changed or deleted",
    )


def _require_reaches(found: _Opened, end: Survey) -> None:
    """CorruptFileError if a log that begins before its checkpoint also ends before it: a checkpoint is made from it."""
    saved = found.checkpoint
    if saved is None or found.base >= saved.epoch:
        return
    part = next(walk(found.source, end.last[0]), None) if end.last[1] else None
    last = decode(part.payload, found.path, reports=False).n if part is not None else 0
    if last < saved.number("n"):
        raise CorruptFileError(
            "the commit log is older than its checkpoint: acknowledged records are lost",
            where=found.path,
            expected=f"record {saved.number('n')}, which {saved.where} was made from",
            found=f"records up to {last}",
            hint="restore log and checkpoint from one copy; nothing was changed or deleted",
        )


def _checkpoint(fs: Fs, path: Path, whole: bool) -> tuple[Saved | None, int]:
    data = mapped(fs, path)
    if data is None:
        return None, 0
    saved = open_saved(data, path)
    if whole:
        saved.check()
    return saved, len(data)


def mapped(fs: Fs, path: Path) -> memoryview | None:
    """The bytes of a file that is only ever replaced as a whole, or None."""
    for _ in range(READ_ATTEMPTS):
        found = fs.stat(path)
        if found is None:
            return None
        try:
            return memoryview(fs.map(path, found.size))
        except (CorruptFileError, FileNotFoundError):
            continue  # replaced by a shorter one just now
    return memoryview(pa.py_buffer(fs.read(path)))


def _files(found: _Opened) -> LogFiles:
    expected = found.checkpoint.number("n") + 1 if found.checkpoint else 1
    places, records, end = _decoded(found.path, walk(found.source), expected, False, found.source, HEADER.size)
    _require_reaches(found, end)
    size = found.checkpoint_bytes
    return LogFiles(found.stream, found.path, found.checkpoint, size, found.source, found.base, end, places, records)


def _decoded(
    path: Path, parts: Iterator[Frame], expected: int, reports: bool, source: Source, start: int
) -> tuple[tuple[tuple[int, int], ...], tuple[Record, ...], Survey]:
    """The records from number ``expected`` on, with their places; CorruptFileError where one is missing."""
    places: list[tuple[int, int]] = []
    records: list[Record] = []
    last: Frame | None = None
    for part in parts:
        last = part
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
        places.append((part.offset, part.end))
        records.append(record)
    return tuple(places), tuple(records), ending(source, last.end if last else start, last)


__all__ = [
    "LogFiles",
    "Newest",
    "advance",
    "read_files",
    "read_newest",
    "read_rolled_back_epochs",
    "refuse_damage",
    "rolled_back_epochs_of",
]
