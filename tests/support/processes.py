"""Waiting, whether processes that are not our children run (a zombie does not), and the end of those that are."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def wait_until(holds: Callable[[], T], within: float, said: Callable[[], object] = str, *, every: float = 0.05) -> T:
    """What ``holds`` gives as soon as it is true. AssertionError with ``said()``: it is not, so many seconds later."""
    last = time.monotonic() + within
    while not (found := holds()):
        assert time.monotonic() < last, said()
        time.sleep(every)
    return found


def open_below(directory: Path) -> list[str]:
    """The files below a directory that this process has open; other threads open and close some meanwhile."""
    paths = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            paths.append(str(descriptor.readlink()))
    return [path for path in paths if path.startswith(f"{directory}/")]


def runs(pid: int) -> bool:
    """Whether a process of that number runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int, within: float = 60.0) -> bool:
    """Waits for the end of a process; False if it still runs after ``within`` seconds."""
    with suppress(AssertionError):
        return wait_until(lambda: not runs(pid), within, every=0.01)
    return False


def kill_group(process: subprocess.Popen[Any]) -> bool:
    """SIGKILL to a process and all of its group, which it leads; False if it has ended by itself."""
    running = process.poll() is None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    process.wait()
    return running


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """The process, which leads a group; nothing of the group is left behind the block, whatever happens in it."""
    try:
        yield process
    finally:
        kill_group(process)


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """Lines of standard error as they come; the rest is read away in a thread once nobody wants them any more."""
    assert process.stderr is not None
    try:
        yield from iter(process.stderr.readline, "")
        raise AssertionError(f"the process ended with {process.wait()}")
    finally:
        threading.Thread(target=process.stderr.read, daemon=True).start()
