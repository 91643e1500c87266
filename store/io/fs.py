"""The one module that opens, writes, syncs, renames, locks and lists files.

All disk access of sparkhaven goes through an ``Fs`` argument, so a crash test can stop the process before or after any
named step, and a fault test can fail the n-th call. ``Fs`` itself is the real file system. Writes are positioned and
complete (short writes and EINTR are handled here). Nothing is durable until one of the ``sync`` methods
(``store.io.sync``) has returned; a failed sync is never retried, because the kernel may have dropped the pages
that it could not write. Each call that changes the disk asks first whether the root is one that is never written
(``store.io.read_only_roots``).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from sparkhaven.store.errors import in_phase, naming
from sparkhaven.store.io.open_files import (
    MAP_FROM,
    WHOLE_FILE,
    Identity,
    Lock,
    Opened,
    Stat,
    held,
    present,
    read_exactly,
    shorter,
    write_whole,
)
from sparkhaven.store.io.read_only_roots import refuse_change
from sparkhaven.store.io.sync import SYNCFS_FROM, Durability, SyncGuard

T = TypeVar("T")


class CoreReads:
    """The part of ``Fs`` that hands files to the core."""

    def read_together(self, paths: Sequence[str], read: Callable[[], T]) -> T:
        """Calls ``read``, which reads these files in the compiled core; a test may come between."""
        del paths
        return read()

    @contextmanager
    def descriptors(self, paths: Sequence[Path]) -> Iterator[list[int]]:
        """Files open for reading, for the compiled core, until the end of the block."""
        with ExitStack() as opened:
            descriptors = []
            for path in paths:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, descriptor)
                descriptors.append(descriptor)
            yield descriptors


_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)  # the kernel, or the file system, has no such call


def exchanged(one: Path, other: Path) -> bool:
    """Whether the two names now lead to each other's file; False where the system cannot. OSError: it refused."""
    rename = getattr(_LIBC, "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


__all__ = ["MAP_FROM", "SYNCFS_FROM", "Fs", "Lock", "Stat", "SyncGuard"]

SMALL_FILE = 1 << 16  # bytes of a file that one call reads


class Fs(Durability, CoreReads):
    """The real file system."""

    # --- steps -----------------------------------------------------------------------------------------

    def step(self, name: str) -> None:
        """A named step of a protocol was reached; crash tests override this no-op."""

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Marks a step, the phase of disk errors: ``step(name + ":before")``, body, ``step(name + ":after")``."""
        self.step(f"{name}:before")
        with in_phase(name):
            yield
        self.step(f"{name}:after")

    # --- reading ---------------------------------------------------------------------------------------

    def read(self, path: Path) -> bytes:
        with open(path, "rb", buffering=0) as file:  # without a buffer it takes half the time
            return file.read()

    def held(self, path: Path) -> memoryview:
        """The bytes of a file that may be large."""
        return held(path) or memoryview(self.read(path))

    def open(self, path: Path) -> Opened:
        return Opened(path)

    def read_range(self, path: Path, offset: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``offset``; a file that ends earlier is a CorruptFileError."""
        return read_exactly(path, offset, length)

    def read_block(self, path: Path, offset: int, length: int) -> bytes:
        """A range of bytes, and the system reads nothing ahead: for whoever has no memory that would keep it."""
        return read_exactly(path, offset, length, os.POSIX_FADV_RANDOM)

    def map(self, path: Path, length: int) -> pa.Buffer:
        """The first ``length`` bytes of a file as a read-only mapping; shorter is a CorruptFileError.

        As ``map_range``, for a reader with many mappings: the mapping needs no open descriptor.
        """
        if length < MAP_FROM:
            return self.map_range(path, 0, length)
        try:
            with pa.memory_map(str(path)) as mapping:
                size = mapping.size()
                if size >= length:
                    return mapping.read_buffer(length)
        except FileNotFoundError:
            raise
        except OSError:
            return self.map_range(path, 0, length)
        raise shorter(path, length, size)

    def map_range(self, path: Path, offset: int, length: int) -> pa.Buffer:
        """``length`` bytes from ``offset`` as a read-only mapping of those pages; shorter is a CorruptFileError.

        Below ``MAP_FROM`` bytes, and at the limit of mappings or open files, it is a copy in memory: a mapping keeps a
        descriptor, and a table of many small locations has tens of thousands of files.
        """
        if length < MAP_FROM:
            return pa.py_buffer(self.read_range(path, offset, length) if length else b"")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size < offset + length:
                raise shorter(path, offset + length, size)
            lead = offset % mmap.ALLOCATIONGRANULARITY
            try:
                mapping = mmap.mmap(descriptor, lead + length, prot=mmap.PROT_READ, offset=offset - lead)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    raise
                return pa.py_buffer(self.read_range(path, offset, length))
            return pa.py_buffer(mapping).slice(lead, length)
        finally:
            os.close(descriptor)

    def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
        try:
            status = os.stat(path, follow_symlinks=follow)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link that leads to itself leads nowhere
                return None
            raise
        return Stat.of(status)

    def is_dir(self, path: Path) -> bool:
        stat = self.stat(path)
        return stat is not None and stat.is_dir

    def entries(self, path: Path) -> list[tuple[str, Stat]]:
        """Names in a directory, sorted, and what they are, links followed; a missing directory, or a file, has none."""
        return [(name, Stat.of(status)) for name, status in present(path, self.names(path))]

    def sizes(self, directory: Path, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Bytes, and number of links, of those of these files of a directory that are there."""
        return {name: (status.st_size, status.st_nlink) for name, status in present(directory, names)}

    def identities(self, directory: Path, names: Iterable[str]) -> tuple[Identity, ...] | None:
        """What these files of a directory are to the system; None if one is not there."""
        begin = f"{directory}/"
        try:
            stats = [os.stat(begin + name) for name in names]
        except (FileNotFoundError, NotADirectoryError):
            return None
        return tuple((status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns) for status in stats)

    def names(self, path: Path) -> list[str]:
        """Names in a directory, sorted; a missing directory, or a file, has none."""
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def names_below(self, directory: Path, parts: Iterable[str]) -> Iterator[list[str]]:
        """Names in several directories below one, in their order: a table has ten thousands of them."""
        begin = f"{directory}/"
        for part in parts:
            try:
                names = os.listdir(begin + part)
            except (FileNotFoundError, NotADirectoryError):
                names = []
            yield sorted(names) if len(names) > 1 else names

    def small_files(self, directory: Path, parts: Iterable[str]) -> Iterator[bytes | None]:
        """The bytes of several files below a directory, in their order, none of one that is not there.

        None: it is larger than ``SMALL_FILE``, or cannot be read. Whoever reads it by itself is told why.
        """
        begin = f"{directory}/"
        for part in parts:
            try:
                descriptor = os.open(begin + part, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                yield b""
                continue
            except OSError:
                yield None
                continue
            data = None
            with suppress(OSError):  # of a directory
                data = os.read(descriptor, SMALL_FILE)
            os.close(descriptor)
            yield data if data is None or len(data) < SMALL_FILE else None

    def resolve(self, path: Path) -> Path:
        return path.resolve()

    def free_bytes(self, path: Path) -> int:
        """Bytes that an ordinary user may still write on the file system of ``path``."""
        usage = os.statvfs(path)
        return usage.f_bavail * usage.f_frsize

    def used_share(self, path: Path) -> float:
        """The share of the file system of ``path`` that is in use, from 0 to 1, as ``df`` shows it."""
        usage = os.statvfs(path)
        used = usage.f_blocks - usage.f_bfree
        return used / max(used + usage.f_bavail, 1)

    def boot_id(self) -> str:
        """Id of the running kernel; it changes when the machine restarts."""
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()

    def user(self) -> int:
        """Number of the user that the process writes as."""
        return os.geteuid()

    # --- writing ---------------------------------------------------------------------------------------

    def mkdirs(self, path: Path) -> list[Path]:
        """Makes a directory with its parents; returns the new ones, outermost first (their parents need a sync)."""
        missing: list[Path] = []
        current = path
        while self.stat(current) is None:
            missing.append(current)
            current = current.parent
        for directory in reversed(missing):
            self._mkdir(directory)
        return missing[::-1]

    def keep_dirs(self, path: Path, top: Path) -> None:
        """Makes a directory durably: syncs the entries of all directories between it and ``top``.

        Also of existing ones: a process may have died between making a directory and syncing its entry.
        """
        self.keep_all_dirs([path], top)

    def keep_all_dirs(self, paths: Iterable[Path], top: Path) -> None:
        """Makes several directories durably; they share the syncs."""
        holders: list[Path] = []
        for path in paths:
            holders += [directory.parent for directory in self.mkdirs(path)]
            holders += [parent for parent in path.parents if parent == top or top in parent.parents]
        self.sync_dirs(holders)

    def _mkdir(self, path: Path) -> None:
        refuse_change(path)
        path.mkdir(exist_ok=True)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        """Writes all of ``data`` at ``offset``, making the file if it is missing; does not sync."""
        refuse_change(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            left = memoryview(data).cast("B")
            with naming(path):
                while left:
                    written = os.pwrite(descriptor, left, offset)
                    left, offset = left[written:], offset + written
        finally:
            os.close(descriptor)

    def release(self, paths: Iterable[Path]) -> None:
        """The caller will not read these synced files again soon. They stay in the page cache, but of ``DirectFs``."""

    def copy_range(self, source: Opened, start: int, end: int, path: Path, offset: int) -> None:
        """As ``write_at``, of bytes ``[start, end)`` of an open file; CorruptFileError where that ends before."""
        refuse_change(path)
        source.copy(start, end, path, offset)

    def truncate(self, path: Path, length: int) -> None:
        """Truncates a file to ``length`` bytes; the caller makes sure that no reader uses the rest."""
        refuse_change(path)
        os.truncate(path, length)

    def replace(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Atomic replace: temporary file beside the target, write, sync, rename over it, sync the directory."""
        self.replace_all({path: data}, sync=sync)

    def replace_all(self, files: Mapping[Path, bytes], *, sync: bool = True) -> None:
        """Replaces several files, each atomically and in the given order, with one sync for all."""
        temporaries = {path: path.with_name(f".{path.name}.tmp-{os.getpid()}") for path in files}
        for path, data in files.items():
            self.write_new(temporaries[path], data, allocate=not sync)
        if sync:
            self.sync(temporaries.values())
        for path, temporary in temporaries.items():
            self.rename(temporary, path)
        if sync:
            self.sync_dirs(path.parent for path in files)

    def write_new(self, path: Path, data: bytes, *, allocate: bool = False) -> None:
        """Writes a file, dropping earlier content; does not sync. ``allocate``: it will be renamed over another."""
        refuse_change(path)
        with naming(path):
            write_whole(path, data, allocate=allocate)

    def create(self, path: Path, data: bytes = b"") -> bool:
        """Creates a file exclusively (a claim); False if it exists. Does not sync."""
        refuse_change(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        os.close(descriptor)
        if data:
            self.write_at(path, 0, data)
        return True

    def shorten(self, path: Path, length: int) -> None:
        """Replaces a file by a durable copy of its first ``length`` bytes; mappings of the old inode stay valid.

        The caller syncs the directory. A file shorter than ``length`` is a CorruptFileError.
        """
        temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
        self.write_new(temporary, b"")
        self.copy_range(self.open(path), 0, length, temporary, 0)
        self.sync([temporary])
        self.rename(temporary, path)

    def rename(self, source: Path, target: Path) -> None:
        refuse_change(source)
        refuse_change(target)
        os.rename(source, target)

    def exchange(self, one: Path, other: Path) -> bool:
        """Swaps two names in one step; False where the file system cannot. The caller syncs the directory."""
        refuse_change(one)
        refuse_change(other)
        return exchanged(one, other)

    def link(self, source: Path, target: Path) -> bool:
        """Gives a file a second name, atomically; False if ``target`` exists. The caller syncs its directory.

        On a file system without hard links it renames ``source``, and relies on the caller's lock.
        """
        refuse_change(target)
        try:
            os.link(source, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            if self.stat(target, follow=False) is not None:
                return False
            self.rename(source, target)
        return True

    def hard_link(self, source: Path, target: Path) -> bool:
        """Gives a file a second name; False where the file system cannot, or the two are on different ones."""
        refuse_change(target)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            return False
        return True

    def symlink(self, target: str, path: Path) -> None:
        refuse_change(path)
        os.symlink(target, path)

    def may_write(self, path: Path) -> bool:
        """Whether this user may write a file, or make entries in a directory."""
        need = os.W_OK | (os.X_OK if path.is_dir() else 0)
        return os.access(path, need, effective_ids=os.access in os.supports_effective_ids)

    def unlink(self, path: Path) -> None:
        """Removes a file or link; a missing one is no error."""
        refuse_change(path)
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Removes a directory with all below it; a missing one is no error."""
        refuse_change(path)
        if self.stat(path, follow=False) is not None:
            shutil.rmtree(path)

    def rmdir(self, path: Path) -> bool:
        """Removes an empty directory; False if it is not empty."""
        refuse_change(path)
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    # --- locks -----------------------------------------------------------------------------------------

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        """Takes the exclusive lock of a directory or file (created if missing, default); None if it is held elsewhere.

        ``wait`` blocks until it is free, for locks that are held briefly.
        """
        stat = self.stat(path)
        if stat is None and make:
            refuse_change(path)
        flags = os.O_RDONLY if (stat and stat.is_dir) or not make else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return Lock(descriptor, path)

    def record_lock(self, path: Path) -> Lock | None:
        """Takes the exclusive ``fcntl`` lock of a whole file that exists; None if it is held elsewhere.

        It excludes locks of that kind in all processes, and other open files of this one.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, WHOLE_FILE)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return Lock(descriptor, path)


def files_below(fs: Fs, path: Path) -> Iterator[Path]:
    """Every file in a directory and in those below it, sorted; the path itself if it is a file."""
    stat = fs.stat(path)
    if stat is not None and not stat.is_dir:
        yield path
        return
    for name, _ in stats_below(fs, path):
        yield path / name


def stats_below(fs: Fs, path: Path, before: str = "") -> Iterator[tuple[str, Stat]]:
    """Every file in a directory and below it, as paths behind ``before``, with what each file is."""
    for name, stat in fs.entries(path):
        if stat.is_dir:
            yield from stats_below(fs, path / name, f"{before}{name}/")
        else:
            yield before + name, stat


def size_below(fs: Fs, path: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(stat.size for _, stat in stats_below(fs, path))
