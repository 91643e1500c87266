"""What people and JSON see of Arrow values."""

from __future__ import annotations

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers.arrow.export import cell_values, export, nested_text

NS = pa.time64("ns")
HALF_PAST = 48_600_500_000_000


def times(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int64()).view(NS)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            times(HALF_PAST, 0, 1, None, 36_000_000_000_000),
            ["13:30:00.5", "00:00:00", "00:00:00.000000001", None, "10:00:00"],
        ),
        (pa.array([36_000], pa.time32("s")), ["10:00:00"]),
        (pa.array([10], pa.time32("ms")), ["00:00:00.01"]),
        (pa.array([b"\x00\xff", b"", None]), ["AP8=", "", None]),
        (pa.array([b"ab"], pa.binary(2)), ["YWI="]),
        (pa.array([[b"ab", None], None], pa.list_(pa.binary())), [["YWI=", None], None]),
        (
            pa.array([[("a", 1.5), ("b", None)], None, []], pa.map_(pa.string(), pa.float64())),
            [{"a": 1.5, "b": None}, None, {}],
        ),
        (pa.array([{"a": b"ab", "b": 1}, None]), [{"a": "YWI=", "b": 1}, None]),
        (pa.array([date(2024, 3, 5), None]), [date(2024, 3, 5), None]),
        (pa.array([10**7, None, -(10**6)], pa.int32()).view(pa.date32()), ["29349-01-26", None, "-0768-02-04"]),
        (pa.array([Decimal("0.0000000001")], pa.decimal128(20, 10)), [Decimal("1E-10")]),
    ],
    ids=str,
)
def test_values(column: pa.Array, expected: list[Any]) -> None:
    assert cell_values(column) == expected
    assert cell_values(column.slice(1)) == expected[1:]
    assert cell_values(pa.chunked_array([column, column])) == expected * 2


def test_nested_values_are_json() -> None:
    text = nested_text({"a": [1.5, float("nan"), float("-inf")], "é": None})
    assert text == '{"a": [1.5, "NaN", "-Infinity"], "é": null}'
    assert json.loads(text)["a"] == [1.5, "NaN", "-Infinity"]


def test_csv_has_every_type(tmp_path: Path) -> None:
    rows = pa.record_batch(
        {
            "t": times(HALF_PAST, None),
            "b": pa.array([b"ab", b""]),
            "l": pa.array([["x", None], None]),
            "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
            "d": pa.array([date(2024, 3, 5), None]),
            "p": pa.array([Decimal("1.50"), None], pa.decimal256(50, 2)),
        }
    )
    assert export(pa.RecordBatchReader.from_batches(rows.schema, [rows, rows]), tmp_path / "x.csv") == 4
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    first = ["13:30:00.5", "YWI=", '["x", null]', '{"k": 1}', "2024-03-05", "1.50"]
    assert lines == [
        ["t", "b", "l", "m", "d", "p"],
        first,
        ["", "", "", "{}", "", ""],
        first,
        ["", "", "", "{}", "", ""],
    ]
