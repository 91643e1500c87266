"""``sparkhaven ingest``, with a trap: ``python -m tests.crash.chaos.job TRAP --root DIR ingest FILE``.

Whoever gets to the step that is written in the file TRAP takes the file away, leaves its process id instead and kills
itself: the driver, or the Spark worker that is at it, since the file system goes with every task. Everything else is
the command as people use it.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

from sparkhaven.store.io.fs import Fs

OPEN_STEPS = ("log-open:before", "log-open:after", "recover-files:before", "recover-files:after")
DRIVER_STEPS = (
    *(
        f"{step}:{side}"
        for step in ("check-lease", "collect", "commit-record", "log-append", "log-sync", "publish", "notify")
        for side in ("before", "after")
    ),
    "publish-location:before",
    "half-record",
)
TASK_STEPS = (
    *(f"{step}:{side}" for step in ("cut-tails", "append", "sync-files", "sync-dirs") for side in ("before", "after")),
    "half-append",
)
HALF = {".log": "half-record", ".dat": "half-append", ".sym": "half-append", ".bytes": "half-append"}


class TrapFs(Fs):
    """The real file system, with a look at the trap in every step."""

    def __init__(self, trap: Path) -> None:
        self.trap = trap

    def step(self, name: str) -> None:
        """Dies here if the trap says so."""
        if self._caught(name):
            os.kill(os.getpid(), signal.SIGKILL)

    def write_at(self, path: Path, offset: int, data: bytes | memoryview) -> None:
        """Dies with half of it written: of a record of the commit log, or of what is appended to a column file."""
        if path.suffix in HALF and self._caught(HALF[path.suffix]):
            whole = memoryview(data).cast("B")
            super().write_at(path, offset, whole[: len(whole) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_at(path, offset, data)

    def _caught(self, name: str) -> bool:
        """Whether this is the place; only one process falls into a trap."""
        try:
            if self.trap.read_text(encoding="utf-8") != name:
                return False
            sprung = self.trap.with_suffix(".sprung")
            self.trap.rename(sprung)
        except FileNotFoundError:
            return False
        sprung.write_text(str(os.getpid()), encoding="utf-8")
        return True


if __name__ == "__main__":
    from sparkhaven.jobs.cli import ingest as ingest_commands
    from sparkhaven.jobs.cli import main as cli
    from tests.crash.chaos.job import TrapFs as Trap  # by its name: workers unpickle it

    ingest_commands.Fs = partial(Trap, Path(sys.argv.pop(1)))  # type: ignore[attr-defined,assignment]
    cli.main()
