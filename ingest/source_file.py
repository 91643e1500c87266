"""Reads the bytes of one planned file: no more and no less than were planned, unpacked if they are packed.

A file that is not what the plan says (grown, cut, rewritten) is refused before and after reading, so rows of a
half-written file never reach a table.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from store.epochs.state import FileId
from store.errors import CorruptFileError, FeedError, PositionGapError, RetryableFeedError
from store.fs import Fs, Stat

CHUNK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SUFFIXES = {".gz": _GZIP, ".gzip": _GZIP, ".zst": _ZSTD, ".zstd": _ZSTD}
_COMPLETE = "write a feed file under a hidden name (leading dot), and rename it when it is complete"


def verify(fs: Fs, split: FileId) -> Stat:
    """The file as it is now; PositionGapError if its size or time differ from the plan, FeedError if it is gone."""
    path = Path(split.path)
    try:
        now = fs.stat(path)
    except OSError as error:
        raise RetryableFeedError(
            "feed file cannot be looked at", where=path, found=error, hint="check its permissions, then start again"
        ) from error
    if now is None:
        raise FeedError(
            "feed file is gone",
            where=path,
            expected=f"{split.size} bytes",
            found="nothing",
            hint="put the file back; what was planned is remembered and must be readable once",
        )
    if (now.size, now.mtime_ns) != (split.size, split.mtime_ns):
        raise changed(split, now.size, now.mtime_ns)
    return now


def changed(split: FileId, size: int, mtime_ns: int) -> PositionGapError:
    """The error for a file that is not what was planned or taken; names both sizes."""
    return PositionGapError(
        "feed file changed after it was taken",
        where=split.path,
        expected=f"{split.size} bytes, modified at {split.mtime_ns} ns",
        found=f"{size} bytes, modified at {mtime_ns} ns",
        hint=f"put the first version back and deliver new rows as a new file; {_COMPLETE}",
    )


class RawFile(io.RawIOBase):
    """A planned file as a seekable stream of exactly the planned bytes."""

    def __init__(self, fs: Fs, split: FileId) -> None:
        super().__init__()
        self._fs = fs
        self._split = split
        self._at = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to an offset, as ``io`` defines it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._split.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next ``size`` bytes, fewer only at the planned end; a file cut short is a PositionGapError."""
        left = max(self._split.size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        path = Path(self._split.path)
        try:
            data = self._fs.read_range(path, self._at, wanted)
        except CorruptFileError as error:
            now = self._fs.stat(path)
            size_now, time_now = (now.size, now.mtime_ns) if now else (0, 0)
            raise changed(self._split, size_now, time_now) from error
        except OSError as error:
            raise RetryableFeedError(
                "feed file cannot be read", where=path, found=error, hint="check the disk and permissions"
            ) from error
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer with the next bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def chunks(fs: Fs, split: FileId) -> Iterator[bytes]:
    """Unpacked content of a file in pieces of about ``CHUNK`` bytes; gzip and zstd are known by their first bytes."""
    raw = RawFile(fs, split)
    magic = raw.read(4)
    raw.seek(0)
    packed = next((m for m in (_GZIP, _ZSTD) if magic.startswith(m)), None)
    promised = _SUFFIXES.get(Path(split.path).suffix.lower())
    if promised is not None and packed is not promised:
        raise FeedError(
            "feed file is not packed as its name says",
            where=split.path,
            expected=f"first bytes {promised.hex()}",
            found=magic.hex() or "an empty file",
            hint="pack the file again, or rename it",
        )
    if packed is None:
        while piece := raw.read(CHUNK):
            yield piece
    else:
        yield from _unpack(raw, split, packed)


def _unpack(raw: RawFile, split: FileId, magic: bytes) -> Iterator[bytes]:
    """Members or frames one after the other; an unfinished last one is a FeedError."""
    feed = b""
    at = 0
    unpacker: Any = None
    while True:
        if not feed:
            feed = raw.read(CHUNK >> 2)
            if not feed:
                break
        if unpacker is None:
            unpacker = zlib.decompressobj(31) if magic is _GZIP else zstandard.ZstdDecompressor().decompressobj()
        try:
            if magic is _GZIP:
                data = unpacker.decompress(feed, CHUNK)
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
            else:
                data = unpacker.decompress(feed)
                rest = unpacker.unused_data if unpacker.eof else b""
        except (zlib.error, zstandard.ZstdError) as error:
            raise FeedError(
                "feed file is damaged: it cannot be unpacked",
                where=f"{split.path}, near byte {at} of {split.size}",
                found=error,
                hint="deliver the file again under a new name; nothing of it was committed",
            ) from error
        at += len(feed) - len(rest)
        feed = rest
        if data:
            yield data
        if unpacker.eof:
            unpacker = None
            if magic is _GZIP:
                feed = feed.lstrip(b"\0")  # padding after the last member is allowed
    if unpacker is not None:
        raise FeedError(
            "feed file ends before its packed content does",
            where=split.path,
            expected="a complete gzip member or zstd frame",
            found=f"the end of the file at byte {split.size}",
            hint=f"deliver the whole file under a new name; nothing of it was committed; {_COMPLETE}",
        )
