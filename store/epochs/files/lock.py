"""The lock of a stream, and who holds it."""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from store.errors import LockLostError
from store.io.fs import Fs, Lock

KERNEL_LOCKS = Path("/proc/locks")
_TEMPORARY = re.compile(r"\.(?P<stream>.+)\.(?:log|checkpoint|head|removals)\.tmp-")
REPLACED = 100  # times that a file may be replaced while its lock is taken
COMMIT_LOCK_PAUSES = (
    0.005,
    0.02,
    *[0.1] * 600,
)  # seconds; a commit is through the commit_lock in less, and most removals


def take_lock(fs: Fs, path: Path, *, make: bool = True) -> Lock:
    """The exclusive lock of a stream; LockLostError with pid and host of the owner where somebody has it.

    Without ``make`` the file must be there, and permission to read it is enough.
    """
    lock = fs.lock(path, make=make)
    if lock is None:
        raise lock_lost(fs, path, "the stream is being written by another process")
    return lock


def take_lock_if_there(fs: Fs, path: Path) -> AbstractContextManager[Lock | None]:
    """That lock for who changes nothing: no file is made, so where there is none the stream is not held."""
    return take_lock(fs, path, make=False) if fs.stat(path) is not None else nullcontext()


def take_commit_lock(fs: Fs, path: Path, *, pause: Callable[[float], None] = time.sleep) -> Lock:
    """The second lock of a stream, that on its removals: who holds it may change what others rely on.

    A commit, a compaction, a removal and an opening pass through it one at a time. So a process that was stopped inside
    and whose lock file is gone is not overtaken: this is for an opening, a LockLostError after a minute.
    """
    pauses = iter(COMMIT_LOCK_PAUSES)
    while (commit_lock := lock_commits(fs, path)) is None:
        wait = next(pauses, None)
        if wait is None:
            raise LockLostError(
                "another process is in the middle of a commit or a removal of this stream, and does not go on",
                where=path,
                expected="free within a minute",
                found="still locked",
                hint="it may be stopped: end it (`fuser` on the file names it), then start again; delete no lock file",
            )
        pause(wait)
    return commit_lock


def lock_commits(fs: Fs, path: Path, *, wait: bool = False) -> Lock | None:
    """The lock of commits, by one try or, with ``wait``, when it is free; None if another process holds it.

    It is that of the file of removals, which its owner may replace (``replace_locked``). So it counts only if the name
    still leads to the file that is locked.
    """
    for _ in range(REPLACED):
        lock = fs.lock(path, wait=wait)
        if lock is None or _leads_to(fs, path, lock):
            return lock
    raise LockLostError(
        "the lock of commits is never that of the file that is there",
        where=path,
        expected="a file that stays for a moment",
        found=f"another one {REPLACED} times",
        hint="something replaces or deletes it all the time: find out what writes to this directory",
    )


def _leads_to(fs: Fs, path: Path, lock: Lock) -> bool:
    """Whether the name leads to what is locked; else, also where that cannot be known, the lock is released."""
    counts = False
    try:
        found = fs.stat(path)
        counts = found is not None and found.inode == lock.inode
    finally:
        if not counts:
            lock.release()
    return counts


def commits_held(fs: Fs, path: Path) -> Lock:
    """That lock, once it is free."""
    lock = lock_commits(fs, path, wait=True)
    assert lock is not None  # noqa: S101 - waiting never gives None
    return lock


def replace_locked(fs: Fs, lock: Lock, data: bytes) -> None:
    """Replaces the file that ``lock`` is of, durably; the lock is then that of the new file, and of the old one too.

    The new file is locked before it has the name, so nobody comes in between. Whoever waits for the old one finds that
    the name leads elsewhere (``lock_commits``).
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
    """Says in the lock file who holds it: for people, for tasks that look whether they are overtaken, and as a witness
    of the generation. ``crc`` tells a whole one from one that a power cut tore. The lock itself is the kernel's.
    """
    owner: dict[str, object] = {"pid": pid, "host": host, "generation": generation, "since": since_ms}
    owner["crc"] = _crc(owner)
    data = json.dumps(owner).encode("ascii") + b"\n"
    fs.write_at(path, 0, data)
    fs.truncate(path, len(data))


def named_generation(fs: Fs, path: Path) -> int:
    """The newest generation that a lock file names; 0 where it names none, is torn, or is that of another tree too.

    A backup made of hard links shares the file with the tree that it was made of.
    """
    owner, found = _owner(fs, path), fs.stat(path)
    generation = owner.get("generation")
    whole = "crc" not in owner or owner["crc"] == _crc(owner)
    sound = found is not None and found.links == 1 and whole and isinstance(generation, int)
    return generation if sound and isinstance(generation, int) else 0


def read_lock(fs: Fs, path: Path) -> bytes:
    """What a lock file says, nothing where there is none. OSError: it is there and cannot be read, so not be taken."""
    try:
        return fs.read(path)
    except FileNotFoundError:
        return b""


def _crc(owner: dict[str, object]) -> int:
    return zlib.crc32(json.dumps({name: owner.get(name) for name in ("pid", "host", "generation", "since")}).encode())


def held_locks(text: str) -> dict[tuple[int, int, int], int]:
    """(major, minor, inode) of every ``flock`` that is held -> process id; 0 or less is one that is not seen here."""
    found: dict[tuple[int, int, int], int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 8 and words[1] == "FLOCK":
            major, minor, inode = words[5].split(":")
            found[int(major, 16), int(minor, 16), int(inode)] = int(words[4])
    return found


def lock_owner(fs: Fs, path: Path) -> int | None:
    """The process that holds the lock of a file, by the kernel's list: taking it would disturb. None: nobody here."""
    stat = fs.stat(path)
    if stat is None:
        return None
    held = held_locks(fs.read(KERNEL_LOCKS).decode("ascii", "replace"))
    return held.get((os.major(stat.device), os.minor(stat.device), stat.inode))


def in_progress(fs: Fs, path: Path) -> bool:
    """Whether a temporary file beside a log is that of a running writer: a start removes those of earlier ones."""
    named = _TEMPORARY.match(path.name)
    try:
        return named is not None and lock_owner(fs, path.with_name(f"{named['stream']}.lock")) is not None
    except OSError:
        return False  # the kernel's list is not to be had: who asks then tells of the file


def lock_lost(fs: Fs, path: Path, what: str) -> LockLostError:
    """A LockLostError that names the owner as far as the lock file tells; ``pid`` and ``host`` are attributes."""
    owner = _owner(fs, path)
    pid, host = owner.get("pid"), owner.get("host")
    known = f"process {pid} on {host}, generation {owner.get('generation')}"
    return LockLostError(
        what,
        where=path,
        expected="a stream that no other process holds",
        found=known if owner else "a owner that has not written its name yet",
        hint="stop that process, or wait for it; a stream has one writer",
        pid=pid,
        host=host,
    )


def _owner(fs: Fs, path: Path) -> dict[str, object]:
    try:
        value = json.loads(fs.read(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
