"""Reads a history with Spark, in a process of its own: a history forks, and must not have a JVM's threads.

The process takes lines ``[root, epoch]`` and answers each with the rows, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.crash.histories.model import Row
from tests.crash.histories.operations import COLUMNS, STREAM, TABLE


class SparkReader:
    """One session for all histories of a campaign; ``close`` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.histories.spark_reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rows(self, root: Path, epoch: int) -> Counter[Row]:
        """All rows of an epoch; ValueError: Spark gave none, and its error is on standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([str(root), epoch]), file=self._process.stdin, flush=True)
        return Counter(Row(*row) for row in json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    from sparkhaven import register
    from tests.support.spark.stream_job import session

    spark = session()
    register(spark)
    for line in sys.stdin:
        root, epoch = json.loads(line)
        frame = spark.read.format("deephaven").option("root", root).option("epoch", json.dumps({STREAM: epoch}))
        rows = frame.load(TABLE).select(*COLUMNS).collect()
        print(json.dumps([[*row] for row in rows]), flush=True)


if __name__ == "__main__":
    main()
