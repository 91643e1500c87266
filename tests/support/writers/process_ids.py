"""Which process ran a task."""

from __future__ import annotations

import os


def whose(_: int) -> int:
    return os.getpid()
