"""The programs of the chaos campaign as its driver sees them: the job with what it says, and the readers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from sparkhaven.jobs.session.spark_session import import_root
from tests.crash.chaos.faults import kill_all
from tests.crash.chaos.reader import REST, Finding
from tests.support.servers.watchdog import Watchdog

LAST_LINES = 30
_EPOCH = re.compile(r" epoch (\d+): ")


def _start(words: list[str], stderr: int | None = None) -> subprocess.Popen[str]:
    """A program of ours in a session of its own."""
    return subprocess.Popen(
        [sys.executable, *words],
        text=True,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": str(import_root())},
    )


def _listen(stream: IO[str], hear: Callable[[str], None]) -> threading.Thread:
    def run() -> None:
        for line in stream:
            hear(line)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


class Job:
    """A streaming job as a process of its own. ``epoch``: the newest that it reported; ``restarts``: of its stream."""

    def __init__(self, base: Path, root: Path, stream: Path, trap: Path) -> None:
        words = ["-m", "tests.crash.chaos.job", str(trap), "--root", str(root), "ingest", str(stream), "--workers", "2"]
        self._process = _start(words, subprocess.STDOUT)
        self._watchdog = Watchdog(self._process.pid)
        self.epoch = self.restarts = 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._log = (base / "job.log").open("a", encoding="utf-8")
        assert self._process.stdout is not None
        self._thread = _listen(self._process.stdout, self._hear)

    @property
    def pid(self) -> int:
        """Of the driver, and of the session of all that it has started."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """Exit code of the driver once it has ended."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The same, after so many seconds at most."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def error_summary(self) -> str:
        """The last that it said."""
        return "".join(self._last)

    def close(self) -> None:
        """Ends whatever is left of it."""
        kill_all(self.pid)
        self._process.wait()
        self._watchdog.close()
        self._thread.join(10)
        _close_pipes(self._process)
        self._log.close()

    def _hear(self, line: str) -> None:
        self._log.write(line)
        self._log.flush()
        self._last.append(line)
        found = _EPOCH.search(line)
        if found:
            self.epoch = int(found[1])
        self.restarts += "restarts in" in line


class Watcher:
    """A reader as a process of its own: how often it looked, and what it saw last; ``taken`` is what was wrong."""

    def __init__(self, root: Path, rest: float = REST) -> None:
        words = ["-m", "tests.crash.chaos.reader", str(root), str(rest)]
        self._process = _start(words)
        self.looks = self.epoch = self.rows = 0
        self._bad: list[Finding] = []
        assert self._process.stdout is not None
        self._thread = _listen(self._process.stdout, self._hear)

    def taken(self) -> list[Finding]:
        """What was wrong since the last call; a reader that has died counts as well."""
        found, self._bad = self._bad, []
        if self._process.poll():
            found.append(("other", f"a reader ended with exit code {self._process.poll()}"))
        return found

    def finish(self, seconds: float) -> None:
        """Asks for a last look at every column, and waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(seconds)
        self._thread.join(10)

    def close(self) -> None:
        """Ends it."""
        kill_all(self._process.pid)
        self._process.wait()
        self._thread.join(10)
        _close_pipes(self._process)

    def _hear(self, line: str) -> None:
        said = json.loads(line)
        self.looks += 1
        self.epoch, self.rows = said["epoch"], said["rows"]
        self._bad += [(kind, text) for kind, text in said["bad"]]
