"""Rows by an index of several columns, as the Spark reader in Java finds them: those of a plain loop, for each pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.readers.indexed_pairs import KINDS, ROWS, SEVERAL, asked, kind_of, make
from tests.support.spark.pushed_queries import Java, Planned

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
MOST = 0.7 * ROWS  # rows of one value of the first column, and those that are close to them


def test_conditions_on_several_columns(java: Java, tmp_path: Path) -> None:
    """The JVM reads the rows that match, and those between two that are close; of no date all rows of each query."""
    plain = make(tmp_path)
    planned, few = Planned(tmp_path, java, "NS.Pairs"), dict.fromkeys(KINDS, 0)
    number_of = {directory: np.array([row["Row"] for _, row in rows]) for directory, rows in planned.rows.items()}
    for day, names, literals in asked():
        if not all(literal.java is not None for literal in literals):
            continue
        if names[0] not in SEVERAL and names[1] not in ("S", "D", "Text"):
            continue
        asks = [
            ["=", [name, {"type": kind_of(name).java, "value": literal.java}]]
            for name, literal in zip(names, literals, strict=True)
        ]
        answer = java.ask(predicates=[["=", ["Date", {"type": "string", "value": day}]], *asks])
        read = [
            number_of[directory][start:stop]
            for directory, edges in answer["read"]
            for start, stop in zip(edges[::2], edges[1::2], strict=True)
        ]
        rows = set(np.concatenate(read).tolist()) if read else set()
        assert rows >= set(plain.where(names, literals, in_spark=True)), (names, literals)
        few[names[0]] += len(rows) < MOST
    assert [name for name, count in few.items() if not count] == ["Flag", "C", "Wide"]  # which Java looks up in none
