"""Random histories of a night's commands, killed at random: ``python -m tests.crash.histories.campaign``.

A history is a dozen commands of ingest, merge, correction, removal and copy. Whatever of them is killed, every reader
shows the rows of a model in plain Python: after each command now and at some older epochs, at the end at every epoch
that is kept. Histories are numbered: ``--first N --count 1``
runs one again. Prints what was done. A history that went wrong is told with all its commands, and the end is then 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.histories.history import History, Tally, Wrong
from tests.crash.histories.spark_reader import SparkReader

LENGTH = 14  # commands of a history


def campaign(
    base: Path, *, first: int, count: int, length: int, spark: SparkReader | None = None, progress: bool = False
) -> Tally:
    """Runs histories in directories below ``base``. After one that differs from its model it goes on with the next.

    ``spark`` reads the end of every tenth.
    """
    tally, begun = Tally(), time.monotonic()
    for number in range(first, first + count):
        try:
            History(base / f"{number}", number, tally, spark if number % 10 == 0 else None).run(length)
        except Wrong as wrong:
            tally.wrong.append(f"history {number}:\n{wrong}")
            print(f"wrong: {tally.wrong[-1]}", flush=True)
        shutil.rmtree(base / f"{number}")
        if progress and (number - first + 1) % 50 == 0:
            print(f"{number - first + 1} of {count} histories, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=1, help="number of the first history")
    parser.add_argument("--length", type=int, default=LENGTH, help="commands of a history")
    parser.add_argument("--spark", action="store_true", help="read every tenth history with Spark too")
    chosen = parser.parse_args()
    spark = SparkReader() if chosen.spark else None
    with tempfile.TemporaryDirectory() as base:
        try:
            tally = campaign(
                Path(base), first=chosen.first, count=chosen.count, length=chosen.length, spark=spark, progress=True
            )
        finally:
            if spark is not None:
                spark.close()
    print(f"{chosen.count} histories, {len(tally.wrong)} wrong: {tally.text}")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
