"""The checksum of a part of a file, read in blocks."""

from __future__ import annotations

from pathlib import Path

from store.io.fs import Fs
from store.scan.checksums import crc32

BLOCK = 1 << 24  # bytes that are mapped at once


def checksum(fs: Fs, path: Path, offset: int, length: int) -> int:
    """CRC-32 of ``length`` bytes from ``offset``."""
    crc, file = 0, fs.open(path)
    for at in range(offset, offset + length, BLOCK):
        crc = crc32(file.view(at, min(BLOCK, offset + length - at)), crc)
    return crc
