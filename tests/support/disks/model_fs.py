"""File systems that break on purpose, on a real directory: mappings and locks are real.

``QuickFs``     does not wait for the disk
``CrashingFs``  stops the process at a named step, or before the n-th change; afterwards every call fails
``KillingFs``   the same where no power cut follows: a sync is no change
``FaultFs``     lets the n-th call of one kind fail as a disk does: EIO, ENOSPC, half a write

``PowerCutFs`` of ``power_cut_fs`` forgets what was not synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from sparkhaven.store.io.fs import SYNCFS_FROM, Fs, Lock
from sparkhaven.store.io.open_files import Opened


class Crash(BaseException):
    """The process is gone. No handler of the program may catch it, and no clean-up of it may reach the disk."""


class QuickFs(Fs):
    """The file system without waiting for the disk: for tests that do not pull the plug."""

    def sync(self, paths: Iterable[Path]) -> None:
        list(paths)

    def sync_dirs(self, paths: Iterable[Path]) -> None:
        list(paths)

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        """Nothing."""


class CrashingFs(Fs):
    """Stops at a step (``name:before`` or ``name:after``, the n-th time) or before the n-th change of the disk."""

    def __init__(
        self,
        *,
        crash_at: str | None = None,
        occurrence: int = 1,
        crash_after: int | None = None,
        boot: str = "boot-1",
        die: Callable[[], None] | None = None,
    ) -> None:
        self.crash_at, self.occurrence, self.crash_after = crash_at, occurrence, crash_after
        self.boot = boot
        self.steps: list[str] = []
        self.changes = 0
        self.dead = False
        self._die = die
        self._locks: list[Lock] = []

    def crash(self) -> None:
        """The process ends here: its locks are free, nothing of it runs on."""
        if self._die is not None:
            self._die()
        self.dead = True
        for lock in self._locks:
            lock.release()
        raise Crash

    def _live(self) -> None:
        if self.dead:
            raise Crash

    def _change(self, kind: str, path: Path) -> None:
        """Before each change of the disk."""
        self._live()
        if self.crash_after is not None and self.changes >= self.crash_after:
            self.crash()
        self.changes += 1

    def step(self, name: str) -> None:
        self._live()
        self.steps.append(name)
        if name == self.crash_at:
            self.occurrence -= 1
            if self.occurrence == 0:
                self.crash()

    def boot_id(self) -> str:
        return self.boot

    def read(self, path: Path) -> bytes:
        self._live()
        return super().read(path)

    def open(self, path: Path) -> Opened:
        self._live()
        return super().open(path)

    def _mkdir(self, path: Path) -> None:
        self._change("mkdir", path)
        super()._mkdir(path)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        self._change("write", path)
        super().write_at(path, offset, data)

    def copy_range(self, source: Opened, start: int, end: int, path: Path, offset: int) -> None:
        """By ``write_at``, which knows what may break."""
        data = source.read(start, end - start)
        if len(data) < end - start:
            super().copy_range(source, start, end, path, offset)
        self.write_at(path, offset, data)

    def write_new(self, path: Path, data: bytes, *, allocate: bool = False) -> None:
        self._change("write", path)
        super().write_new(path, data, allocate=allocate)

    def create(self, path: Path, data: bytes = b"") -> bool:
        self._change("create", path)
        return super().create(path, data)

    def truncate(self, path: Path, length: int) -> None:
        self._change("truncate", path)
        super().truncate(path, length)

    def rename(self, source: Path, target: Path) -> None:
        self._change("rename", target)
        super().rename(source, target)

    def exchange(self, one: Path, other: Path) -> bool:
        self._change("exchange", other)
        return super().exchange(one, other)

    def link(self, source: Path, target: Path) -> bool:
        self._change("link", target)
        return super().link(source, target)

    def symlink(self, target: str, path: Path) -> None:
        self._change("symlink", path)
        super().symlink(target, path)

    def unlink(self, path: Path) -> None:
        self._change("unlink", path)
        super().unlink(path)

    def rmdir(self, path: Path) -> bool:
        self._change("rmdir", path)
        return super().rmdir(path)

    def remove_tree(self, path: Path) -> None:
        """File by file, so that it can be stopped in the middle."""
        self._live()
        if self.stat(path, follow=False) is None:
            return
        for name in self.names(path):
            found = self.stat(path / name, follow=False)
            if found is not None and found.is_dir and not found.is_link:
                self.remove_tree(path / name)
            else:
                self.unlink(path / name)
        self.rmdir(path)

    def sync(self, paths: Iterable[Path]) -> None:
        """One after the other, so that a stop in the middle is the same each time."""
        todo = list(paths)
        if len(todo) >= SYNCFS_FROM:
            super().sync(todo)
        for path in todo if len(todo) < SYNCFS_FROM else ():
            self._sync_file(path)

    def sync_dirs(self, paths: Iterable[Path]) -> None:
        """As ``sync``."""
        todo = list(dict.fromkeys(paths))
        if len(todo) >= SYNCFS_FROM:
            super().sync_dirs(todo)
        for path in todo if len(todo) < SYNCFS_FROM else ():
            self._sync_dir(path)

    def _sync_file(self, path: Path) -> None:
        self._change("sync", path)  # what a sync means is the model's business, so the real disk is spared

    def _sync_dir(self, path: Path) -> None:
        self._change("sync-dir", path)

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        self._change("sync-fs", path)

    def lock(self, path: Path, *, wait: bool = False, make: bool = True) -> Lock | None:
        self._live()
        lock = super().lock(path, wait=wait, make=make)
        if lock is not None:
            self._locks.append(lock)
        return lock

    def record_lock(self, path: Path) -> Lock | None:
        self._live()
        lock = super().record_lock(path)
        if lock is not None:
            self._locks.append(lock)
        return lock


class KillingFs(CrashingFs):
    """Without a power cut nobody can tell a process that was killed before a sync from one that was killed after it."""

    def _sync_file(self, path: Path) -> None:
        self._live()

    def _sync_dir(self, path: Path) -> None:
        self._live()

    def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
        self._live()


class FaultFs(CrashingFs):
    """The n-th call of ``kind`` (see ``_change``) on a path whose name contains ``name`` fails with ``code``.

    ``half``: a write puts the first half of its bytes there before it fails. ``times``: how many calls in a row fail.
    """

    def __init__(
        self, kind: str, *, nth: int = 1, name: str = "", code: int = errno.EIO, half: bool = False, times: int = 1
    ) -> None:
        super().__init__()
        self._kind, self._nth, self._name, self._code = kind, nth, name, code
        self._half, self._times = half, times
        self._calls = 0
        self.failed = 0

    def _change(self, kind: str, path: Path) -> None:
        super()._change(kind, path)
        if self._due(kind, path) and not (kind == "write" and self._half):
            self._fail(path)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        calls = self._calls
        super().write_at(path, offset, data if not self._will_halve(path) else bytes(data)[: len(data) // 2])
        if self._half and self._calls > calls and self._failing():
            self._fail(path)

    def _will_halve(self, path: Path) -> bool:
        matches = self._kind == "write" and self._name in path.name
        return self._half and matches and self._nth <= self._calls + 1 < self._nth + self._times

    def _due(self, kind: str, path: Path) -> bool:
        if kind != self._kind or self._name not in path.name:
            return False
        self._calls += 1
        return self._failing()

    def _failing(self) -> bool:
        return self._nth <= self._calls < self._nth + self._times

    def _fail(self, path: Path) -> None:
        self.failed += 1
        raise OSError(self._code, os.strerror(self._code), str(path))
