"""Writes past the page cache, so that what a night writes does not take the place of what live readers use.

A large write goes to the disk by ``O_DIRECT``, in whole blocks from memory that is aligned as the kernel wants it. Its
two ends, small writes, and file systems without direct writes (tmpfs) go through the cache as ever. Then what was
written is read back, which fills the cache again: ``release`` drops those pages.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sparkhaven.store.errors import naming
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import refuse_change

BLOCK = 4096  # bytes; a multiple of the blocks of disks in use
LEAST = 1 << 20  # bytes of a write that is worth it
BUFFER = 4 << 20  # bytes that are copied and written at once


class DirectFs(Fs):
    """The real file system, for the commands that write much and read it back once.

    ``least``: bytes of a write from which it goes past the cache.
    """

    def __init__(self, least: int = LEAST) -> None:
        self._least = least

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        """As ``Fs.write_at``. The result is the same, byte for byte, whatever the offset and the length."""
        left = memoryview(data).cast("B")
        first = -offset % BLOCK
        stop = first + (len(left) - first) // BLOCK * BLOCK
        if len(left) < self._least or stop <= first:
            super().write_at(path, offset, left)
            return
        if first:
            super().write_at(path, offset, left[:first])
        done = first + self._write_blocks(path, offset + first, left[first:stop])
        if done < len(left):
            super().write_at(path, offset + done, left[done:])

    def release(self, paths: Iterable[Path]) -> None:
        self.drop_cached(paths)

    def _write_blocks(self, path: Path, offset: int, data: memoryview) -> int:
        """Writes whole blocks at the start of a block; returns the bytes written: fewer where the kernel refuses."""
        refuse_change(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_DIRECT, 0o644)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return 0
        try:
            with naming(path):
                return _pwrite_blocks(descriptor, offset, data)
        finally:
            os.close(descriptor)


class _Aligned(threading.local):
    """Memory of a thread that begins at a page."""

    def __init__(self) -> None:
        self.octets = np.frombuffer(mmap.mmap(-1, BUFFER), np.uint8)


_ALIGNED = _Aligned()


def _pwrite_blocks(descriptor: int, offset: int, data: memoryview) -> int:
    octets, done = np.frombuffer(data, np.uint8), 0
    while done < len(octets):
        part = octets[done : done + BUFFER]
        if part.ctypes.data % BLOCK:
            np.copyto(_ALIGNED.octets[: len(part)], part)  # which releases the interpreter lock
            part = _ALIGNED.octets[: len(part)]
        try:
            written = os.pwrite(descriptor, part.data, offset + done)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return done  # a file system that opens for direct writes and does not take them
        done += written
        if written % BLOCK:
            return done  # the end of the disk, or a signal: the rest is no whole block any more
    return done
