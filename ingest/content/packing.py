"""Packed bytes to plain ones: gzip, zstd and xz, any number of members, in bounded memory and in one pass.

A member is fed in slices, small at its beginning: libraries copy what lies behind the end of a member, so that large
slices would cost the square of their size where members are small. The libraries of gzip and xz stop when they have
made enough; that of zstd makes all that a slice holds, at most 32 KiB for each byte of it, so its slices stay small.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from store.types.frozen import frozen

ENOUGH = 1 << 20  # bytes that are made at a time
SMALL, LARGE = 1 << 10, 1 << 18  # slices that are fed
XZ_MEMORY = 256 << 20  # bytes that an xz dictionary may take; `xz -9` takes 65 MiB


class DamagedPackingError(ValueError):
    """Bytes that cannot be unpacked; ``at`` is about where."""

    def __init__(self, error: Exception, at: int) -> None:
        super().__init__(str(error))
        self.at = at


class CutPackingError(ValueError):
    """The bytes end within a member."""


@frozen
class Packing:
    """A packing by its first bytes and the ends of file names; ``padding`` may follow a member, byte by byte."""

    name: str
    unit: str
    magic: bytes
    suffixes: tuple[str, ...]
    start: Callable[[], Any]
    slice_bytes: int = LARGE
    padding: bytes = b""
    stops: bool = True  # its decoder takes how much it may make


PACKINGS = (
    Packing("gzip", "gzip member", b"\x1f\x8b", (".gz", ".gzip"), lambda: zlib.decompressobj(31), padding=b"\0"),
    Packing(
        "zstd",
        "zstd frame",
        b"\x28\xb5\x2f\xfd",
        (".zst", ".zstd"),
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        slice_bytes=SMALL,
        stops=False,
    ),
    Packing(
        "xz",
        "xz stream",
        b"\xfd7zXZ\0",
        (".xz",),
        lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY),
        padding=b"\0",
    ),
)
MAGIC_BYTES = max(len(packing.magic) for packing in PACKINGS)
_ERRORS = (zlib.error, zstandard.ZstdError, lzma.LZMAError, EOFError)


def packing_of_name(path: str) -> Packing | None:
    """The packing that the name of a file promises."""
    suffix = Path(path).suffix.lower()
    return next((packing for packing in PACKINGS if suffix in packing.suffixes), None)


def unpacked(pieces: Iterable[bytes], packing: Packing) -> Iterator[bytes]:
    """Plain bytes in pieces of bounded size. Raises DamagedPackingError, CutPackingError."""
    decoder: Any = None
    size, done = SMALL, 0  # of the next slice; bytes before this piece
    for piece in pieces:
        view, at = memoryview(piece), 0
        while at < len(piece):
            if decoder is None:
                if packing.padding and piece[at : at + 1] == packing.padding:
                    padded = piece[at : at + SMALL]
                    at += len(padded) - len(padded.lstrip(packing.padding))
                    continue
                decoder, size = packing.start(), SMALL
            some = view[at : at + size]
            try:
                yield from _made(decoder, some, packing)
            except _ERRORS as error:
                raise DamagedPackingError(error, done + at) from error
            at += len(some)
            if decoder.eof:
                at -= len(decoder.unused_data)
                decoder = None
            size = min(size * 2, packing.slice_bytes)
        done += len(piece)
    if decoder is not None:
        raise CutPackingError(packing.unit)


def _made(decoder: Any, some: memoryview, packing: Packing) -> Iterator[bytes]:
    """What a slice gives, all of it."""
    if not packing.stops:
        made = decoder.decompress(some)
        if made:
            yield made
        return
    made = decoder.decompress(some, ENOUGH)
    while made:
        yield made
        if decoder.eof:
            return
        rest = getattr(decoder, "unconsumed_tail", b"")
        made = decoder.decompress(rest, ENOUGH)
