"""SIGKILL before and after every named step: ``python -m tests.crash.kills.kill_steps [files|topic] [--every]``.

A step that comes often is tried at its first time, its last or one between, in turns; with ``--every`` at every time.

Each round runs the story in a forked child that kills itself at one step, then recovers and goes on in another child.
Prints the number of kills; a round that does not end with exactly the rows of the input is reported and ends it with 1.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.disks.model_fs import CrashingFs
from tests.support.examples import share
from tests.support.streams.stream_kit import file_sizes_are_exact, numbers
from tests.support.streams.stream_story import ROWS, STORIES, Groups, tell


def in_child(work: Callable[[], None]) -> int:
    """Exit code of ``work`` in a forked process, minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # a child must never return into the code of its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def steps_of_the_story(root: Path, batches: list[Groups]) -> list[tuple[str, int]]:
    """Every step with its occurrence. Reported in the parent, so that the children start warm."""
    fs = CrashingFs()
    tell(fs, root, batches)
    return numbered(fs.steps)


def numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """Each step with the number of its occurrence."""
    seen: Counter[str] = Counter()
    steps = []
    for name in names:
        seen[name] += 1
        steps.append((name, seen[name]))
    return steps


def kill_at(root: Path, batches: list[Groups], step: str, occurrence: int) -> int:
    """Runs until the step and dies there."""

    def work() -> None:
        def die() -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        tell(CrashingFs(crash_at=step, occurrence=occurrence, die=die), root, batches)

    return in_child(work)


def check(root: Path, batches: list[Groups]) -> int:
    """Recovers, goes on, and compares."""

    def work() -> None:
        log = tell(CrashingFs(), root, batches)
        assert numbers(root, log.state) == [*range(ROWS)], numbers(root, log.state)
        assert file_sizes_are_exact(root, log.state)
        assert log.state.epoch == len(batches)

    return in_child(work)


def chosen(steps: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """First, last and middle occurrence of each step."""
    last = dict(steps)
    return [(step, n) for step, n in steps if n in (1, (last[step] + 1) // 2, last[step])]


def in_turns(steps: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Each step once: the first, the middle and the last occurrence in turns."""
    return [(step, (1, (last + 1) // 2, last)[n % 3]) for n, (step, last) in enumerate(dict(steps).items())]


def some_in_turns(steps: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The same; a run that has a share of the examples kills before one step and after the next one in turns."""
    places = in_turns(steps)
    if share() == 1:
        return places
    names = dict.fromkeys(step.partition(":")[0] for step, _ in places)
    wanted = {name: ("before", "after")[n % 2] for n, name in enumerate(names)}
    return [(step, n) for step, n in places if step.partition(":")[2] == wanted[step.partition(":")[0]]]


def main(base: Path, story: str, *, every: bool) -> int:
    """All rounds; 0 if none lost or doubled a row."""
    base.mkdir()
    batches = STORIES[story](base / "feed")
    (base / "plain").mkdir()
    steps = steps_of_the_story(base / "plain", batches)
    if not every:
        steps = some_in_turns(steps)
    kills = 0
    for number, (step, occurrence) in enumerate(steps):
        root = base / f"db{number}"
        root.mkdir()
        code = kill_at(root, batches, step, occurrence)
        if code != -signal.SIGKILL:
            print(f"step {step} #{occurrence}: not killed, exit code {code}")
            return 1
        kills += 1
        if check(root, batches):
            print(f"step {step} #{occurrence}: not the rows of the input")
            return 1
        shutil.rmtree(root)
    names = sorted({step.partition(":")[0] for step, _ in steps})
    print(f"kills {kills} at {len(names)} steps: {' '.join(names)}")
    return 0


if __name__ == "__main__":
    stories = [name for name in STORIES if name in sys.argv[1:]] or [*STORIES]
    with tempfile.TemporaryDirectory() as directory:
        codes = [main(Path(directory) / name, name, every="--every" in sys.argv[1:]) for name in stories]
    sys.exit(max(codes))
