"""Whether processes that are not our children run; a zombie does not."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path


def runs(pid: int) -> bool:
    """Whether a process of that number runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int, within: float = 60.0) -> bool:
    """Waits for the end of a process; False if it still runs after ``within`` seconds."""
    last = time.monotonic() + within
    while runs(pid):
        if time.monotonic() > last:
            return False
        time.sleep(0.01)
    return True


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """Lines of standard error as they come; the rest is read away in a thread once nobody wants them any more."""
    assert process.stderr is not None
    try:
        yield from iter(process.stderr.readline, "")
        raise AssertionError(f"the process ended with {process.wait()}")
    finally:
        threading.Thread(target=process.stderr.read, daemon=True).start()
