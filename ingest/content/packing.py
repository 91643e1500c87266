"""Packed bytes to plain ones: gzip, bzip2, zstd and xz, any number of members, in bounded memory and in one pass.

Packings are known by the first bytes of a file, so a name may say nothing; of others the name is known, for errors.

A member is fed in slices, small at its beginning: libraries copy what lies behind the end of a member, so that large
slices would cost the square of their size where members are small. Each library stops when it has made enough.
"""

from __future__ import annotations

import bz2
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ENOUGH = 1 << 20  # bytes that are made at a time
SMALL, LARGE = 1 << 10, 1 << 18  # slices that are fed
WINDOW_LOG = 27  # a window of zstd has at most 128 MiB, its own default; `--long=31` may take 2 GiB
XZ_MEMORY = 256 << 20  # bytes that an xz dictionary may take; `xz -9` takes 65 MiB


class DamagedPackingError(ValueError):
    """Bytes that cannot be unpacked; ``offset`` is about where."""

    def __init__(self, error: Exception, offset: int) -> None:
        super().__init__(str(error))
        self.offset = offset


class LongWindowError(DamagedPackingError):
    """A window of zstd above 128 MiB, or a dictionary of xz above ``XZ_MEMORY``."""


class CutPackingError(ValueError):
    """The bytes end within a member."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A packing by its first bytes and the ends of file names; ``padding`` may follow a member, byte by byte.

    ``magic``: those bytes as an error shows them; ``form``: all forms that they have.
    """

    name: str
    unit: str
    magic: bytes
    form: re.Pattern[bytes]
    suffixes: tuple[str, ...]
    start: Callable[[], Any]
    padding: bytes = b""


PACKINGS = (
    Packing(
        "gzip",
        "gzip member",
        b"\x1f\x8b",
        re.compile(rb"\x1f\x8b"),
        (".gz", ".gzip"),
        lambda: zlib.decompressobj(31),
        padding=b"\0",
    ),
    Packing(
        "bzip2", "bzip2 stream", b"BZh", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), (".bz2",), bz2.BZ2Decompressor
    ),
    Packing(
        "zstd",
        "zstd frame",
        b"\x28\xb5\x2f\xfd",
        re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # the second: a frame that is skipped
        (".zst", ".zstd"),
        lambda: zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG}),
    ),
    Packing(
        "xz",
        "xz stream",
        b"\xfd7zXZ\0",
        re.compile(rb"\xfd7zXZ\x00"),
        (".xz",),
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY),
        padding=b"\0",
    ),
)
UNREAD: tuple[tuple[str, bytes, tuple[str, ...]], ...] = (
    ("zip", b"PK\x03\x04", (".zip",)),
    ("zip", b"PK\x05\x06", ()),
    ("lz4", b"\x04\x22\x4d\x18", (".lz4",)),
    ("lz4", b"\x02\x21\x4c\x18", ()),
    ("snappy", b"\xff\x06\x00\x00sNaPpY", (".snappy", ".sz")),
    ("7z", b"7z\xbc\xaf\x27\x1c", (".7z",)),
    ("rar", b"Rar!\x1a\x07", (".rar",)),
    ("compress", b"\x1f\x9d", (".z",)),
    ("lzma", b"\x5d\x00\x00", (".lzma",)),
    ("lzip", b"LZIP\x01", (".lz",)),
    ("lzop", b"\x89LZO\x00\x0d\x0a\x1a\x0a", (".lzo",)),
    ("brotli", b"", (".br",)),
    ("tar", b"", (".tar", ".tgz", ".tbz2", ".txz", ".tzst")),
)
"""Packings that are not read: name, first bytes if there are any, ends of file names."""
MAGIC_BYTES = 10
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f-\xff]")
_LONG = re.compile("requires too much memory|[Mm]emory usage limit")  # as zstd and xz say it
_ERRORS = (OSError, zlib.error, zstd.ZstdError, lzma.LZMAError, EOFError)


def packing_of(head: bytes) -> Packing | None:
    return next((packing for packing in PACKINGS if packing.form.match(head)), None)


def unread_packing(path: str, head: bytes) -> str | None:
    """The name of the packing of a file that is of none that is read, by its first bytes, else by its name.

    The name alone proves nothing where the file begins as text, but for tar: that begins with the name of a file.
    """
    name = Path(path).name.lower()
    inner = name.removesuffix(Path(name).suffix) if packing_of_name(name) is not None else name  # x.tar.gz
    by_name = next((kind for kind, _, ends in UNREAD if ends and inner.endswith(ends)), None)
    if packing_of(head) is not None:
        return by_name if by_name == "tar" or head[1:4] == b"\x2a\x4d\x18" else None  # lz4 has frames to skip too
    if by_name != "tar" and not _NO_TEXT.search(head):
        by_name = None
    return next((kind for kind, magic, _ in UNREAD if magic and head.startswith(magic)), by_name)


def packing_of_name(path: str) -> Packing | None:
    suffix = Path(path).suffix.lower()
    return next((packing for packing in PACKINGS if suffix in packing.suffixes), None)


def unpacked(pieces: Iterable[bytes], packing: Packing) -> Iterator[bytes]:
    """Plain bytes in pieces of bounded size. Raises DamagedPackingError, CutPackingError."""
    decoder: Any = None
    size, done = SMALL, 0  # of the next slice; bytes before this piece
    for piece in pieces:
        view, offset = memoryview(piece), 0
        while offset < len(piece):
            if decoder is None:
                if packing.padding and piece[offset : offset + 1] == packing.padding:
                    padded = piece[offset : offset + SMALL]
                    offset += len(padded) - len(padded.lstrip(packing.padding))
                    continue
                decoder, size = packing.start(), SMALL
            portion = view[offset : offset + size]
            try:
                yield from _plain(decoder, portion)
            except _ERRORS as error:
                kind = LongWindowError if _LONG.search(str(error)) else DamagedPackingError
                raise kind(error, done + offset) from error
            offset += len(portion)
            if decoder.eof:
                offset -= len(decoder.unused_data)
                decoder = None
            size = min(size * 2, LARGE)
        done += len(piece)
    if decoder is not None:
        raise CutPackingError(packing.unit)


def _plain(decoder: Any, portion: memoryview) -> Iterator[bytes]:
    plain = decoder.decompress(portion, ENOUGH)
    while plain:
        yield plain
        if decoder.eof:
            return
        rest = getattr(decoder, "unconsumed_tail", b"")
        plain = decoder.decompress(rest, ENOUGH)
