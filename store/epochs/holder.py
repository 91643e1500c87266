"""The lock of a stream, and who holds it."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from store.errors import LockLostError
from store.fs import Fs, Lock

GATE_PAUSES = (0.005, 0.02, *[0.1] * 600)  # seconds; a commit is through the gate in less, and most removals


def take_lock(fs: Fs, path: Path, *, make: bool = True) -> Lock:
    """The exclusive lock of a stream; LockLostError with pid and host of the holder where somebody has it.

    Without ``make`` the file must be there, and permission to read it is enough.
    """
    lock = fs.lock(path, make=make)
    if lock is None:
        raise lock_lost(fs, path, "the stream is being written by another process")
    return lock


def take_gate(fs: Fs, path: Path, *, pause: Callable[[float], None] = time.sleep) -> Lock:
    """The second lock of a stream, that on its removals: who holds it may change what others rely on.

    A commit, a compaction, a removal and an opening pass through it one at a time. So a process that was stopped inside
    and whose lock file is gone is not overtaken: this is for an opening, a LockLostError after a minute.
    """
    pauses = iter(GATE_PAUSES)
    while (gate := fs.lock(path)) is None:
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
    return gate


def write_holder(fs: Fs, path: Path, *, pid: int, host: str, generation: int, since_ms: int) -> None:
    """Says in the lock file who holds it: for people, for tasks that look whether they are overtaken, and as a witness
    of the generation. ``crc`` tells a whole one from one that a power cut tore. The lock itself is the kernel's.
    """
    holder: dict[str, object] = {"pid": pid, "host": host, "generation": generation, "since": since_ms}
    holder["crc"] = _crc(holder)
    data = json.dumps(holder).encode("ascii") + b"\n"
    fs.write_at(path, 0, data)
    fs.truncate(path, len(data))


def named_generation(fs: Fs, path: Path) -> int:
    """The newest generation that a lock file names; 0 where it names none, is torn, or is that of another tree too.

    A backup made of hard links shares the file with the tree that it was made of.
    """
    holder, found = _holder(fs, path), fs.stat(path)
    generation = holder.get("generation")
    whole = "crc" not in holder or holder["crc"] == _crc(holder)
    sound = found is not None and found.links == 1 and whole and isinstance(generation, int)
    return generation if sound and isinstance(generation, int) else 0


def _crc(holder: dict[str, object]) -> int:
    return zlib.crc32(json.dumps({name: holder.get(name) for name in ("pid", "host", "generation", "since")}).encode())


def lock_lost(fs: Fs, path: Path, what: str) -> LockLostError:
    """A LockLostError that names the holder as far as the lock file tells; ``pid`` and ``host`` are attributes."""
    holder = _holder(fs, path)
    pid, host = holder.get("pid"), holder.get("host")
    known = f"process {pid} on {host}, generation {holder.get('generation')}"
    return LockLostError(
        what,
        where=path,
        expected="a stream that no other process holds",
        found=known if holder else "a holder that has not written its name yet",
        hint="stop that process, or wait for it; a stream has one writer",
        pid=pid,
        host=host,
    )


def _holder(fs: Fs, path: Path) -> dict[str, object]:
    try:
        value = json.loads(fs.read(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
