"""Two chaos campaigns side by side: one alone waits more than it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jobs.streams.process import stopping
from tests.crash.chaos.tally import Campaign

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
