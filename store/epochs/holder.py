"""The lock of a stream, and who holds it."""

from __future__ import annotations

import json
from pathlib import Path

from store.errors import LockLostError
from store.fs import Fs, Lock


def take_lock(fs: Fs, path: Path) -> Lock:
    """The exclusive lock of a stream; LockLostError with pid and host of the holder where somebody has it."""
    lock = fs.lock(path)
    if lock is None:
        raise lock_lost(fs, path, "the stream is being written by another process")
    return lock


def write_holder(fs: Fs, path: Path, *, pid: int, host: str, generation: int, since_ms: int) -> None:
    """Says in the lock file who holds it; for people and error messages only, the lock itself is the kernel's."""
    holder = {"pid": pid, "host": host, "generation": generation, "since": since_ms}
    data = json.dumps(holder).encode("ascii") + b"\n"
    fs.write_at(path, 0, data)
    fs.truncate(path, len(data))


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
