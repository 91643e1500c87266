"""Reads tables with Spark, by its reader in Java, in a process of its own.

The process takes lines ``[root, table, columns, where]`` and answers each with the rows, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.crash.histories.columns import Col, cells

PLAIN_KINDS = ("Boolean", "byte", "short", "int", "long", "symbol", "text")  # whose values JSON has as they are


class SparkReader:
    """One session for all histories of a campaign; ``close`` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.histories.spark_reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rows(self, root: Path, table: str, columns: Sequence[Col], where: str) -> Counter[tuple[object, ...]]:
        """The rows that a filter keeps; ValueError: Spark gave none, and its error is on standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        names = [column.name for column in columns]
        print(json.dumps([str(root), table, names, where]), file=self._process.stdin, flush=True)
        return Counter(cells(row) for row in json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def readable(columns: Sequence[Col]) -> list[Col]:
    """The columns that can be compared."""
    return [column for column in columns if column.kind.name in PLAIN_KINDS]


def main() -> None:
    from sparkhaven import register
    from tests.support.spark.stream_job import session

    spark = session()
    register(spark)
    for line in sys.stdin:
        root, table, columns, where = json.loads(line)
        frame = spark.read.format("deephaven").option("root", root)
        rows = (frame.option("where", where) if where else frame).load(table).select(*columns).collect()
        print(json.dumps([[*row] for row in rows]), flush=True)


if __name__ == "__main__":
    main()
