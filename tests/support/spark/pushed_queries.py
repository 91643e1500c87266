"""What a query reads of a plan in the JVM, without Spark: ``tests/jvm/PushedQueries.java``."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.spark.jvm.plan_file import encode_plan
from sparkhaven.readers.spark.options import read_options
from sparkhaven.store.scan.slices import Slice
from tests.support.spark.java_reader import classpath

SOURCE = Path(__file__).parents[2] / "jvm" / "PushedQueries.java"
Tree = list[Any]
Row = dict[str, Any]


class Java:
    """One JVM that is asked what Spark would ask."""

    def __init__(self, classes: Path) -> None:
        subprocess.run(["javac", "-cp", classpath(), "-d", str(classes), str(SOURCE)], check=True)
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{classpath()}", "PushedQueries"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question: Any) -> Row:
        assert self._process.stdin and self._process.stdout
        asked = {
            "plan": None,
            "predicates": [],
            "aggregates": [],
            "groups": [],
            "limit": None,
            "columns": [],
        } | question
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: Row = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=30)


class Planned:
    """A table as the JVM has it, and the rows of each location in Python: number and values of each."""

    def __init__(self, root: Path, java: Java, name: str = "NS.T", task_bytes: int = 128 << 20) -> None:
        self.java = java
        table: PinnedTable = pinned_of(open_table(root, name))
        slices = table.plan().slices
        path = root / "plan"
        options = replace(read_options({"root": str(root), "path": name}, {}), task_bytes=task_bytes)
        path.write_bytes(encode_plan(table, slices, table.columns(), options))
        java.ask(plan=str(path))
        self.rows = {str(slice_.directory): self._rows(table, slice_) for slice_ in slices}

    @staticmethod
    def _rows(table: PinnedTable, slice_: Slice) -> list[tuple[int, Row]]:
        numbers = [
            row
            for start, stop in zip(slice_.chosen.starts.tolist(), slice_.chosen.stops.tolist(), strict=True)
            for row in range(start, stop)
        ]
        values = [row for batch in table.read([slice_]) for row in batch.to_pylist()]
        chars = [column.name for column in table.columns() if column.type.name == "char"]
        for row, name in product(values, chars):
            row[name] = None if row[name] is None else chr(row[name])
        return list(zip(numbers, values, strict=True))

    def read(self, answer: Row) -> list[Row]:
        """The rows that the JVM reads; those of a slice ascend."""
        ranges = {directory: list(zip(edges[::2], edges[1::2], strict=True)) for directory, edges in answer["read"]}
        assert len(ranges) == len(answer["read"])
        for pairs in ranges.values():
            edges = [edge for pair in pairs for edge in pair]
            assert edges and edges == sorted(set(edges))
        return [
            row
            for directory, rows in self.rows.items()
            for number, row in rows
            if any(start <= number < stop for start, stop in ranges.get(directory, ()))
        ]

    def every(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.rows.values() for _, row in rows]


def literal(value: Any, kind: str = "string") -> dict[str, str | None]:
    """A literal as the JVM is told it; timestamps in microseconds."""
    if isinstance(value, datetime):
        value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = (value - date(1970, 1, 1)).days
    if isinstance(value, float):
        text = "NaN" if math.isnan(value) else str(value).replace("inf", "Infinity")
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return {"type": kind, "value": None if value is None else text}


def shown(value: Any) -> str | None:
    """As Java prints it; of a number its value counts, so 1.5 is that of a float and of a double."""
    return literal(value)["value"]
