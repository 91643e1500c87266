"""The lock of a stream, its owner, and its commit lock."""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from sparkhaven.store.errors import LockLostError
from sparkhaven.store.io.fs import Fs, Lock

KERNEL_LOCKS = Path("/proc/locks")
_TEMPORARY = re.compile(r"\.(?P<stream>.+)\.(?:log|checkpoint|head|removals)\.tmp-")
REPLACED = 100  # times that a file may be replaced while its lock is taken
COMMIT_LOCK_PAUSES = (0.005, 0.02, *[0.1] * 600)  # seconds; a commit holds the lock for less


def take_lock(fs: Fs, path: Path, *, make: bool = True) -> Lock:
    """The exclusive lock of a stream. LockLostError, with pid and host of the owner: another process holds it.

    Without ``make`` the file must exist, and read permission is enough.
    """
    lock = fs.lock(path, make=make)
    if lock is None:
        raise lock_lost(fs, path, "another process is writing the stream")
    return lock


def take_leased_lock(fs: Fs, path: Path, generation: int, *, pause: Callable[[float], None] = time.sleep) -> Lock:
    """The lock of a stream for a process that continues a generation, once it is free.

    LockLostError: another process has opened the stream since, or holds the lock for a minute. A preview of a recovery
    holds it for a moment, without a new generation.
    """

    def take() -> Lock | None:
        _require_generation(fs, path, generation)
        lock = fs.lock(path)
        if lock is not None:
            try:
                _require_generation(fs, path, generation)
            except BaseException:
                lock.release()
                raise
        return lock

    lock = _once_free(take, pause)
    if lock is None:
        raise lock_lost(fs, path, "another process has held the stream for a minute")
    return lock


def _once_free(take: Callable[[], Lock | None], pause: Callable[[float], None]) -> Lock | None:
    """A lock that is tried again and again; None if it is not free within a minute."""
    for seconds in COMMIT_LOCK_PAUSES:
        if (lock := take()) is not None:
            return lock
        pause(seconds)
    return take()


def _require_generation(fs: Fs, path: Path, generation: int) -> None:
    if _owner(fs, path).get("generation") != generation:
        raise lock_lost(
            fs,
            path,
            "another process has opened the stream since this write began",
            expected=f"generation {generation}",
            unknown="no owner",
            hint="write again when that process has ended. Nothing of this write was committed",
        )


def take_lock_if_there(fs: Fs, path: Path) -> AbstractContextManager[Lock | None]:
    """Takes the lock for a read-only caller: without a lock file the stream is not locked, and none is created."""
    return take_lock(fs, path, make=False) if fs.stat(path) is not None else nullcontext()


def take_commit_lock(fs: Fs, path: Path, *, pause: Callable[[float], None] = time.sleep) -> Lock:
    """The commit lock of a stream, for an opening. LockLostError: it is not free within a minute.

    A commit, a compaction, a removal and an opening hold it one at a time. So a process that was suspended while
    holding it is not overtaken, even if the stream's lock file was deleted.
    """
    commit_lock = _once_free(lambda: lock_commits(fs, path), pause)
    if commit_lock is None:
        raise LockLostError(
            "another process holds the commit lock of this stream",
            where=path,
            expected="free within a minute",
            found="still locked",
            hint="it may be suspended. End it (`fuser` on the file names it), then restart. Delete no lock file",
        )
    return commit_lock


def lock_commits(fs: Fs, path: Path, *, wait: bool = False) -> Lock | None:
    """The commit lock, by one try or, with ``wait``, when it is free; None if another process holds it.

    It locks the removals file, which its owner may replace (``replace_locked``). So it counts only if the name still
    leads to the locked file.
    """
    for _ in range(REPLACED):
        lock = fs.lock(path, wait=wait)
        if lock is None or _leads_to(fs, path, lock):
            return lock
    raise LockLostError(
        "another program replaces the removals file while it is locked",
        where=path,
        expected="a file that stays the same",
        found=f"another one {REPLACED} times",
        hint="find out which program replaces or deletes files in this directory",
    )


def _leads_to(fs: Fs, path: Path, lock: Lock) -> bool:
    """Whether the name leads to the locked file; if not, or if that is unknown, releases the lock."""
    counts = False
    try:
        stat = fs.stat(path)
        counts = stat is not None and stat.inode == lock.inode
    finally:
        if not counts:
            lock.release()
    return counts


