"""Runs the harness and writes what came of it: ``python -m tests.crash.results [--full] [--out FILE]``.

One line for each point, fault and durability mode: rounds, and rows lost, doubled, torn. ``--full`` tries every step
and every call, which takes an hour; without it one of each.
"""

from __future__ import annotations

import argparse
import errno
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from store.fs import Fs
from tests.crash import kill_steps, zombies
from tests.crash.call_faults import calls_of_a_life, chosen, survive
from tests.crash.call_sites import SYNCS, WRITES, faults_of
from tests.crash.images import KINDS, missing
from tests.crash.model_fs import PowerCutFs
from tests.crash.power_cuts import MODES, ROWS_A_BATCH, SYNC_EVERY, Tally, cut_rounds
from tests.crash.stream_story import STORIES, Groups
from tests.crash.test_power_cut import problems
from tests.crash.whole_story import write_feed

LIVES = 60


@dataclass(slots=True)
class Line:
    """One line of the table; ``other`` are rounds that went wrong in another way than the three counted ones."""

    point: str
    fault: str
    mode: str
    rounds: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    other: int = 0
    remark: str = ""

    def try_(self, what: Callable[[], object]) -> None:
        """One round more; an AssertionError is sorted by its first word."""
        self.rounds += 1
        try:
            what()
        except Exception as error:
            word = str(error).partition(":")[0].split(" ")[0] if isinstance(error, AssertionError) else ""
            if word in ("lost", "doubled", "torn"):
                setattr(self, word, getattr(self, word) + 1)
            else:
                self.other += 1
            print(f"{self.point}, {self.fault}: {type(error).__name__}: {error}", flush=True)

    @property
    def cells(self) -> list[object]:
        """The line as the table shows it."""
        return [self.point, self.fault, self.mode, *self.counts, self.remark]

    @property
    def counts(self) -> list[int]:
        """Rounds, lost, doubled, torn, other."""
        return [self.rounds, self.lost, self.doubled, self.torn, self.other]


def kills(base: Path, *, every: bool) -> Iterator[Line]:
    """SIGKILL before and after each named step of the commit protocol."""
    for story in STORIES:
        where = base / story
        where.mkdir()
        batches = STORIES[story](where / "feed")
        (where / "plain").mkdir()
        steps = kill_steps.steps_of_the_story(where / "plain", batches)
        lines: dict[str, Line] = {}
        for number, (step, nth) in enumerate(steps if every else kill_steps.chosen(steps)):
            name = step.partition(":")[0]
            line = lines.setdefault(name, Line(f"step {name}, feed of {story}", "SIGKILL", "fsync"))
            root = where / f"db{number}"
            root.mkdir()

            line.try_(partial(_kill, root, batches, step, nth))
            shutil.rmtree(root)
        yield from lines.values()


def _kill(root: Path, batches: list[Groups], step: str, nth: int) -> None:
    kill_steps.kill_at(root, batches, step, nth)
    assert kill_steps.check(root, batches) == 0, "not the rows of the input"


def call_faults(base: Path, *, every: bool) -> Iterator[Line]:
    """A failing call at each call site, then a power cut that leaves only what was synced."""
    batches = write_feed(base / "feed")
    faults = faults_of(calls_of_a_life(base / "plain", batches))
    lines: dict[tuple[str, str], Line] = {}
    for number, fault in enumerate(faults if every else chosen(faults, 1)):
        kind = fault.site.kind
        group = (
            "sync" if kind in SYNCS else "write, rename, make, cut" if kind in WRITES else "read, list, lock, remove"
        )
        name = errno.errorcode[fault.code] + (" after half a write" if fault.half else "")
        line = lines.setdefault((group, name), Line(f"any call: {group}", name, "fsync"))
        line.try_(partial(survive, base / f"db{number}", batches, fault))
        shutil.rmtree(base / f"db{number}")
    for key in sorted(lines):
        lines[key].remark = "goes on, then loses all that was not synced"
        yield lines[key]


def sleepers(base: Path) -> Iterator[Line]:
    """Drivers that wake after another has taken their place."""
    for forced in (False, True):
        fault = "SIGSTOP, successor, SIGCONT" + (", lock file deleted" if forced else "")
        line = Line("driver at each of its steps", fault, "fsync")
        for number, step in enumerate(zombies.DRIVER_STEPS):
            root = base / f"driver{number}{forced}"
            line.try_(partial(zombies.driver_round, root, step, nth=1, forced=forced))
        yield line


def orphans(base: Path) -> Iterator[Line]:
    """Tasks that outlive their driver."""
    line = Line("task at each of its steps", "driver SIGKILL, task SIGSTOP, successor, SIGCONT", "fsync")
    for step in zombies.TASK_STEPS:
        line.try_(partial(zombies.task_round, base / f"task{step}", step))
    yield line


