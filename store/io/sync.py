"""Makes files durable, many at once, by threads of ``fdatasync`` or one ``syncfs``; watches for write-back errors.

Many files are synced by one ``syncfs`` instead of one ``fdatasync`` each. Time of ``syncfs`` against eight threads of
``fdatasync`` (more than four gain nothing), ext4, new files of 8 KiB, 20 a directory: 25 files 0.15, 500 files 0.14,
5000 files 0.12; with files of 256 KiB 0.65 to 0.8. But it also pays for what others wrote: with 256 MiB of other
dirty pages 25 files 20, 64 files 11, 500 files 1.7. So it is used from ``SYNCFS_FROM`` files on: below, the threads
cost a few milliseconds more at most; above, the gain outweighs a busy neighbour.

A writer of many files syncs each by itself, each beside the writing, or all of them at the end (``EarlySync``).
"""

from __future__ import annotations

import ctypes
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Literal, get_args

from sparkhaven.store.io.open_files import Stat

SYNC_THREADS = 8
POOL_THREADS = 64  # of a process: a call that waits for a slow disk does not hold up those of other streams
SYNCFS_FROM = 128  # files in one call; see above
SYNC_FILE_RANGE_WRITE = 2  # of Linux: starts writing, and waits for nothing
_LIBC = ctypes.CDLL(None, use_errno=True)


class SyncGuard:
    """Opened before writing, so that the sync afterwards reports every write-back error in between.

    A descriptor that is opened only for the sync may miss an error that was already reported to another process.
    """

    def __init__(self, fs: Durability, path: Path) -> None:
        self._fs = fs
        self._path = path
        self._descriptor = -1  # nothing to close where the next line raises
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._device = os.fstat(self._descriptor).st_dev

    def sync(self, files: Iterable[Path], directories: Iterable[Path] = ()) -> None:
        """Makes files, then directories durable, by one ``syncfs`` if they are many and all on this file system."""
        todo, parents = list(files), list(dict.fromkeys(directories))
        if len(todo) + len(parents) >= SYNCFS_FROM and self._covers(todo, parents):
            self._fs._sync_file_system(self._path, self._descriptor)
        else:
            self._fs.sync(todo)
            self._fs.sync_dirs(parents)

    def close(self) -> None:
        """Stops watching; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()

    def _covers(self, files: list[Path], directories: list[Path]) -> bool:
        holders = {path.parent for path in files} | set(directories)
        stats = [self._fs.stat(path) for path in holders]
        return all(stat is not None and stat.device == self._device for stat in stats)


_POOLS: dict[int, ThreadPoolExecutor] = {}  # by process, since a fork has no threads; starting them takes longer


def each(action: Callable[[Path], None], paths: list[Path]) -> None:
    """Runs an action on every path, several at once, until all have ended; the first error is raised.

    The caller is one of those that run it, so few threads are woken.
    """
    if len(paths) < 2:
        for path in paths:
            action(path)
        return
    process = os.getpid()
    pool = _POOLS.get(process) or _POOLS.setdefault(process, ThreadPoolExecutor(POOL_THREADS, "sync"))
    todo = SimpleQueue[Path]()
    for path in paths:
        todo.put(path)
    share = min(SYNC_THREADS, len(paths))
    runs = [pool.submit(_run_all, action, todo) for _ in range(share - 1)]
    try:
        _run_all(action, todo)
    finally:
        wait(runs)
    for run in runs:
        run.result()


def end_threads() -> None:
    """Ends the idle threads of ``each`` in this process; a later call starts others."""
    pool = _POOLS.pop(os.getpid(), None)
    if pool is not None:
        pool.shutdown()


def _run_all(action: Callable[[Path], None], todo: SimpleQueue[Path]) -> None:
    while True:
        try:
            path = todo.get_nowait()
        except Empty:
            return
        action(path)


def fdatasync(path: Path) -> None:
    """Makes one file or directory durable, by a descriptor of its own."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


class Durability(ABC):
    """Syncs of files, directories and file systems; a failed sync is an OSError and is never retried."""

    @abstractmethod
    def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
        """What a path is, or None if nothing is there."""

    def sync(self, paths: Iterable[Path]) -> None:
        """Makes the content of files durable, in parallel. OSError: a sync failed."""
        todo = list(paths)
        if len(todo) >= SYNCFS_FROM:
            self._sync_file_systems(todo)
        else:
            each(self._sync_file, todo)

    def sync_dirs(self, paths: Iterable[Path]) -> None:
        """Makes the entries of directories durable: created, renamed and removed names."""
        todo = list(dict.fromkeys(paths))
        if len(todo) >= SYNCFS_FROM:
            self._sync_file_systems(todo)
        else:
            each(self._sync_dir, todo)

    def start_writeback(self, path: Path) -> None:
        """Has the kernel begin to write a file, so that its sync waits less, and reports errors; advice, no promise."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _LIBC.sync_file_range(descriptor, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)
        finally:
            os.close(descriptor)

    def drop_cached(self, paths: Iterable[Path]) -> None:
        """Drops synced files from the page cache, unless they are mapped: the next read comes from the disk."""
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    @contextmanager
    def sync_guard(self, path: Path) -> Iterator[SyncGuard]:
        """Watches the file system of ``path`` for write errors while the body writes; see ``SyncGuard``."""
        guard = SyncGuard(self, path)
        try:
            yield guard
        finally:
            guard.close()

    def _sync_file_systems(self, paths: Iterable[Path]) -> None:
        devices: dict[int, Path] = {}
        for parent in dict.fromkeys(path.parent for path in paths):
            stat = self.stat(parent)
            if stat is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(parent))
            devices.setdefault(stat.device, parent)
        for parent in devices.values():
            self._sync_file_system(parent, None)

    def _sync_file(self, path: Path) -> None:
        fdatasync(path)

    def _sync_dir(self, path: Path) -> None:
        fdatasync(path)

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        """One ``syncfs``; a descriptor opened before the writes also reports write-back errors since then."""
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else descriptor
        try:
            if _LIBC.syncfs(opened):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(path))
        finally:
            if descriptor is None:
                os.close(opened)


SyncMode = Literal["final", "immediate", "concurrent"]
SYNC_MODES: tuple[SyncMode, ...] = get_args(SyncMode)
THREADS = 2  # that sync while others write
WRITEBACK_BYTES = 1 << 20  # smaller files are written faster together, by the sync


class EarlySync:
    """Syncs written files ahead of the sync at the end, which its caller does in any case.

    ``immediate``: the thread that has written a file syncs it. ``concurrent``: other threads do, and the end of the
    block waits for them. ``final``: none of them is synced, but the kernel is asked to begin with the larger ones.
    """

    def __init__(self, fs: Durability, mode: SyncMode, *, writeback_bytes: int = WRITEBACK_BYTES) -> None:
        self._fs, self._mode, self._least = fs, mode, writeback_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._syncs: list[Future[None]] = []

    def written(self, path: Path, size: int) -> None:
        """So many bytes of a file are written. OSError: the sync of this thread failed."""
        if self._mode == "immediate":
            self._fs.sync([path])
        elif self._mode == "concurrent":
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS)
            self._syncs.append(self._pool.submit(self._fs.sync, [path]))
        elif size >= self._least:
            self._fs.start_writeback(path)

    def __enter__(self) -> EarlySync:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Waits for the other threads. OSError: one of their syncs failed, unless the block has failed already."""
        if self._pool is None:
            return
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        for sync in self._syncs if kind is None else ():
            sync.result()
