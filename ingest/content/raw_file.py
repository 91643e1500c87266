"""Reads the bytes of one planned file: no more and no less than were planned, unpacked if they are packed.

A file that is not what the plan says (grown, cut, rewritten) is refused before and after reading, so rows of a
half-written file never reach a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import CorruptFileError, FeedError, PositionGapError, RetryableFeedError
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.io.open_files import Seekable

CHUNK = 1 << 20
TAIL = 1 << 16  # bytes that are looked at for the last line end of a piece
_COMPLETE = "write a feed file under a hidden name (leading dot), and rename it when it is complete"


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
