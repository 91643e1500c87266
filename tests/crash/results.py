"""Runs the harness and writes what came of it: ``python -m tests.crash.results [PART ...] [--full] [--out FILE]``.

One line for each point, fault and durability mode: rounds, and rows lost, doubled, torn. The sections of the parts that
are named are renewed, the others stay. ``--full`` tries every step and every call, which takes an hour; without it one
of each.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sparkhaven.store.io.fs import Fs
from tests.crash.changes.campaign import changed_schemas
from tests.crash.chaos.pair import chaos_lines, run_pair
from tests.crash.disk import strace_faults
from tests.crash.disk.call_faults import calls_of_a_life, chosen, survive
from tests.crash.disk.call_sites import SYNCS, WRITES, faults_of
from tests.crash.disk.images import KINDS, missing
from tests.crash.disk.power_cuts import MODES, ROWS_A_BATCH, SYNC_EVERY, Tally, cut_rounds
from tests.crash.kills import kill_steps, zombies
from tests.crash.results_page import Line, renewed, section
from tests.crash.spark import zombies as spark_zombies
from tests.crash.spark.chain import SPARK
from tests.crash.spark.chain import run_campaign as run_chain
from tests.crash.spark.cluster_kills import run_campaign as run_breakages
from tests.crash.spark.frame_copies import run_campaign as run_frames
from tests.crash.spark.kill import run_campaign as run_kills
from tests.crash.spark.power_cuts import OURS, SinkTally, cut_sink
from tests.crash.spark.sink_job import SINKS
from tests.support.disks.cuts import problems
from tests.support.disks.power_cut_fs import PowerCutFs
from tests.support.streams.stream_story import STORIES, Groups
from tests.support.streams.whole_story import write_feed

LIVES = 60


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


def spark_sleepers(base: Path, rounds: int) -> Iterator[Line]:
    """Real Spark jobs that wake after another has taken their place."""
    chance = random.Random(1)
    for kind in spark_zombies.KINDS:
        line = Line("Spark job, random moment", f"SIGSTOP, successor, SIGCONT, {kind}", "fsync")
        for number in range(rounds):
            root = base / f"{spark_zombies.KINDS.index(kind)}-{number}"
            line.try_(partial(spark_zombies.zombie_round, root, kind, chance))
        yield line


def job_kills(base: Path, kills: int) -> Iterator[Line]:
    """A real streaming job over files, killed at random moments; Spark's checkpoint is damaged before every third."""

    def campaign() -> str:
        found = run_kills(base, kills, 1)
        damaged = f"Spark's checkpoint deleted {found.checkpoints_deleted}, emptied {found.checkpoints_emptied}"
        return f"{found.during} kills after the first commit of their job; {damaged}"

    yield _campaign(Line("Spark job over files, random moment", "SIGKILL", "fsync"), kills, campaign)


def frame_attempts(base: Path, rounds: int) -> Iterator[Line]:
    """Tasks of frames that run beside earlier attempts of themselves, whose executor was killed."""

    def campaign() -> str:
        found = run_frames(base, rounds, 1)
        return f"{found.kills} kills; {found.repeated} tasks ran beside earlier attempts of themselves"

    yield _campaign(
        Line("frame behind a shuffle, attempts in any order", "SIGKILL of an executor", "fsync"), rounds, campaign
    )


def _campaign(line: Line, rounds: int, campaign: Callable[[], str]) -> Line:
    """The line of a campaign that ends at its first bad round."""
    said = ["ended early"]
    line.try_(lambda: said.append(campaign()))
    line.rounds, line.remark = rounds, said[-1]
    return line


