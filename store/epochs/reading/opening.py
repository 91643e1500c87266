"""Opens checkpoint, log and head of a stream, as of one moment between compactions, without decoding them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.epochs.files.checkpoint import open_saved
from sparkhaven.store.epochs.files.head import read_head
from sparkhaven.store.epochs.files.saved_state import SavedState
from sparkhaven.store.epochs.state.log_records import decode
from sparkhaven.store.errors import CorruptFileError, TableNotFoundError
from sparkhaven.store.framing.log_frames import HEADER, LOG_MAGIC, Survey, read_header, walk
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
