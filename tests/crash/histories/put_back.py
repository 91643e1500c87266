"""Puts past faults back, one by one, and counts the histories until one goes wrong.

Each is looked for in the histories of the campaign in which nothing breaks, from the first one on. The history that
goes wrong is run again without the fault, and has to be right. A fault that no history can meet is shown to a test,
which has to fail. ``python -m tests.crash.histories.put_back`` writes the section of ``docs/evidence/histories.md``
anew; faults that were not named stay in it. The exit code is 1 if a fault was not seen.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.crash.histories.campaign import Campaign, campaign
from tests.crash.histories.evidence import FAULTS as SECTION
from tests.crash.histories.evidence import rows_of, write_section
from tests.crash.histories.faults import FAULTS, VARIABLE, PastFault, planted
from tests.crash.histories.history import LENGTH, Tally, WentWrong, draw_steps
from tests.support.places import REPOSITORY

MOST = 1000  # histories in which a fault is looked for
HEADER = ("fault", "what went wrong", "seen after", "told by")
TOLD = 160  # signs of what a history told


@dataclass(frozen=True)
class Seen:
    """``histories``: how many were run, the last of which told of the fault; 0: a test did. ``told`` is empty: none.

    ``steps``: how many of that history it took.
    """

    histories: int
    told: str
    steps: int = 0

    @property
    def text(self) -> str:
        if not self.told:
            return f"not in {self.histories:,} histories"
        if not self.histories:
            return "a test"
        histories = "1 history" if self.histories == 1 else f"{self.histories:,} histories"
        return f"{histories}, {self.steps} steps of the last"


def by_histories(running: Campaign, name: str, most: int) -> Seen:
    """Runs histories with a fault until one goes wrong that is right without it."""
    for seed in range(1, most + 1):
        if (wrong := by_a_history(running, name, seed, LENGTH)) is not None:
            return Seen(seed, wrong.end.splitlines()[0], wrong.steps)
    return Seen(most, "")


def by_a_history(running: Campaign, name: str, seed: int, length: int) -> WentWrong | None:
    """Where the first steps of a history go wrong with a fault, and are right without it."""
    steps = draw_steps(seed, LENGTH)[:length]
    with planted(name):
        wrong = running.try_steps(seed, steps, Tally())
    return wrong if wrong is None or running.try_steps(seed, steps, Tally()) is None else None


def by_a_test(name: str, fault: PastFault) -> Seen:
    """Runs the test of a fault that no history can meet."""
    words = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "tests.crash.histories.faults", fault.test]
    environment = {**os.environ, VARIABLE: name, "SPARKHAVEN_EXAMPLES": "1"}
    done = subprocess.run(words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED ([^\s[]+)", done.stdout, flags=re.M)
    return Seen(0, f"`{failed[0]}`, {len(failed)} of its tests; {fault.why}" if failed else "")


def _told(text: str) -> str:
    return text if len(text) <= TOLD else f"{text[:TOLD]} …"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"of {', '.join(FAULTS)}")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help="histories in which each is looked for")
    chosen = parser.parse_args()
    names, unseen = chosen.faults or [*FAULTS], 0
    with tempfile.TemporaryDirectory() as base, campaign(Path(base)) as running:
        for name in names:
            fault = FAULTS[name]
            seen = by_a_test(name, fault) if fault.test else by_histories(running, name, chosen.most)
            told = _told(seen.told) if seen.histories else seen.told
            print(f"{name}: {seen.text}. {told}", flush=True)
            unseen += not seen.told
            rows = rows_of(SECTION)  # another process may look for other faults meanwhile
            rows[name] = [name, fault.said, seen.text, told.replace("|", "\\|")]
            kept = [rows[each] for each in FAULTS if each in rows]
            said = "Each fault is put back alone, with what has been built against it taken away."
            write_section(SECTION, "python -m tests.crash.histories.put_back", said, HEADER, kept)
    return int(bool(unseen))


if __name__ == "__main__":
    sys.exit(main())
