"""Reads log, checkpoint and head of a stream; the only module that does.

``open_files`` opens the three as of one moment between compactions, without decoding them.

``read_files`` reads all records from the checkpoint on, without locations; ``LogFiles.full`` reads one again with them.
``read_newest`` reads what leads to the newest state: with a head (``store.epochs.files.head``) only the records after
it. So a reader does not notice damage before the head: it uses none of those bytes. The start of a writer, and
``verify``, read every frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.epochs.files.checkpoint import Checkpoint, SavedState, open_saved
from sparkhaven.store.epochs.files.head import Head, decode_head, open_head, read_head
from sparkhaven.store.epochs.files.removals import last_removal, read_removals
from sparkhaven.store.epochs.state.log_records import ROLLBACK, CommitRecord, Record, RollbackRecord, decode
from sparkhaven.store.epochs.state.replay import RolledBack, RolledBackEpochs, StreamState, chain
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError, UnsupportedVersionError
from sparkhaven.store.framing import (
    FRAME,
    HEADER,
    LOG_MAGIC,
    ByteSource,
    Frame,
    Survey,
    ending,
    frame_at,
    read_header,
    walk,
    written,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import Opened
from sparkhaven.store.places import StreamPlace

READ_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    stream: str
    path: Path
    checkpoint: SavedState | None
    checkpoint_bytes: int
    source: Opened
    base: int
    head: memoryview | None
    held: bool = False

    @property
    def epoch(self) -> int:
        """That of the checkpoint."""
        return self.checkpoint.epoch if self.checkpoint else 0

    @property
    def folded(self) -> int:
        """Number of the last record in the checkpoint."""
        return self.checkpoint.number("n") if self.checkpoint else 0


def open_files(place: StreamPlace, *, head: bool = False, whole: bool = False, held: bool = False) -> OpenedFiles:
    """Opens checkpoint and log, and the head if asked for; again if a compaction came in between.

    ``whole``: verifies the whole checkpoint. ``held``: the head is read into memory, not mapped.
    TableNotFoundError: there is no log. CorruptFileError: the checkpoint is damaged, or older than the log's first
    epoch.
    """
    path = place.stream_log
    checkpoint_path = place.stream_checkpoint
    epoch = base = 0
    for _ in range(READ_ATTEMPTS):
        saved, size = _checkpoint(place.fs, checkpoint_path, whole)
        # read before the log, so that the log is at least as new
        cached = read_head(place, held=held) if head else None
        try:
            source = place.fs.open(path)
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
            return OpenedFiles(place.stream, path, saved, size, source, base, cached, held)
    raise CorruptFileError(
        "the checkpoint that the commit log continues from is missing",
        where=checkpoint_path,
        expected=f"epoch {base} or newer",
        found=f"epoch {epoch}",
        hint="restore the checkpoint from a copy. Nothing was changed or deleted",
    )


def require_reaches(opened: OpenedFiles, end: Survey) -> None:
    """CorruptFileError: the log ends before its checkpoint, which was made from it."""
    saved = opened.checkpoint
    if saved is None or opened.base >= saved.epoch:
        return
    part = next(walk(opened.source, end.last[0]), None) if end.last[1] else None
    last = decode(part.payload, opened.path, reports=False).n if part is not None else 0
    if last < saved.number("n"):
        raise CorruptFileError(
            "the commit log is older than its checkpoint. Acknowledged records are lost",
            where=opened.path,
            expected=f"record {saved.number('n')}, which {saved.where} was made from",
            found=f"records up to {last}",
            hint="restore log and checkpoint from one copy. Nothing was changed or deleted",
        )


def _checkpoint(fs: Fs, path: Path, whole: bool) -> tuple[SavedState | None, int]:
    data = mapped(fs, path)
    if data is None:
        return None, 0
    saved = open_saved(data, path)
    if whole:
        saved.check()
    return saved, len(data)


def mapped(fs: Fs, path: Path) -> memoryview | None:
    """The bytes of a file that is only replaced, never appended to, or None."""
    for _ in range(READ_ATTEMPTS):
        stat = fs.stat(path)
        if stat is None:
            return None
        try:
            return memoryview(fs.map(path, stat.size))
        except (CorruptFileError, FileNotFoundError):
            continue  # replaced by a shorter one just now
    return memoryview(pa.py_buffer(fs.read(path)))


@dataclass(frozen=True, slots=True)
class LogFiles:
    """Checkpoint and log of a stream, as of one moment between compactions.

    ``records``: those after the checkpoint, commits without locations; ``places``: start and end offset of each.
    ``found``: the end of the log.
    """

    opened: OpenedFiles
    found: Survey
    places: tuple[tuple[int, int], ...]
    records: tuple[Record, ...]

    @property
    def path(self) -> Path:
        return self.opened.path

    @property
    def checkpoint(self) -> Checkpoint:
        """The state before the records."""
        saved, stream = self.opened.checkpoint, self.opened.stream
        return saved.decode(stream) if saved else Checkpoint(StreamState(stream), 0)

    @property
    def epoch(self) -> int:
        return self.opened.epoch

    def full(self, record: Record) -> Record:
        """One of the records with its locations."""
        if not isinstance(record, CommitRecord):
            return record
        start, end = self.places[record.n - self.records[0].n]
        part = frame_at(self.opened.source.read(start, end - start), 0)
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

    ``removals``: bytes of the removals applied to ``start``. ``records`` have no locations if there is no head;
    ``full`` reads one with them. ``at``: offset of the first of them in the log.
    """

    opened: OpenedFiles
    start: StreamState
    removals: int
    records: tuple[Record, ...]
    full: Callable[[Record], Record]
    found: Survey
    at: int
    head: Head | None = None


