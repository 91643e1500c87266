"""Open files: to be read, written, or locked, and what the system says of them.

An advisory lock is one of the open file, not of its name. ``Seekable`` is bytes at offsets as a stream, as Arrow reads
files.
"""

from __future__ import annotations

import errno
import fcntl
import io
import mmap
import os
import stat as stat_module
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from sparkhaven.store.errors import CorruptFileError, naming

COPY_CHUNK = 8 << 20
MAP_FROM = 1 << 17  # bytes; for less, reading is as quick as mapping
HELD_FROM = 1 << 22  # bytes
WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock: from 0 to the end
_NO_ALLOCATION = (errno.EOPNOTSUPP, errno.EINVAL)  # the file system cannot
_POPULATE_READ = 22  # MADV_POPULATE_READ, of Linux from 5.14 on
LATEST_NS = 2**63 - 1
Identity = tuple[int, int, int, int]
"""Device, inode, size in bytes, and time of the last change (ns): the same for a file that nobody touched."""


class Opened:
    """Bytes of one inode, even if another file is renamed over its name. Closed when it is garbage-collected.

    ``size`` is that of the file when it was opened.
    """

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: Path) -> None:
        self._descriptor = -1
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer where the file ends before."""
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self._descriptor, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def view(self, offset: int, length: int, map_from: int = MAP_FROM) -> memoryview:
        """``length`` bytes from ``offset`` for one pass over them; CorruptFileError where the file ends before.

        ``map_from`` bytes and more are mapped, and all at once: looking at them costs half of what a copy does, and
        pages that the disk does not read are an OSError here, where they would end the process if they were touched
        first.
        """
        size = os.fstat(self._descriptor).st_size
        if offset + length > size:
            raise shorter(self.path, offset + length, size)
        lead = offset % mmap.ALLOCATIONGRANULARITY
        if length >= map_from:
            try:
                mapping = mmap.mmap(self._descriptor, lead + length, prot=mmap.PROT_READ, offset=offset - lead)
                mapping.madvise(_POPULATE_READ)
                return memoryview(mapping)[lead:]
            except OSError:  # an older system, a file system without mappings, or pages that are not read: see below
                pass
        content = self.read(offset, length)
        if len(content) < length:
            raise shorter(self.path, offset + length, offset + len(content))
        return memoryview(content)

    def copy(self, start: int, end: int, path: Path, offset: int) -> None:
        """Writes bytes ``[start, end)`` at ``offset`` of another file; CorruptFileError where this one ends before.

        The kernel copies the pages that a reader sees, in half the time. ``copy_file_range`` may share blocks of the
        disk instead, which are older where a sync has failed.
        """
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with naming(path):
                os.lseek(target, offset, os.SEEK_SET)
                with suppress(OSError):  # where the kernel cannot; of a broken disk the lines below tell
                    while start < end and (sent := os.sendfile(target, self._descriptor, start, end - start)):
                        start += sent
                while start < end:
                    part = self.read(start, min(COPY_CHUNK, end - start))
                    if not part:
                        raise shorter(self.path, end, start)
                    start += os.write(target, part)
        finally:
            os.close(target)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def held(path: Path) -> memoryview | None:
    """All bytes of a file, in memory of large pages where there are any: to get many small ones takes longest.

    None: the file is too small for that.
    """
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size < HELD_FROM:
            return None
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a system without large pages
            pages.madvise(mmap.MADV_HUGEPAGE)
        data, filled = memoryview(pages), 0
        while filled < size and (count := file.readinto(data[filled:])):
            filled += count
    return data[:filled].toreadonly()


def read_exactly(path: Path, offset: int, length: int, advice: int | None = None) -> bytes:
    """So many bytes from ``offset``, after an ``advice`` to the system; CorruptFileError: the file ends before."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if advice is not None:
            os.posix_fadvise(descriptor, 0, 0, advice)
        parts: list[bytes] = []
        wanted = length
        with naming(path):
            while wanted:
                part = os.pread(descriptor, wanted, offset + length - wanted)
                if not part:
                    raise shorter(path, offset + length, offset + length - wanted)
                parts.append(part)
                wanted -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def shorter(path: Path, expected: int, found: int) -> CorruptFileError:
    """The error for a file of ``found`` bytes that should have more."""
    return CorruptFileError(
        "file is shorter than its committed length",
        where=path,
        expected=f"{expected} bytes",
        found=f"{found} bytes",
    )


class Lock:
    """An exclusive advisory lock on an open file or directory.

    Released by ``release``, the end of a ``with``, or process death; also when nothing refers to it any more, as a
    writer that was dropped can write nothing.
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptors = [descriptor]
        self.path = path

    @property
    def held(self) -> bool:
        return bool(self._descriptors)

    @property
    def inode(self) -> int:
        """The locked inode; the name may lead to another one if the file was replaced."""
        return os.fstat(self._descriptors[-1]).st_ino

    def add(self, other: Lock) -> None:
        """Holds ``other`` too, as the newest; both are released together. ``other`` holds nothing from then on."""
        self._descriptors += other._descriptors
        other._descriptors = []

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Releases the lock; idempotent."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        self.release()


def write_whole(path: Path, data: bytes, *, allocate: bool) -> None:
    """Writes a file, dropping earlier content.

    ``allocate``: its blocks are there before the bytes. ext4 writes a file out that is renamed over another one, lest
    a power failure leave it empty. That takes a millisecond or more, and is done only where blocks are not there yet.
    What is renamed without a sync needs no such care: recovery writes it again.
    """
    with open(path, "wb") as file:
        if allocate and data:
            try:
                os.posix_fallocate(file.fileno(), 0, len(data))
            except OSError as error:
                if error.errno not in _NO_ALLOCATION:
                    raise
        file.write(data)


class Seekable(io.RawIOBase):
    """A stream of ``size`` bytes that ``read_at`` gives; position and end are kept here."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self._offset = size, 0

    def read_at(self, offset: int, size: int) -> bytes:
        """So many bytes, one at least and none of them behind the end."""
        raise io.UnsupportedOperation("read_at")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self.size}[whence]
        self._offset = max(base + offset, 0)
        return self._offset

    def read(self, size: int = -1) -> bytes:
        """The next ``size`` bytes, fewer only at the end."""
        left = max(self.size - self._offset, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self.read_at(self._offset, wanted) if wanted else b""
        self._offset += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True, slots=True)
class Stat:
    """Size in bytes, times in nanoseconds since the epoch, and identity of one file or directory.

    A time beyond the years 1677 and 2262 saturates, since logs and sources have 64 bits for it.
    ``links``: number of hard links; with more than one, a backup may share the file. ``owner``: number of the user.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    is_dir: bool
    is_link: bool
    links: int = 1
    is_file: bool = True  # else a directory, pipe, socket or device
    owner: int = -1

    @staticmethod
    def of(status: os.stat_result) -> Stat:
        mode = status.st_mode
        kinds = stat_module.S_ISDIR(mode), stat_module.S_ISLNK(mode), stat_module.S_ISREG(mode)
        times = _saturated(status.st_mtime_ns), _saturated(status.st_ctime_ns)
        identity = status.st_ino, status.st_dev
        return Stat(status.st_size, *times, *identity, *kinds[:2], status.st_nlink, kinds[2], status.st_uid)


def _saturated(time_ns: int) -> int:
    return min(max(time_ns, -LATEST_NS), LATEST_NS)


def present(directory: Path, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Those of these names of a directory that are there, links followed; others are removed, or links to nothing."""
    begin = f"{directory}/"
    for name in names:
        try:
            yield name, os.stat(begin + name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
