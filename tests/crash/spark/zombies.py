"""A Spark job is stopped amid its batches, another takes its place, it wakes: ``python -m tests.crash.spark.zombies``.

SIGSTOP to the driver and its JVM together, and in some rounds to Spark's workers too, at a random moment between two
epochs. The kernel keeps the locks of a stopped process, so a successor is refused by name and the sleeper goes on when
it wakes; where the sleeper's lock file is deleted as well, the successor gets in, and the sleeper must be refused and
harmless. At the end the rows are exactly those of the files, whoever wrote them.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.crash.spark.kill import READY_SECONDS, ROWS_A_FILE, Campaign, add_files, committed, start
from tests.support.streams.stream_kit import STREAM, TABLE

FEEDS = 2  # of six files: the sleeper stops long before the last
KINDS = ("lock kept", "lock file deleted", "lock file deleted, workers stopped too")


def zombie_round(base: Path, kind: str, chance: random.Random) -> str:
    """One sleeper and its successor; what became of both. AssertionError where rows or refusals are wrong."""
    feed, root, campaign = base / "feed", base / "db", Campaign()
    root.mkdir(parents=True)
    for _ in range(FEEDS):
        add_files(feed, campaign)
    forced = kind != KINDS[0]
    sleeper = start(feed, root)
    stopped: list[int] = []
    try:
        _until_epoch(sleeper, chance.randint(1, 4))
        time.sleep(chance.uniform(0.0, 0.15))
        stopped = processes_of(sleeper.pid) if kind == KINDS[2] else processes_of(sleeper.pid, group=True)
        _send(stopped, signal.SIGSTOP)
        held = committed(root)
        assert len(held) < campaign.files * ROWS_A_FILE, "other: the sleeper was through before it was stopped"
        if forced:
            Layout(root).stream_lock(TABLE, STREAM).unlink()
        successor = start(feed, root)
        said = _end(successor)
        refused = "LockLostError" in said
        assert refused == (successor.returncode != 0), f"other: {said}"
        assert forced or (refused and f"process {sleeper.pid} on" in said), f"other: {said}"
        between = committed(root)
        assert refused or between == [*range(campaign.files * ROWS_A_FILE)], "lost: the successor was not through"
        assert len(between) == len(set(between)) >= len(held), f"lost or doubled: {len(held)}, then {len(between)}"
        _send(stopped, signal.SIGCONT)
        woken = _end(sleeper)
        displaced = "LockLostError" in woken
        assert displaced == (sleeper.returncode != 0) == forced, f"other: {woken}"
    finally:
        _send(stopped, signal.SIGCONT)  # workers that are stopped would not notice that their JVM has gone
        if sleeper.poll() is None:
            os.killpg(sleeper.pid, signal.SIGKILL)
            sleeper.wait()
    _finish(feed, root, campaign)
    return " and ".join(["successor refused"] * refused + ["zombie refused"] * displaced)


def _finish(feed: Path, root: Path, campaign: Campaign) -> None:
    """What is there once the last driver is through: the rows of the files, each once, and no damage."""
    wanted = campaign.files * ROWS_A_FILE
    if len(committed(root)) < wanted:
        last = start(feed, root)
        said = _end(last)
        assert last.returncode == 0, f"other: {said}"
    found = committed(root)
    assert len(found) == len(set(found)), "doubled: rows"
    assert found == [*range(wanted)], f"lost: {len(found)} rows of {wanted}"
    report = verify(Fs(), Layout(root), deep=True)
    wrong = [f for f in report.findings if f.severity == "error" and "schema" not in f.what.lower()]
    assert wrong == [], f"torn: {wrong}"


def _until_epoch(job: subprocess.Popen[str], epoch: int) -> None:
    assert job.stdout is not None
    for line in job.stdout:
        if line.startswith(f"epoch {epoch} "):
            return
    raise AssertionError(f"other: the job ended before epoch {epoch}")


def _end(job: subprocess.Popen[str]) -> str:
    try:
        return job.communicate(timeout=READY_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return f"no end within {READY_SECONDS} s: {job.communicate()[0]}"


def processes_of(leader: int, *, group: bool = False) -> list[int]:
    """The processes of the leader's session, or of its group only: Spark's workers have a group of their own."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (place / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            if int(fields[2 if group else 3]) == leader:
                found.append(int(place.name))
    return found


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def main(base: Path, rounds: int, seed: int) -> int:
    """So many rounds of each kind; 0 if every one of them ended well."""
    chance, wrong, outcomes = random.Random(seed), 0, Counter[str]()
    for kind in KINDS:
        for number in range(rounds):
            try:
                outcome = zombie_round(base / f"{KINDS.index(kind)}-{number}", kind, chance)
            except AssertionError as error:
                wrong += 1
                outcome = f"WRONG: {error}"
            outcomes[f"{kind}: {outcome}"] += 1
            print(f"{kind}: {outcome}", flush=True)
    print(f"zombies {rounds * len(KINDS)}, wrong {wrong}, {dict(outcomes)}")
    return bool(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Stops a streaming job, starts another, wakes the first one.")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        code = main(Path(directory), given.rounds, given.seed)
    sys.exit(code)
