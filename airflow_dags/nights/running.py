"""One command as a process of its own: its lines are passed on as they come, and it can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from .results import Ended, Result, results_in

STOP_SECONDS = 60.0  # a job ends after its batch or phase
LINES_KEPT = 200


class Kept:
    """The results and the last lines of what a command prints."""

    def __init__(self) -> None:
        self._results: list[Result] = []
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    def take(self, line: str) -> None:
        """One more line."""
        text = line.rstrip()
        results = results_in([text])
        self._results += results
        if not results:
            self._lines.append(text)

    def ended(self, code: int) -> Ended:
        """All of it, with the exit code."""
        return Ended(code, tuple(self._results), tuple(self._lines))


class Command:
    """A command that runs at most once."""

    def __init__(self, line: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._line = list(line)
        self._environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[str] | None = None

    def run(self, on_line: Callable[[str], object]) -> Ended:
        """Runs it to its end; an exception meanwhile, like a timeout, stops it. ``on_line`` receives each line of both
        outputs."""
        kept = Kept()
        try:
            self._process = subprocess.Popen(  # a session of its own, which ``stop`` ends as a whole
                self._line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="backslashreplace",
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            return Ended(127, (), (f"{self._line[0]} cannot be started: {error}",))
        lines = self._process.stdout
        assert lines is not None  # noqa: S101  it is a pipe
        try:
            for line in lines:
                kept.take(line)
                on_line(line.rstrip())
            code = self._process.wait()
        except BaseException:
            self.stop()
            raise
        finally:
            lines.close()
        return kept.ended(code)

    def stop(self) -> None:
        """Ends the command with SIGTERM, which it obeys between two steps, and with SIGKILL if it does not."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
