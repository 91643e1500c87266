"""One command as a process of its own: its lines are passed on as they come, and it can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .results import Ended, Result, results_in

STOP_SECONDS = 60.0  # a job ends after its batch or phase
LINES_KEPT = 200


class Kept:
    """The results of a command and the last lines of what it prints. ``results``: the file of its ``--result``."""

    def __init__(self, results: Path | None = None) -> None:
        self._file = results
        self._printed: list[Result] = []
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    def take(self, line: str) -> None:
        """One more line."""
        text = line.rstrip()
        printed = results_in([text])
        self._printed += printed
        if not printed:
            self._lines.append(text)

    def ended(self, code: int) -> Ended:
        """All of it, with the exit code. Of a command that was killed the results are those that it has printed."""
        lines = self._file.read_text(encoding="utf-8").splitlines() if self._file and self._file.exists() else []
        return Ended(code, tuple(results_in(lines) or self._printed), tuple(self._lines))


@contextmanager
def result_file() -> Iterator[Path]:
    """A file for ``--result`` of one command."""
    with TemporaryDirectory(prefix="sparkhaven-result-") as directory:
        yield Path(directory) / "result.json"


class Command:
    """A command of sparkhaven that runs at most once; it gets a file for its results."""

    def __init__(self, line: Sequence[str], environ: Mapping[str, str] | None = None) -> None:
        self._line = list(line)
        self._environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[str] | None = None

    def run(self, on_line: Callable[[str], object]) -> Ended:
        """Runs it to its end; an exception meanwhile, like a timeout, stops it. ``on_line`` receives each line of both
        outputs."""
        with result_file() as results:
            return self._run([*self._line, "--result", str(results)], Kept(results), on_line)

    def _run(self, line: list[str], kept: Kept, on_line: Callable[[str], object]) -> Ended:
        try:
            self._process = subprocess.Popen(  # a session of its own, which ``stop`` ends as a whole
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="backslashreplace",
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            return Ended(127, (), (f"{line[0]} cannot be started: {error}",))
        lines = self._process.stdout
        assert lines is not None  # noqa: S101  it is a pipe
        try:
            for text in lines:
                kept.take(text)
                on_line(text.rstrip())
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