def model_cuts(base: Path) -> Iterator[Line]:
    """Power cuts on the model of a disk, three in each life, with rollbacks and compactions between."""
    for mode in MODES:
        (base / mode).mkdir()
        found, epochs = problems(base / mode, mode, PowerCutFs, LIVES)
        remark = f"{epochs} unsynced epochs went, as the mode says" if epochs else ""
        yield Line("any change of the disk (model)", "power cut", mode, 3 * LIVES, other=len(found), remark=remark)


def image_cuts(base: Path, rounds: int) -> Iterator[Line]:
    """Power cuts on real file systems."""
    for kind in KINDS:
        for mode in MODES:
            yield _line(cut_rounds(base, kind, mode, rounds, 1))


def _line(tally: Tally) -> Line:
    window = (
        f"{tally.gone:,} of {tally.acknowledged:,} rows were not synced and went, at most {tally.most_gone} at once"
    )
    limit = f"; the window is {SYNC_EVERY * ROWS_A_BATCH}" if tally.mode != "fsync" else ""
    remark = window + limit if tally.gone else f"{tally.acknowledged:,} rows acknowledged"
    counts = tally.rounds, tally.lost, tally.doubled, tally.torn
    return Line(f"random moment, {tally.kind} image", "power cut", tally.mode, *counts, remark=remark)


def page(lines: list[Line], *, full: bool) -> str:
    """The page with machine and versions."""
    cores = len(Path("/proc/cpuinfo").read_text(encoding="utf-8").split("processor\t")) - 1
    where = f"{platform.system()} {platform.release()}, {cores} cores, Python {platform.python_version()}"
    packages = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy"))
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    header = ["point", "fault", "mode", "rounds", "lost", "doubled", "torn", "other trouble", "remark"]
    rows = [" | ".join(str(cell) for cell in line.cells) for line in lines]
    why = missing()
    return "\n".join(
        [
            "# What breaking it has shown",
            "",
            f"Written by `python -m tests.crash.results{' --full' if full else ''}` at {commit.strip()}:",
            f"{where}; {packages}.",
            "",
            "Each round breaks something, starts again, and compares with what was acknowledged and with the input.",
            "*Lost* are acknowledged rows that should be there (modes `periodic` and `none`: rows that were synced),",
            "*doubled* rows that are there twice, *torn* rows or epochs of which a part is there. All should be 0.",
            f"Power cuts on real file systems could not be made here: {why}." if why else "",
            "",
            f"| {' | '.join(header)} |",
            f"|{'---|' * len(header)}",
            *(f"| {row} |" for row in rows),
            "",
            f"Sum: {sum(line.rounds for line in lines):,} rounds, {sum(sum(line.counts[1:]) for line in lines)} bad.",
            "",
        ]
    )


PARTS = ("kills", "calls", "drivers", "tasks", "model", "images")


def run(part: str, base: Path, *, full: bool, rounds: int) -> Iterator[Line]:
    """The lines of one part."""
    if part == "kills":
        yield from kills(base, every=full)
    elif part == "calls":
        yield from call_faults(base, every=full)
    elif part == "drivers":
        yield from sleepers(base)
    elif part == "tasks":
        yield from orphans(base)
    elif part == "model":
        yield from model_cuts(base)
    elif not missing():
        yield from image_cuts(base, rounds)


def main(out: Path, parts: Sequence[str], *, full: bool, rounds: int) -> int:
    """Runs parts and writes the page of all that have been run, kept beside it; 1 if anything was bad."""
    for part in parts:
        kept = out.with_suffix(f".{part}.json")
        with tempfile.TemporaryDirectory() as directory:
            lines = list(run(part, Path(directory), full=full, rounds=rounds))
        Fs().mkdirs(out.parent)
        kept.write_text(json.dumps([asdict(line) for line in lines], indent=1), encoding="utf-8")
        print(part, *(line.counts for line in lines), flush=True)
    paths = [out.with_suffix(f".{part}.json") for part in PARTS]
    known = [Line(**value) for path in paths if path.exists() for value in json.loads(path.read_text(encoding="utf-8"))]
    out.write_text(page(known, full=full), encoding="utf-8")
    return int(any(any(line.counts[1:]) for line in known))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs the crash harness and writes a page with its results.")
    parser.add_argument("parts", nargs="*", default=[], metavar="PART", help=f"of {', '.join(PARTS)}; all unless told")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rounds", type=int, default=20, help="power cuts for each file system and mode")
    parser.add_argument("--out", type=Path, default=Path("docs/crash-results.md"))
    given = parser.parse_args()
    sys.exit(main(given.out, given.parts or PARTS, full=given.full, rounds=given.rounds))
