"""Whether processes that are not our children run; a zombie does not."""

from __future__ import annotations

import time
from pathlib import Path


def runs(pid: int) -> bool:
    """Whether a process of that number runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int, within: float = 10.0) -> bool:
    """Waits for the end of a process; False if it still runs after ``within`` seconds."""
    last = time.monotonic() + within
    while runs(pid):
        if time.monotonic() > last:
            return False
        time.sleep(0.01)
    return True
