"""The clock of file systems."""

from __future__ import annotations

import time
from pathlib import Path


def wait_for_tick(directory: Path) -> None:
    """Waits until the clock of the file system, which is coarser than that of the system, has gone on.

    What is changed by hand within a tick of an opening may seem to have been so before it.
    """
    now_ns, probe = time.time_ns(), directory / "probe"
    probe.touch()
    while probe.stat().st_ctime_ns <= now_ns:
        probe.touch()
    probe.unlink()
