"""Reads the bytes of one planned file: no more and no less than were planned, unpacked if they are packed.

A file that is not what the plan says (grown, cut, rewritten) is refused before and after reading, so rows of a
half-written file never reach a table.

Several tasks may read parts of a file. Bytes [start, stop) stand for the lines, the CSV records
(``ingest.feeds.files.formats.csv_files``), or the row groups of a Parquet file, that begin within them. So parts that
cover a file cover its rows, wherever they are cut, and lines keep their numbers: those before a part are counted.

Also here: what is known of a Parquet file beside its bytes, and the errors for one that cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.content.lines import BLOCK
from sparkhaven.ingest.content.packing import (
    MAGIC_BYTES,
    PACKINGS,
    WINDOW_LOG,
    XZ_MEMORY,
    CutPackingError,
    DamagedPackingError,
    LongWindowError,
    Packing,
    packing_of,
    packing_of_name,
    unpacked,
    unread_packing,
)
from sparkhaven.store.delta.snapshot import MappedField
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from sparkhaven.store.errors import CorruptFileError, FeedError, PositionGapError, RetryableFeedError
from sparkhaven.store.foreign_parquet import BATCH_BYTES, ForeignParquet
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.io.open_files import Seekable

CHUNK = 1 << 20
TAIL = 1 << 16  # bytes that are looked at for the last line end of a piece
_COMPLETE = "write a feed file under a hidden name (leading dot), and rename it when it is complete"
MIN_PART = 8 << 20  # bytes below which a part is not worth a task
SMALL_BATCH = MIN_PART  # bytes up to which one task does a batch alone


def changed(split: FileId, size: int, mtime_ns: int) -> PositionGapError:
    """The error for a file that is not what was planned or taken; names both sizes."""
    return PositionGapError(
        "feed file changed after it was taken",
        where=split.path,
        expected=f"{split.size} bytes, modified at {split.mtime_ns} ns",
        found=f"{size} bytes, modified at {mtime_ns} ns",
        hint=f"put the first version back and deliver new rows as a new file. {_COMPLETE}",
    )


class RawFile(Seekable):
    """A planned file as a seekable stream of exactly the planned bytes."""

    def __init__(self, fs: Fs, split: FileId) -> None:
        super().__init__(split.size)
        self._fs, self._split = fs, split

    def read_at(self, offset: int, size: int) -> bytes:
        """A file cut short is a PositionGapError."""
        path = Path(self._split.path)
        try:
            return self._fs.read_range(path, offset, size)
        except CorruptFileError as error:
            stat = self._fs.stat(path)
            size_now, time_now = (stat.size, stat.mtime_ns) if stat else (0, 0)
            raise changed(self._split, size_now, time_now) from error
        except OSError as error:
            raise RetryableFeedError(
                "feed file cannot be read", where=path, found=error, hint="check the disk and permissions"
            ) from error


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A planned file that is read, as often as it takes: every layer of a decoder gets this."""

    fs: Fs
    split: FileId

    def stream(self) -> RawFile:
        return RawFile(self.fs, self.split)

    def verify(self) -> Stat:
        """The file as it is now; PositionGapError if its size or time differ from the plan, FeedError if it is gone."""
        path = Path(self.split.path)
        try:
            stat = self.fs.stat(path)
        except OSError as error:
            raise RetryableFeedError(
                "the status of a feed file cannot be read",
                where=path,
                found=error,
                hint="check its permissions, then start again",
            ) from error
        if stat is None:
            raise FeedError(
                "feed file is gone",
                where=path,
                expected=f"{self.split.size} bytes",
                found="nothing",
                hint="put the file back. A planned file is read before newer ones",
            )
        if (stat.size, stat.mtime_ns) != (self.split.size, self.split.mtime_ns):
            raise changed(self.split, stat.size, stat.mtime_ns)
        return stat

    def chunks(self, block: int | None = None) -> Iterator[bytes]:
        """Unpacked content in pieces of about ``CHUNK`` bytes; packings are known by their first bytes.

        A file without a byte is empty, whatever its name promises. With ``block`` a plain file comes in pieces of so
        many bytes and more, which end with a line: whoever cuts it into lines need not put them together.
        """
        raw = self.stream()
        magic = raw.read(MAGIC_BYTES)
        raw.seek(0)
        packing, promised = packing_of(magic), packing_of_name(self.split.path)
        unread = unread_packing(self.split.path, magic) if magic else None
        if unread is not None:
            raise FeedError(
                "feed file has an unknown packing",
                where=self.split.path,
                expected=f"a plain file, or one of {', '.join(p.name for p in PACKINGS)}",
                found=unread,
                hint=f"unpack it, or pack it with one of these, and deliver it under a new name. {_COMPLETE}",
            )
        if magic and promised is not None and packing is not promised:
            raise FeedError(
                "feed file is not packed as its name says",
                where=self.split.path,
                expected=f"first bytes {promised.magic.hex()}, of {promised.name}",
                found=magic[: len(promised.magic)].hex(),
                hint="pack the file again, or rename it",
            )
        if packing is not None:
            yield from _unpack(raw, self.split, packing)
            return
        if block is not None:
            yield from line_pieces(raw, 0, self.split.size, block)
            return
        while piece := raw.read(CHUNK):
            yield piece


