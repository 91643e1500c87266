"""Random histories against a model in plain Python: ``make campaign``, or ``python -m tests.crash.histories.campaign``.

A history draws a few tables with every type, streams, storage partitions, formats, indexes and sizes. Then it draws
steps: ingest, merges, corrections, removals, moves, changes of a schema, copies, saved tables, file operations. After
each step every reader shows the rows of the model: now and at older epochs, with filters, in copies, and readers that
were opened steps ago. With ``--spark`` its two readers show the tables at the end of some.

Three kinds are run: histories in which nothing breaks, histories whose commands are killed at a change of the disk, and
histories whose disk is full from a call on. What was done is kept in ``--state``, so that a run which is ended goes on.
The last line is the verdict; 1: a history went wrong. Each such history is told with its fewest steps, and
``--seed N --kind KIND --steps A,B,...`` runs them again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.histories.apart import Apart
from tests.crash.histories.evidence import COUNTS, RUN, write_section
from tests.crash.histories.history import LENGTH, SPARK, History, Step, Tally, WentWrong, draw_steps
from tests.crash.histories.spark_reader import SparkReader

KINDS: dict[str, tuple[str, ...]] = {"plain": (), "kill": ("kill",), "full": ("full",)}
"""The faults of the histories of each kind."""
MET = {"plain": "", "kill": " killed", "full": " on a full disk"}
SPARK_EVERY = 50  # histories, of which the end of one is read by Spark too
TRIES = 40  # runs in which the fewest steps of a history are looked for
TELL_EVERY = 30.0  # seconds
TURN = 20  # histories of a kind before the next kind has its turn


@dataclass
class Found:
    """A history that went wrong: which steps of it are enough, and what they told."""

    kind: str
    seed: int
    steps: list[int]
    story: str

    @property
    def text(self) -> str:
        chosen = ",".join(map(str, self.steps))
        words = f"python -m tests.crash.histories.campaign --seed {self.seed} --kind {self.kind} --steps {chosen}"
        return f"history {self.seed}: {words}\n{self.story}"


@dataclass
class Progress:
    """How far the histories of a kind have come. ``met``: faults that a command has met."""

    next: int = 1
    met: int = 0
    tally: Tally = field(default_factory=Tally)
    found: list[Found] = field(default_factory=list)


class Campaign:
    """Runs histories in directories below ``base``."""

    def __init__(self, base: Path, apart: Apart, spark: SparkReader | None = None, tries: int = TRIES) -> None:
        self.base, self.apart, self.spark, self.tries, self._runs = base, apart, spark, tries, 0

    def run(self, kind: str, seed: int, tally: Tally, *, fewest: bool = True) -> Found | None:
        """One history; the fewest steps that tell of the fault, if it goes wrong."""
        steps = draw_steps(seed, LENGTH, KINDS[kind])
        wrong = self.try_steps(seed, steps, tally, self.spark if seed % SPARK_EVERY == 0 else None)
        if wrong is None:
            return None
        chosen = [*range(len(steps))]
        if fewest:
            chosen, wrong = self._fewest(seed, steps, wrong)
        return Found(kind, seed, chosen, str(wrong))

    def try_steps(
        self, seed: int, steps: Sequence[Step], tally: Tally, spark: SparkReader | None = None
    ) -> WentWrong | None:
        """Where these steps go wrong, if they do."""
        self._runs += 1
        place = self.base / f"{os.getpid()}-{self._runs}"
        try:
            History(place, seed, tally, self.apart, spark).run(steps)
        except WentWrong as wrong:
            return wrong
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return None

    def _fewest(self, seed: int, steps: list[Step], wrong: WentWrong) -> tuple[list[int], WentWrong]:
        """Leaves out steps, halves of them first, as long as the rest goes wrong too, for the same reader."""
        spark = self.spark if SPARK in wrong.end else None
        chosen, size, tries = [*range(len(steps))], len(steps) // 2, self.tries
        while size and tries:
            start, shorter = 0, False
            while start < len(chosen) and tries:
                left, tries = [*chosen[:start], *chosen[start + size :]], tries - 1
                told = self.try_steps(seed, [steps[number] for number in left], Tally(), spark)
                if told is not None and _ending(told) == _ending(wrong):
                    chosen, wrong, shorter = left, told, True
                else:
                    start += size
            size = size if shorter and size == 1 else size // 2
        return chosen, wrong


def _ending(wrong: WentWrong) -> str:
    """How a history ends, without what differs from run to run."""
    said = wrong.end[:60].split(" where ")[0]
    said, _, told = "".join(sign for sign in said if not sign.isdigit()).partition(":")
    return told if said.startswith("ended with") else said


class State:
    """What has been done, in a file that is written after each history."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.kinds = {kind: Progress() for kind in KINDS}
        if path is not None and path.exists():
            for kind, told in json.loads(path.read_text()).items():
                found = [Found(**one) for one in told["found"]]
                counts = {name: Counter(told[name]) for name in Tally().counts()}
                self.kinds[kind] = Progress(told["next"], told["met"], Tally(**counts), found)

    def save(self) -> None:
        if self.path is None:
            return
        told: dict[str, Any] = {
            kind: {
                "next": progress.next,
                "met": progress.met,
                **progress.tally.counts(),
                "found": [vars(one) for one in progress.found],
            }
            for kind, progress in self.kinds.items()
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(told))
        temporary.replace(self.path)


