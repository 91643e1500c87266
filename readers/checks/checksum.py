"""The checksum of a part of a file, read in blocks."""

from __future__ import annotations

from pathlib import Path

from store.io.fs import Fs
from store.scan.checksums import crc32

BLOCK = 1 << 19  # bytes that stay in the processor's cache until they are looked at


def checksum(fs: Fs, path: Path, offset: int, length: int) -> int:
    """CRC-32 of ``length`` bytes from ``offset``."""
    crc, window = 0, fs.window(path, BLOCK)
    for at in range(offset, offset + length, BLOCK):
        crc = crc32(window.view(at, min(BLOCK, offset + length - at)), crc)
    return crc
