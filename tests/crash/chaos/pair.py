"""Two chaos campaigns side by side, since one alone waits more than it works, and the lines of what they found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sparkhaven.jobs.streams.process import stopping
from tests.crash.chaos.tally import Campaign
from tests.crash.results_page import Line

SEEDS = (1, 2)


def run_pair(base: Path, kills: int) -> tuple[Campaign, int]:
    """The sum of both, each with a broker, a topic and a table of its own, and how many ended without a result.

    SIGTERM lets them end after their round and keeps what they have found.
    """
    sums = [base / f"{seed}.json" for seed in SEEDS]
    words = ["-m", "tests.crash.chaos.campaign", "--kills", str(-(-kills // len(sums)))]
    runs = [subprocess.Popen([sys.executable, *words, "--seed", file.stem, "--sum", str(file)]) for file in sums]
    with stopping() as stop:
        while any(run.poll() is None for run in runs):
            if stop.wait(1.0):
                for run in runs:
                    run.terminate()
                break
        for run in runs:
            run.wait()
    found = Campaign()
    for file in sums:
        if file.exists():
            found.add(Campaign.from_json(file.read_text(encoding="utf-8")))
    return found, sum(not file.exists() for file in sums)


def chaos_lines(found: Campaign) -> Iterator[Line]:
    """One for each fault; the last one is the comparison of all rows."""
    for fault, t in sorted(found.tallies.items()):
        counts = t.rounds, t.lost, t.doubled, t.torn, t.other
        yield Line(f"real job and topic: {fault}", "SIGKILL", "fsync", *counts, remark=f"{t.kills} kills")
    damaged = ", ".join(f"{kind} {count}" for kind, count in sorted(found.checkpoints.items()))
    remark = f"{found.rows:,} rows; Spark's checkpoint {damaged}; {found.looks:,} snapshots read meanwhile"
    yield Line(
        "real job and topic: all rows", "at the end", "fsync", found.end.rounds, *found.end.counts, remark=remark
    )
