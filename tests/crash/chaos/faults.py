"""What the chaos campaign does to a job: finding its processes, and what may become of Spark's checkpoint."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a job, as /proc tells it."""

    pid: int
    parent: int
    command: str


def processes(session: int) -> Iterator[Process]:
    """All that run in a session: whoever starts a job in one of its own finds what the job has started, too."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                yield Process(int(entry.name), int(fields[1]), words)


def kill(pid: int) -> bool:
    """SIGKILL; False if there is no such process any more."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_all(session: int) -> None:
    """Every process of a session."""
    for process in processes(session):
        kill(process.pid)


def jvm_of(session: int) -> int | None:
    """Spark's JVM."""
    return next((p.pid for p in processes(session) if p.command.split(" ", 1)[0].endswith("java")), None)


def workers_of(session: int) -> list[int]:
    """Spark's Python workers: those that run tasks, and the one that plans for the source."""
    found = [p for p in processes(session) if "pyspark.daemon" in p.command]
    daemons = {p.pid for p in found}
    return sorted(p.pid for p in found if p.parent in daemons)


# --- Spark's checkpoint ------------------------------------------------------------------------------------


class Checkpoint:
    """Spark's checkpoint of a stream, and an older copy of it. Damage to one that is not there is none."""

    def __init__(self, path: Path, copy: Path, chance: random.Random) -> None:
        self._path, self._copy, self._chance = path, copy, chance
        self.kinds: dict[str, Callable[[], None]] = {
            "deleted": self._delete,
            "emptied": self._empty,
            "truncated": self._truncate,
            "older copy": self._put_back,
        }

    def remember(self) -> None:
        """Keeps a copy as it is now; Spark may be writing it, and then the copy is torn."""
        shutil.rmtree(self._copy, ignore_errors=True)
        with suppress(OSError, shutil.Error):
            shutil.copytree(self._path, self._copy)

    def damage(self, kind: str) -> None:
        """Does what ``kind`` says."""
        with suppress(FileNotFoundError):  # a JVM that is about to end may still remove files
            self.kinds[kind]()

    def _delete(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def _empty(self) -> None:
        for path in self._files():
            os.truncate(path, 0)

    def _truncate(self) -> None:
        for path in self._files():
            if self._chance.random() < 0.5:
                os.truncate(path, self._chance.randint(0, path.stat().st_size))

    def _put_back(self) -> None:
        if self._copy.exists():
            shutil.rmtree(self._path, ignore_errors=True)
            shutil.copytree(self._copy, self._path, dirs_exist_ok=True)

    def _files(self) -> list[Path]:
        return sorted(path for path in self._path.rglob("*") if path.is_file())
