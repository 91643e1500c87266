"""Kills a process at one of its changes of the disk: steps of protocols, writes, renames, removals.

Commands make their own ``Fs``, so its methods are replaced in the class, in a forked child that ends afterwards.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from sparkhaven.store.io.fs import Fs

CHANGES = (
    "step",
    "write_at",
    "write_new",
    "create",
    "truncate",
    "rename",
    "exchange",
    "link",
    "symlink",
    "unlink",
    "rmdir",
)


class Killer:
    """Counts the changes of this process, and ends it before the ``kill_at``-th; None: never."""

    def __init__(self, kill_at: int | None) -> None:
        self.changes, self.kill_at = 0, kill_at

    def watch(self) -> None:
        """From now on every ``Fs`` of this process is counted."""
        for name in CHANGES:
            setattr(Fs, name, self._counted(getattr(Fs, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.changes += 1
            if self.changes == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments, **keywords)

        return counted