def cluster_breakages(base: Path, kills: int) -> Iterator[Line]:
    """A standalone cluster of two workers that breaks under a stream and under a merge."""
    for dynamic in (False, True):
        place = base / ("dynamic" if dynamic else "static")
        place.mkdir()
        rounds = max(4, kills // 4) if dynamic else kills

        def campaign(place: Path = place, rounds: int = rounds, dynamic: bool = dynamic) -> str:
            found = run_breakages(place, rounds, 1, dynamic=dynamic)
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.kills.items()))
            started = f"{found.restarts} restarts of jobs; {found.executors} executors started"
            return f"{kinds}; {started}; {found.rows:,} rows"

        point = "job on a cluster, random moment" + (", dynamic allocation" if dynamic else "")
        yield _campaign(Line(point, "SIGKILL, or cut off", "fsync"), rounds, campaign)


def chain_kills(base: Path, kills: int) -> Iterator[Line]:
    """A table that is followed into another one by a streaming query."""

    def campaign() -> str:
        found = run_chain(base, kills, 1, SPARK)
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.kills.items()))
        return f"{kinds}; {found.rows:,} rows"

    point = "stream into a table that another query follows into a second one, random moment"
    yield _campaign(Line(point, "SIGKILL of either", "fsync"), kills, campaign)


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


def chaos(base: Path, kills: int) -> Iterator[Line]:
    """Every process of real jobs on real topics, killed at random, beside readers."""
    found, ended = run_pair(base, kills)
    yield from chaos_lines(found)
    if ended:
        yield Line("real job and topic", "campaign", "fsync", other=ended, remark="ended without a result")


def spark_image_cuts(base: Path, rounds: int) -> Iterator[Line]:
    """Power cuts under Spark jobs, into our tables and into those of others."""
    for kind in KINDS:
        for sink in SINKS:
            yield sink_line(cut_sink(base / f"{kind}-{sink}", kind, sink, rounds, 1))


def sink_line(tally: SinkTally) -> Line:
    """The line of a sink."""
    modes = {"stream": "fsync", "writer": "fsync, `deephaven_writer`", "parquet": "Parquet sink", "delta": "Delta"}
    remark = f"{tally.acknowledged:,} rows acknowledged, {tally.gone:,} not there after the cut"
    if tally.repaired:
        remark += f"; Spark's checkpoint repaired {tally.repaired} times"
    if tally.unreadable or tally.stuck:
        remark += f"; unreadable {tally.unreadable}, not started {tally.stuck}: {tally.said[0].replace('|', '/')[:240]}"
    counts = tally.rounds, tally.lost, tally.doubled, tally.torn, tally.unreadable + tally.stuck
    where = f"Spark job, random moment, {tally.kind} image"
    return Line(where, "power cut", modes[tally.sink], *counts, remark=remark, ours=tally.sink in OURS)


def failed_calls(base: Path, *, every: bool) -> Iterator[Line]:
    """System calls that fail by strace."""
    met, wrong = strace_faults.main(base, every=every, seed=1)
    for (call, error), rounds in sorted(met.items()):
        if error != strace_faults.NOT_MET:
            yield Line(f"any {call}", f"{error} by strace", "fsync", rounds, other=wrong[call, error])


@dataclass(frozen=True, slots=True)
class Part:
    """A section of the page: what it is about, and how its lines come to be (place, ``full``, rounds)."""

    title: str
    lines: Callable[[Path, bool, int], Iterator[Line]]
    why_not: Callable[[], str] = lambda: ""
    note: str = ""