def line_pieces(raw: RawFile, begin: int, end: int, block: int, tail: int = TAIL) -> Iterator[bytes]:
    """Bytes of a plain file in pieces of ``block`` bytes and at most ``tail`` more, which end with a line if they can.

    The last one ends where the bytes do.
    """
    while begin < end:
        stop = min(begin + block + tail, end)
        if stop < end:
            raw.seek(begin + block)
            stop = begin + block + (raw.read(tail).rfind(b"\n") + 1 or tail)
        raw.seek(begin)
        piece = raw.read(stop - begin)
        if not piece:
            return
        begin += len(piece)
        yield piece


def _unpack(raw: RawFile, split: FileId, packing: Packing) -> Iterator[bytes]:
    try:
        yield from unpacked(iter(lambda: raw.read(CHUNK >> 2), b""), packing)
    except LongWindowError as error:
        raise FeedError(
            "the decompression window of a feed file is larger than allowed",
            where=split.path,
            expected=f"at most {(1 << WINDOW_LOG) >> 20} MiB for zstd (--long=27), {XZ_MEMORY >> 20} MiB for xz",
            found=error,
            hint="pack it again without --long (zstd) or with -9 (xz), and deliver it under a new name",
        ) from error
    except DamagedPackingError as error:
        raise FeedError(
            "feed file is damaged. It cannot be unpacked",
            where=f"{split.path}, near byte {error.offset} of {split.size}",
            found=error,
            hint="deliver the file again under a new name. Nothing of it was committed",
        ) from error
    except CutPackingError as error:
        raise FeedError(
            "feed file ends before its packed content does",
            where=split.path,
            expected=f"a complete {packing.unit}",
            found=f"the end of the file at byte {split.size}",
            hint=f"deliver the whole file under a new name. Nothing of it was committed. {_COMPLETE}",
        ) from error


def is_cuttable(fs: Fs, file: FileId) -> bool:
    """Whether a file of such a stream is plain: bytes inside of a packed one mean nothing."""
    if packing_of_name(file.path) is not None:
        return False
    try:
        head = fs.read_range(Path(file.path), 0, min(MAGIC_BYTES, file.size))
    except (OSError, CorruptFileError):
        return False  # whoever reads it says what is wrong
    return packing_of(head) is None and unread_packing(file.path, head) is None


def part_lines(file: PlannedFile, chunk: int = CHUNK, block: int = BLOCK) -> tuple[int, Iterator[bytes]]:
    """The number of the first line that begins in a part, and the bytes of its lines, ``block`` and some more a piece.

    The lines before it are counted, and an end is looked for, in pieces of ``chunk``.
    """
    raw, part = file.stream(), file.split
    assert isinstance(part, FilePart)  # noqa: S101  the caller has looked
    begin, number = _first_line(raw, part.start, chunk)
    if begin >= part.stop:
        return number, iter(())
    end = part.size if part.stop >= part.size else _line_end(raw, part.stop - 1, chunk)
    return number, line_pieces(raw, begin, end, block)