def read_files(place: StreamPlace, *, whole: bool = False) -> LogFiles:
    """Reads checkpoint and log, again if a compaction came in between. ``whole``: verifies the whole checkpoint."""
    return _files(open_files(place, whole=whole))


def read_newest(place: StreamPlace, *, reports: bool = True, cached: bool = True, held: bool = False) -> Newest:
    """Reads the newest state only, from a usable head on.

    With ``held`` the state has the whole head in memory, verified, and decodes its locations when they are asked for.
    Without ``cached`` the head is not used and the whole checkpoint is verified. Without ``reports`` the state has no
    locations from records or head.
    """
    opened = open_files(place, head=cached, whole=not cached, held=held)

    @lru_cache
    def rescue(epoch: int) -> StreamState:
        return _again(place, epoch)

    return (opened.head and _from_head(place, opened, opened.head, reports, rescue)) or _from_checkpoint(_files(opened))


def frames_on(place: StreamPlace, last: tuple[int, bytes]) -> tuple[list[Frame], Survey] | None:
    """The frames of a log after ``last``, its last known one, and its end now.

    None where the log does not go on from there: it was replaced, or is damaged.
    """
    offset, mark = last
    try:
        source = place.fs.open(place.stream_log)
    except FileNotFoundError:
        return None
    if not mark or bytes(source.read(offset, len(mark))) != mark:
        return None
    frames = list(walk(source, offset))
    end = ending(source, frames[-1].end, frames[-1]) if frames else None
    return None if end is None or end.beyond else (frames[1:], end)


def read_on(place: StreamPlace, last: tuple[int, bytes], n: int) -> tuple[list[Record], Survey] | None:
    """The records of a log after ``last``, which was the one of number ``n``, and its end now.

    None where it does not go on from there, or a record is missing.
    """
    more = frames_on(place, last)
    if more is None:
        return None
    frames, end = more
    records = [decode(part.payload, f"{place.stream_log} at byte {part.offset}") for part in frames]
    gapless = [record.n for record in records] == list(range(n + 1, n + 1 + len(records)))
    return (records, end) if gapless else None


@dataclass(frozen=True, slots=True)
class Rollbacks:
    """Pairs (restored epoch, epoch of the rollback): those in the log, and those ``folded`` into the checkpoint."""

    logged: RolledBack
    folded: RolledBack
    found: Survey


def read_rollbacks(place: StreamPlace) -> Rollbacks:
    """The recorded rollbacks, oldest first; decodes only those records."""
    files = open_files(place)
    logged, last = [], None
    for part in walk(files.source):
        last = part
        if ROLLBACK in written(part.payload):
            record = decode(part.payload, f"{files.path} at byte {part.offset}")
            if isinstance(record, RollbackRecord):
                logged.append((record.to, record.epoch))
    end = ending(files.source, last.end if last else HEADER.size, last)
    return Rollbacks(tuple(logged), files.checkpoint.rolled_back() if files.checkpoint else (), end)