PARTS = {
    "kills": Part("SIGKILL at the named steps of a commit", lambda base, full, rounds: kills(base, every=full)),
    "calls": Part("A failing call to the disk", lambda base, full, rounds: call_faults(base, every=full)),
    "schema changes": Part(
        "Changes of a schema at every moment, every reader, and a night after each",
        lambda base, full, rounds: changed_schemas(base, every=full),
    ),
    "drivers": Part("Drivers that sleep and are overtaken", lambda base, full, rounds: sleepers(base)),
    "tasks": Part("Tasks that outlive their driver", lambda base, full, rounds: orphans(base)),
    "spark drivers": Part(
        "Spark jobs that sleep and are overtaken", lambda base, full, rounds: spark_sleepers(base, 3 if full else 1)
    ),
    "spark jobs": Part(
        "Kills of a streaming job over files", lambda base, full, rounds: job_kills(base, 50 if full else 5)
    ),
    "frames": Part(
        "Tasks of frames that Spark repeats", lambda base, full, rounds: frame_attempts(base, 25 if full else 2)
    ),
    "cluster": Part(
        "A cluster that breaks under jobs", lambda base, full, rounds: cluster_breakages(base, 40 if full else 4)
    ),
    "chain": Part(
        "A table that is followed into another one", lambda base, full, rounds: chain_kills(base, 40 if full else 4)
    ),
    "model": Part("Power cuts on a model of a disk", lambda base, full, rounds: model_cuts(base)),
    "images": Part("Power cuts on real file systems", lambda base, full, rounds: image_cuts(base, rounds), missing),
    "spark images": Part(
        "Power cuts on real file systems under Spark jobs, and what other writers make of them",
        lambda base, full, rounds: spark_image_cuts(base, max(1, rounds // 4)),
        missing,
        "One file of 40 rows is a batch; the feed survives, and every job is started again after the cut. *Lost* and "
        "*doubled* rows are counted once it was through with the feed; rows that were acknowledged and not there after "
        "the cut stand in the remark, also when they came back. *Other trouble*: cuts after which the table could not "
        "be read or the query not be started; it then began anew, and its rows count no further. A cut takes only what "
        "is new: before each round all is synced once.",
    ),
    "strace": Part(
        "A system call that fails by strace under a real writer process",
        lambda base, full, rounds: failed_calls(base, every=full),
        strace_faults.missing,
    ),
    "chaos": Part(
        "A running job on a topic, beside readers", lambda base, full, rounds: chaos(base, 500 if full else 25)
    ),
}


def main(out: Path, parts: Sequence[str], *, full: bool, rounds: int) -> int:
    """Runs parts and renews their sections, line by line, so that a run which is ended keeps what it had; 1 if bad."""
    bad = False
    for name in parts:
        part = PARTS[name]
        why, lines = part.why_not(), list[Line]()
        with tempfile.TemporaryDirectory() as directory:
            if why:
                renew(out, name, lines, full=full, note=f"Not possible on this machine: {why}.")
            else:
                for line in part.lines(Path(directory), full, rounds):
                    lines.append(line)
                    renew(out, name, lines, full=full, note=part.note)
        print(name, why, *(line.counts for line in lines), flush=True)
        bad = bad or any(line.bad for line in lines)
    return int(bad)


def beside(part: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """A part in a process of its own, with the options of this one."""
    options = [argument for argument in arguments if argument not in PARTS and argument != "--beside"]
    return subprocess.Popen([sys.executable, "-m", "tests.crash.results", part, *options])


def renew(out: Path, name: str, lines: Sequence[Line], *, full: bool, note: str) -> None:
    """Writes the section of a part as far as it is known."""
    quoted = f'"{name}"' if " " in name else name
    text = section(name, PARTS[name].title, lines, f"python -m tests.crash.results {quoted}{' --full' * full}", note)
    Fs().mkdirs(out.parent)
    with out.open("a+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)  # two processes may write it, see ``--beside``
        page.seek(0)
        written = renewed(page.read(), {name: text}, [*PARTS])
        page.truncate(0)
        page.write(written)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs the crash harness and writes a page with its results.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(map(repr, PARTS))}; default: all")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rounds", type=int, default=20, help="power cuts for each file system and mode")
    parser.add_argument("--beside", action="store_true", help="run the last part in a process beside the others")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence/crash-results.md"))
    given = parser.parse_args()
    if strange := sorted(set(given.parts) - PARTS.keys()):
        parser.error(f"no such part: {', '.join(strange)}")
    chosen_parts = given.parts or [*PARTS]
    other = beside(chosen_parts.pop(), sys.argv[1:]) if given.beside and len(chosen_parts) > 1 else None
    codes = [main(given.out, chosen_parts, full=given.full, rounds=given.rounds)]
    sys.exit(max([*codes, other.wait()] if other else codes))