def pieces(raw: RawFile, begin: int, end: int, chunk: int | None = None) -> Iterator[bytes]:
    raw.seek(begin)
    while begin < end and (piece := raw.read(min(chunk or CHUNK, end - begin))):
        begin += len(piece)
        yield piece


def _first_line(raw: RawFile, start: int, chunk: int) -> tuple[int, int]:
    """Where the first line begins at or after ``start``, and its number."""
    if not start:
        return 0, 1
    number, offset = 1, 0
    while offset < start - 1:
        raw.seek(offset)
        piece = raw.read(min(chunk, start - 1 - offset))
        if not piece:
            return offset, number
        number += int(np.count_nonzero(np.frombuffer(piece, np.uint8) == 10))
        offset += len(piece)
    end = _line_end(raw, offset, chunk)
    return end, number + 1


def _line_end(raw: RawFile, offset: int, chunk: int) -> int:
    """Behind the first line feed at or after ``offset``; the end of the file if there is none."""
    raw.seek(offset)
    while piece := raw.read(chunk):
        line_feed = piece.find(b"\n")
        if line_feed >= 0:
            return offset + line_feed + 1
        offset += len(piece)
    return offset


@dataclass(frozen=True, slots=True)
class FileConstants:
    """Columns that are not in a file and have one value in all of its rows, by name, as text; None = null.

    ``typed``: those of them that have a type of numbers, or of bytes; a float or double takes such a number, and a
    column of bytes such bytes, as it takes the same type of a file. ``zone_of``: whose time zone a value has whose text
    has none.
    """

    texts: Mapping[str, str | None] = field(default_factory=dict)
    typed: Mapping[str, pa.Scalar] = field(default_factory=dict)
    zone_of: str = ""


NO_CONSTANTS = FileConstants()


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What is known of a file beside its bytes.

    ``place`` names its rows instead of its path, ``time_ns`` is its time where that is not its modification time.
    ``utc96``: its timestamps of type INT96 are instants. ``declared``: names of columns that its table declares without
    the file. ``logical``: what its columns are in the table. ``rows``: how many its table says that it has. ``kept``:
    which of so many rows are still there.
    """

    place: str | None = None
    constants: FileConstants = NO_CONSTANTS
    time_ns: int | None = None
    utc96: bool = False
    declared: Collection[str] = frozenset()
    logical: Callable[[pa.Schema], Sequence[MappedField | None]] | None = None
    rows: int | None = None
    kept: Callable[[int], npt.NDArray[np.bool_]] | None = None


NOTHING = KnownFile()


def planned_parquet(planned: PlannedFile, *, utc96: bool, batch_bytes: int = BATCH_BYTES) -> ForeignParquet:
    """A planned file, or the part of it that is planned. Raises as ``ForeignParquet``."""
    split = planned.split
    part = (split.start, split.stop) if isinstance(split, FilePart) else None
    return ForeignParquet(planned.stream, split.size, utc96=utc96, part=part, batch_bytes=batch_bytes)


def no_parquet(path: str, error: Exception, hint: str) -> FeedError:
    """The error for a file that PyArrow cannot read."""
    return FeedError(
        "feed file is damaged, or not a Parquet file",
        where=path,
        expected="a complete Parquet file",
        found=next(iter(str(error).splitlines()), type(error).__name__),
        hint=hint,
    )


def column_twice(path: str, name: str) -> FeedError:
    """The error for a file with more than one column of a name that a column of the table takes."""
    return FeedError(
        "feed file has a column twice",
        where=path,
        expected=f"one column {name}",
        found=name,
        hint="deliver the file again under a new name, with another name for one of them",
        column=name,
    )