def commits_held(fs: Fs, path: Path) -> Lock:
    """The commit lock, once it is free."""
    lock = lock_commits(fs, path, wait=True)
    assert lock is not None  # noqa: S101 - waiting never gives None
    return lock


def replace_locked(fs: Fs, lock: Lock, data: bytes) -> None:
    """Replaces the locked file, durably; ``lock`` then holds the new file and the old one.

    The new file is locked before it gets the name, so no process comes in between. A process that waits for the old
    file finds that the name leads elsewhere (``lock_commits``).
    """
    path = lock.path
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    fs.unlink(temporary)  # of a process of the same number that has died
    fs.write_new(temporary, data)
    new = fs.lock(temporary, make=False)
    assert new is not None  # noqa: S101 - nobody else knows the file
    with new:
        fs.sync([temporary])
        fs.rename(temporary, path)
        lock.add(new)
    fs.sync_dirs([path.parent])


def write_owner(fs: Fs, path: Path, *, pid: int, host: str, generation: int, since_ms: int) -> None:
    """Writes the owner into the lock file: for users, the fencing check of tasks, and as a witness of the generation.

    ``crc`` detects a file torn by a power failure. The lock itself is the kernel's.
    """
    owner: dict[str, object] = {"pid": pid, "host": host, "generation": generation, "since": since_ms}
    owner["crc"] = _crc(owner)
    data = json.dumps(owner).encode("ascii") + b"\n"
    fs.write_at(path, 0, data)
    fs.truncate(path, len(data))


def named_generation(fs: Fs, path: Path) -> int:
    """The generation in a lock file; 0 if it has none, is torn, or is shared with a backup by a hard link."""
    owner, stat = _owner(fs, path), fs.stat(path)
    generation = owner.get("generation")
    whole = "crc" not in owner or owner["crc"] == _crc(owner)
    sound = stat is not None and stat.links == 1 and whole and isinstance(generation, int)
    return generation if sound and isinstance(generation, int) else 0


def read_lock(fs: Fs, path: Path) -> bytes:
    """The content of a lock file, empty if there is none. OSError: it is unreadable, so it cannot be locked."""
    try:
        return fs.read(path)
    except FileNotFoundError:
        return b""


def _crc(owner: dict[str, object]) -> int:
    return zlib.crc32(json.dumps({name: owner.get(name) for name in ("pid", "host", "generation", "since")}).encode())


def held_locks(text: str) -> dict[tuple[int, int, int], int]:
    """(major, minor, inode) of every held ``flock`` -> process id; 0 or less for a process not visible here."""
    locks: dict[tuple[int, int, int], int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 8 and words[1] == "FLOCK":
            major, minor, inode = words[5].split(":")
            locks[int(major, 16), int(minor, 16), int(inode)] = int(words[4])
    return locks


def lock_owner(fs: Fs, path: Path) -> int | None:
    """The process that holds the lock of a file, by the kernel's list of locks; None if no process of this machine."""
    stat = fs.stat(path)
    if stat is None:
        return None
    held = held_locks(fs.read(KERNEL_LOCKS).decode("ascii", "replace"))
    return held.get((os.major(stat.device), os.minor(stat.device), stat.inode))


def in_progress(fs: Fs, path: Path) -> bool:
    """Whether a temporary file beside a log belongs to a running writer; a start removes those of earlier ones."""
    named = _TEMPORARY.match(path.name)
    try:
        return named is not None and lock_owner(fs, path.with_name(f"{named['stream']}.lock")) is not None
    except OSError:
        return False  # without the kernel's list the caller reports the file


def lock_lost(
    fs: Fs,
    path: Path,
    what: str,
    *,
    expected: str = "a stream that no other process holds",
    unknown: str = "an owner that has not written the lock file yet",
    hint: str = "stop that process, or wait until it ends. A stream has one writer",
) -> LockLostError:
    """A LockLostError with the owner in the lock file, if any; ``pid`` and ``host`` are attributes."""
    owner = _owner(fs, path)
    pid, host = owner.get("pid"), owner.get("host")
    known = f"process {pid} on {host}, generation {owner.get('generation')}" if owner else unknown
    return LockLostError(what, where=path, expected=expected, found=known, hint=hint, pid=pid, host=host)


def _owner(fs: Fs, path: Path) -> dict[str, object]:
    try:
        value = json.loads(fs.read(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