@contextmanager
def without_logs() -> Iterator[None]:
    """Commands do not write to the log tables meanwhile, which takes a third of their time."""
    before = os.environ.get("SPARKHAVEN_LOGS")
    os.environ["SPARKHAVEN_LOGS"] = "off"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARKHAVEN_LOGS"]
        else:
            os.environ["SPARKHAVEN_LOGS"] = before


@contextmanager
def campaign(base: Path, *, spark: bool = False) -> Iterator[Campaign]:
    """A campaign with what it needs beside it."""
    with without_logs():
        apart, reader = Apart(), SparkReader() if spark else None
        try:
            yield Campaign(base, apart, reader)
        finally:
            apart.close()
            if reader is not None:
                reader.close()


def run_kind(
    running: Campaign, kind: str, state: State, enough: Callable[[Progress], bool], *, progress: bool = True
) -> Progress:
    """Goes on with the histories of a kind until there are enough."""
    told = time.monotonic()
    mine = state.kinds[kind]
    while not enough(mine):
        found = running.run(kind, mine.next, mine.tally)
        mine.next += 1
        mine.met = sum(times for name, times in mine.tally.done.items() if MET[kind] and name.endswith(MET[kind]))
        if found is not None:
            mine.found.append(found)
            print(f"wrong: {found.text}", flush=True)
        state.save()
        if progress and time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            print(verdict(kind, mine), file=sys.stderr, flush=True)
    return mine


def verdict(kind: str, progress: Progress) -> str:
    """What came of the histories of a kind."""
    met = f", {progress.met:,} commands{MET[kind]}" if MET[kind] else ""
    return f"{kind}: {progress.next - 1:,} histories{met}, {len(progress.found)} wrong"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000, metavar="N", help="in which nothing breaks")
    parser.add_argument("--kills", type=int, default=5_000, metavar="N", help="that a command has met")
    parser.add_argument("--full-disks", type=int, default=2_000, metavar="N", help="that a command has met")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="N", help="end then, to go on later")
    parser.add_argument("--state", type=Path, metavar="FILE", help="what was done; a run goes on from there")
    parser.add_argument("--spark", action="store_true", help=f"Spark reads the end of one in {SPARK_EVERY} histories")
    parser.add_argument(
        "--page", action="store_true", help="write docs/evidence/histories.md from what was done so far"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="run this history alone")
    parser.add_argument("--kind", choices=[*KINDS], default="plain", help="of that history")
    parser.add_argument("--steps", default="", metavar="A,B,...", help="only these steps of it, by number")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as base, campaign(Path(base), spark=chosen.spark) as running:
        if chosen.seed is not None:
            return _run_again(running, chosen.kind, chosen.seed, chosen.steps)
        ends, state = time.monotonic() + 60 * chosen.minutes, State(chosen.state)
        wanted: dict[str, Callable[[Progress], bool]] = {
            "plain": lambda done: done.next > chosen.histories,
            "kill": lambda done: done.met >= chosen.kills,
            "full": lambda done: done.met >= chosen.full_disks,
        }
        while time.monotonic() < ends and (left := [k for k in wanted if not wanted[k](state.kinds[k])]):
            for kind in left:
                run_kind(running, kind, state, _turn(wanted[kind], state.kinds[kind].next + TURN, ends))
    for kind, done in state.kinds.items():
        print(verdict(kind, done))
    for name, count in _counts(state):
        print(f"{name}: {', '.join(f'{what} {times:,}' for what, times in sorted(count.items()))}")
    if chosen.page:
        write_page(state)
    wrong = sum(len(done.found) for done in state.kinds.values())
    whole = all(enough(state.kinds[kind]) for kind, enough in wanted.items())
    print(f"{'all' if whole else 'so far'}: {wrong} wrong")
    return int(bool(wrong))


def write_page(state: State) -> None:
    """The section of the page of evidence: as many as were run."""
    rows = [
        (kind, f"{done.next - 1:,}", f"{done.met:,}" if MET[kind] else "none", str(len(done.found)))
        for kind, done in state.kinds.items()
    ]
    header, command = (
        ("kind", "histories", "faults that commands met", "wrong"),
        "python -m tests.crash.histories.campaign --page",
    )
    said = "Three kinds: nothing breaks, commands are killed, disks are full."
    write_section(RUN, command, said, header, rows)
    counts = [(name, what, f"{times:,}") for name, count in _counts(state) for what, times in sorted(count.items())]
    write_section(COUNTS, command, "Over all of them.", ("of", "what", "how often"), counts)


def _counts(state: State) -> Iterator[tuple[str, Counter[str]]]:
    """What was done, read and drawn, over all kinds."""
    names = {"done": "operations", "readers": "readers", "types": "types of columns"}
    for name, said in names.items():
        yield said, sum((done.tally.counts()[name] for done in state.kinds.values()), Counter())


def _turn(enough: Callable[[Progress], bool], turn: int, ends: float) -> Callable[[Progress], bool]:
    """Whether a kind has done what it can before the next one."""
    return lambda done: done.next >= turn or enough(done) or time.monotonic() > ends


def _run_again(running: Campaign, kind: str, seed: int, numbers: str) -> int:
    steps = draw_steps(seed, LENGTH, KINDS[kind])
    if numbers:
        steps = [steps[int(number)] for number in numbers.split(",")]
    wrong = running.try_steps(seed, steps, Tally(), running.spark)
    print(wrong or f"history {seed}: right")
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main())
