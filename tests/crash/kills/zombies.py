"""A driver is stopped, another takes its place, the first one wakes: ``python -m tests.crash.kills.zombies``.

Real processes, SIGSTOP and SIGCONT. The kernel keeps the lock of a stopped process, so a successor is refused by name;
to be worse than that, each round is also played with the lock file deleted under the sleeper, so that the successor
gets in. And a task whose driver was killed wakes after the successor has committed. Whatever happens: nothing
acknowledged by either is lost, nothing is there twice, and who is no longer the owner gets an error that says so.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from tests.support.places import REPOSITORY
from tests.support.streams.stream_kit import STREAM, TABLE, numbers

SECONDS = 60
DRIVER_STEPS = (
    "check-lease:before",
    "append:before",
    "append:after",
    "sync-files:after",
    "collect:before",
    "commit-record:before",
    "log-append:before",
    "log-append:after",
    "log-sync:before",
    "publish:before",
    "publish-location:before",
    "notify:before",
    "checkpoint-replace:before",
    "log-replace:before",
    "write-head:before",
)
TASK_STEPS = ("cut-tails:before", "append:before", "decoded", "sync-files:before", "sync-dirs:after")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process said and how it ended."""

    code: int
    output: str
    errors: str

    @property
    def acknowledged(self) -> int:
        """Offsets below this were acknowledged."""
        return max((int(n) for n in re.findall(r"^epoch \d+ offsets (\d+)$", self.output, re.M)), default=0)


class Job:
    """One driver process; always ended by ``end`` or ``kill``."""

    def __init__(self, root: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.spark.plain_job", str(root), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )

    def until_stopped(self) -> None:
        """Waits until the process has stopped itself."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self.process.returncode = os.waitstatus_to_exitcode(status)
            raise AssertionError(f"never came to the step: {self.end()}")

    def wake(self) -> Ended:
        """SIGCONT, and its end."""
        self.process.send_signal(signal.SIGCONT)
        return self.end()

    def end(self) -> Ended:
        """What it said until it ended."""
        output, errors = self.process.communicate(timeout=SECONDS)
        return Ended(self.process.returncode, output, errors)

    def kill(self) -> None:
        """SIGKILL; harmless for one that has ended."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


def check(root: Path, acknowledged: int) -> int:
    """Committed rows: a gapless beginning of the topic, at least what was acknowledged; the number."""
    fs, layout = Fs(), Layout(root)
    if STREAM not in list_streams(TablePlace(fs, layout, TABLE)):
        assert not acknowledged
        return 0
    found = numbers(root, load_stream(StreamPlace(fs, layout, TABLE, STREAM)))
    assert found == [*range(len(found))], f"lost or doubled: {found}"
    assert len(found) >= acknowledged, f"{len(found)} rows, acknowledged {acknowledged}"
    return len(found)


def finish(root: Path, acknowledged: int) -> None:
    """A last driver goes on without trouble, and ``verify --deep`` has nothing to say."""
    before = check(root, acknowledged)
    last = Job(root, "--batches", "2", "--impatient").end()
    assert last.code == 0, last
    assert check(root, last.acknowledged) == before + 20
    report = verify(Fs(), Layout(root), deep=True)
    assert [f for f in report.findings if f.severity == "error" and "schema" not in f.what.lower()] == []


def driver_round(root: Path, step: str, *, nth: int, forced: bool) -> str:
    """One sleeper and its successor; ``forced`` deletes the lock file of the sleeper. What became of both."""
    root.mkdir()
    Job(root, "--batches", "2").end()
    sleeper = Job(root, "--batches", "6", "--stop", step, "--nth", str(nth))
    try:
        sleeper.until_stopped()
        held = check(root, 20)
        if forced:
            Layout(root).stream_lock(TABLE, STREAM).unlink()
        successor = Job(root, "--batches", "3", "--impatient").end()
        refused = "LockLostError" in successor.errors
        assert refused == (successor.code == 3), successor
        assert forced or (refused and f"process {sleeper.process.pid} on" in successor.errors), successor
        held = max(held, check(root, successor.acknowledged))
        woken = sleeper.wake()
        displaced = "LockLostError" in woken.errors
        assert displaced == (woken.code == 3), woken
        assert displaced or (refused and woken.code == 0), woken  # of two, one at least must go
        assert forced or not displaced, woken
        finish(root, max(held, woken.acknowledged, successor.acknowledged))
    finally:
        sleeper.kill()
    return " and ".join(["successor refused"] * refused + ["zombie refused"] * displaced)


def task_round(root: Path, step: str) -> str:
    """The driver is killed while its task sleeps; a successor comes; the task wakes without a driver."""
    root.mkdir()
    Job(root, "--batches", "2").end()
    nth = "1" if step.startswith("sync") else "2"  # each task counts for itself, and syncs once
    driver = Job(root, "--fork", "--gathered", "1", "--rows", "12", "--stop", step, "--nth", nth)
    task = 0
    try:
        assert driver.process.stdout is not None
        for line in driver.process.stdout:
            if line.startswith("task "):
                task = int(line.split()[1])
                break
        _until_state(task, "T")
        driver.kill()
        successor = Job(root, "--batches", "3", "--impatient").end()
        refused = successor.code != 0
        assert not refused or "LockLostError" in successor.errors, successor
        held = check(root, max(20, successor.acknowledged))
        os.kill(task, signal.SIGCONT)
        _until_state(task, "")
        task = 0
        finish(root, held)
    finally:
        driver.kill()
        if task:
            with suppress(ProcessLookupError):
                os.kill(task, signal.SIGKILL)
    return "successor refused" if refused else "task harmless"


def _until_state(process: int, wanted: str) -> None:
    """Waits until a process is in a state; no state: it has ended."""
    for _ in range(SECONDS * 100):
        try:
            text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
            state = text.rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            state = ""
        if state == wanted or (state == "Z" and not wanted):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {process} is {state!r}, not {wanted!r}")


def main(base: Path) -> int:
    """All rounds; 0 if every one of them ended well."""
    times = {step: (1,) if "replace" in step else (1, 3) for step in DRIVER_STEPS}
    rounds = [(step, nth, forced) for step in DRIVER_STEPS for nth in times[step] for forced in (False, True)]
    wrong = 0
    for number, (step, nth, forced) in enumerate(rounds):
        wrong += _tell(
            f"driver at {step} #{nth}{', lock file deleted' if forced else ''}",
            lambda root, step=step, nth=nth, forced=forced: driver_round(root, step, nth=nth, forced=forced),
            base / f"driver{number}",
        )
    for step in TASK_STEPS:
        wrong += _tell(f"task at {step}", lambda root, step=step: task_round(root, step), base / f"task-{step}")
    print(f"zombies {len(rounds) + len(TASK_STEPS)}, wrong {wrong}")
    return bool(wrong)


def _tell(what: str, play: object, root: Path) -> bool:
    try:
        print(f"{what}: {play(root)}", flush=True)  # type: ignore[operator]
    except AssertionError as error:
        print(f"{what}: WRONG: {error}", flush=True)
        return True
    shutil.rmtree(root)
    return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        code = main(Path(directory))
    sys.exit(code)