def read_rolled_back_epochs(place: StreamPlace) -> RolledBackEpochs:
    files = read_files(place)
    return rolled_back_epochs_of(files.records, files.epoch, files.full)


def rolled_back_epochs_of(records: tuple[Record, ...], base: int, full: Callable[[Record], Record]) -> RolledBackEpochs:
    """The rolled-back epochs among records after epoch ``base``, with their locations."""
    kept = chain(records, base, None, "log")
    live = {record.n for record in kept}
    return RolledBackEpochs.of((r if r.n in live else full(r) for r in records), kept)


def advance(state: StreamState, files: Newest, epoch: int | None, where: object, *, locations: bool = True) -> None:
    """Advances the start to ``epoch`` (None: the newest) along its chain; from a head on, locations lazily."""
    floor = state.epoch
    for record in files.records:
        state.note(record)
    for record in chain(files.records, floor, epoch, where):
        state.apply(files.full(record) if locations else record, later=files.head is not None)
    state.floor = floor


def _again(place: StreamPlace, epoch: int) -> StreamState:
    files = read_newest(place, cached=False)
    advance(files.start, files, epoch, place.stream_log)
    for _, removal in read_removals(place, files.removals).entries:
        files.start.remove(removal)
    return files.start


def _from_checkpoint(files: LogFiles) -> Newest:
    checkpoint = files.checkpoint
    offset = files.places[0][0] if files.places else files.found.end
    return Newest(files.opened, checkpoint.state, checkpoint.removals, files.records, files.full, files.found, offset)


def _from_head(
    place: StreamPlace, opened: OpenedFiles, data: memoryview, reports: bool, rescue: Callable[[int], StreamState]
) -> Newest | None:
    if opened.base > opened.epoch:
        return None
    placed = _usable(place, opened, data, reports, rescue)
    if placed is None:
        return None
    offset, head = placed
    _, records, end = _decoded(opened.path, opened.source, offset, head.state.n + 1, reports=reports)
    if any(isinstance(record, RollbackRecord) and record.to < head.state.epoch for record in records):
        return None
    if end.last[1] == b"":
        end = Survey(end.end, end.rest, end.beyond, head.mark)
    return Newest(opened, head.state, head.removals, records, lambda record: record, end, offset, head)


def _usable(
    place: StreamPlace, opened: OpenedFiles, data: memoryview, reports: bool, rescue: Callable[[int], StreamState]
) -> tuple[int, Head] | None:
    """The offset in the log of the records after the head in ``data``, and the head; None if it is not usable.

    Does not check whether a later record rolls back to before it. A head that is held is looked at as a whole now, and
    the state goes on using it; else ``rescue`` loads what turns out to be damaged.
    """
    log, size = opened.source, FRAME.size
    try:
        saved = open_head(data, place.stream_head)
        if opened.held:
            saved.hold()
        again = None if opened.held else rescue
        head = decode_head(saved, place.stream, len(data), locations=reports, rescue=again)
        offset, mark = head.mark
        if head.floor != opened.epoch or len(mark) != size or log.read(offset, size) != mark:
            return None
        end = offset + size + FRAME.unpack(mark)[0]
        if end > log.size or not last_removal(place.fs, place.stream_removals, head.last_removal):
            return None
        return end, head
    except (CorruptFileError, UnsupportedVersionError, OSError):
        return None


def _files(opened: OpenedFiles) -> LogFiles:
    spans, records, end = _decoded(opened.path, opened.source, HEADER.size, opened.folded + 1, reports=False)
    require_reaches(opened, end)
    return LogFiles(opened, end, spans, records)


def _decoded(
    path: Path, source: ByteSource, start: int, expected: int, *, reports: bool
) -> tuple[tuple[tuple[int, int], ...], tuple[Record, ...], Survey]:
    """The records from number ``expected`` on, found from byte ``start`` on, with their places.

    CorruptFileError: one is missing.
    """
    spans: list[tuple[int, int]] = []
    records: list[Record] = []
    last: Frame | None = None
    for part in walk(source, start):
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
                hint="restore log and checkpoint from one copy. Nothing was changed or deleted",
            )
        spans.append((part.offset, part.end))
        records.append(record)
    return tuple(spans), tuple(records), ending(source, last.end if last else start, last)
