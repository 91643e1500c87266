"""The calls of ``Fs`` that make files and directories durable."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkhaven.store.io.sync import SYNCFS_FROM, Device, SyncGuard, each, fdatasync, start_writeback, syncfs


class Durability(ABC):
    """Syncs of files, directories and file systems; a failed sync is an OSError and is never retried."""

    @abstractmethod
    def stat(self, path: Path, *, follow: bool = True) -> Device | None:
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
        """Has the kernel begin to write a file, so that its sync waits less. Nothing is durable before the sync."""
        start_writeback(path)

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
        syncfs(path, descriptor)
