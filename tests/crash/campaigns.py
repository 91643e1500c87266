"""The campaigns of the crash harness: what each tries, as lines of the page of results."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.crash.chaos.pair import chaos_lines, run_pair
from tests.crash.copies.campaign import campaign as run_copies
from tests.crash.disk import strace_faults
from tests.crash.disk.call_faults import calls_of_a_life, chosen, survive
from tests.crash.disk.call_sites import SYNCS, WRITES, faults_of
from tests.crash.disk.images import KINDS
from tests.crash.disk.power_cuts import MODES, ROWS_A_BATCH, SYNC_EVERY, Tally, cut_rounds
from tests.crash.histories.campaign import KINDS as HISTORIES
from tests.crash.histories.campaign import State, run_kind
from tests.crash.histories.campaign import campaign as history_campaign
from tests.crash.histories.history import Tally as HistoryTally
from tests.crash.kills import kill_steps, zombies
from tests.crash.results_page import Line
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


def copies(base: Path, snapshots: int) -> Iterator[Line]:
    """Snapshots and a mirror of a table that is ingested, merged, rolled back and truncated, compared with the feed."""

    def campaign() -> str:
        found = run_copies(base / "copies", snapshots=snapshots)
        assert not found.wrong, found.wrong[0]
        return ", ".join(f"{what} {times}" for what, times in sorted(found.done.items()))

    point = "snapshot, restore and mirror beside ingest and merges, random moment"
    yield _campaign(Line(point, "SIGKILL of any of them", "fsync"), snapshots, campaign)


def histories(base: Path, count: int) -> Iterator[Line]:
    """Steps of nights in any order, compared with a model; twenty lines at most of each kind."""
    faults = {"plain": "none", "kill": "SIGKILL", "full": "ENOSPC from any call on"}
    size = max(20, -(-count // 20))  # so that a run which is ended has lines
    with history_campaign(base) as running:
        for kind in HISTORIES:
            state = State(None)
            for first in range(1, count + 1, size):
                last, before = min(first + size - 1, count), len(state.kinds[kind].found)
                state.kinds[kind].tally = HistoryTally()
                done = run_kind(running, kind, state, lambda progress, last=last: progress.next > last, progress=False)  # type: ignore[misc]
                line = Line(f"any step of histories {first} to {last}", faults[kind], "fsync", last - first + 1)
                line.other, line.remark = len(done.found) - before, done.tally.text
                yield line


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
