"""The checksum of a part of a file, read in blocks."""

from __future__ import annotations

from pathlib import Path

from store.io.fs import Fs
from store.scan.checksums import crc32

BLOCK = 1 << 17  # bytes; memory for larger blocks comes from the kernel each time


def checksum(fs: Fs, path: Path, offset: int, length: int) -> int:
    """CRC-32 of ``length`` bytes from ``offset``."""
    crc = 0
    for at in range(offset, offset + length, BLOCK):
        crc = crc32(fs.read_range(path, at, min(BLOCK, offset + length - at)), crc)
    return crc
