"""Filters on dates, times, decimals and chars leave out locations by their statistics in the Spark reader in Java."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.spark.pushed_queries import Java, Planned, literal
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS

pytestmark = pytest.mark.jvm
DAY = "2024-03-05"
DECIMAL = 'dataType="BigDecimal" objectCodec="io.deephaven.util.codec.BigDecimalCodec" objectCodecArguments='
SCHEMA = f"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Source" dataType="String"/><Column name="Day" dataType="LocalDate"/>
  <Column name="At" dataType="LocalTime"/><Column name="C" dataType="char"/>
  <Column name="Px" {DECIMAL}"9,2"/><Column name="Long" {DECIMAL}"38,2"/>
</Table>
"""
NOON = 12 * 3600 * 10**9
ROWS: dict[str, dict[str, list[Any]]] = {
    "a": {
        "Source": ["a", "a"],
        "Day": [date(2024, 1, 1), date(2024, 1, 31)],
        "At": [0, NOON],
        "C": [ord("a"), ord("f")],
        "Px": [Decimal("-1.25"), Decimal("3.50")],
        "Long": [Decimal("-1.25"), Decimal("3.50")],
    },
    "b": {
        "Source": ["b", None],
        "Day": [date(2024, 2, 1), date(2024, 2, 29)],
        "At": [NOON + 1, 2 * NOON - 1],
        "C": [ord("g"), 0x20AC],
        "Px": [Decimal("3.51"), Decimal("9999999.99")],
        "Long": [Decimal("3.51"), Decimal("92233720368547758.07")],  # what a long holds
    },
}
TYPES = {"Day": "date", "At": "bigint", "Px": "decimal(9,2)", "Long": "decimal(38,2)"}
SPLITS = {
    "Source": ("a", "b"),
    "Day": (date(2024, 1, 31), date(2024, 2, 1)),
    "At": (NOON, NOON + 1),
    "C": ("f", "g"),
    "Px": (Decimal("3.50"), Decimal("3.51")),
    "Long": (Decimal("3.50"), Decimal("3.51")),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    db = IntradayRows(tmp_path, SCHEMA.encode(), fs=FS, statistics=True)
    kinds = {column.name: column.type.arrow for column in db.schema.stored}
    for source, rows in ROWS.items():
        db.commit({(source, DAY): pa.table({name: pa.array(values, kinds[name]) for name, values in rows.items()})})
    return tmp_path


def test_locations_without_such_values_are_left_out(root: Path, java: Java) -> None:
    Planned(root, java)

    def read(operator: str, column: str, value: Any) -> set[str]:
        asked = [operator, [column, literal(value, TYPES.get(column, "string"))]]
        return {Path(directory).parents[1].name for directory, _ in java.ask(predicates=[asked])["read"]}

    for column, (last, first) in SPLITS.items():
        assert read("=", column, last) == read("<=", column, last) == read("<", column, first) == {"a"}, column
        assert read("=", column, first) == read(">=", column, first) == read(">", column, last) == {"b"}, column
        assert read("IN", column, last) == {"a"} and read("<=", column, first) == {"a", "b"}
    assert read("=", "C", "ab") == {"a"}  # between a and f, though no char
    assert read(">", "C", "€") == read("<", "C", "") == set()


def test_the_least_and_the_greatest_come_from_the_plan(root: Path, java: Java) -> None:
    Planned(root, java)
    for column, (least, greatest) in {
        "Day": ("19723", "19782"),
        "At": ("0", str(2 * NOON - 1)),
        "Px": ("-1.25", "9999999.99"),
        "Long": ("-1.25", "92233720368547758.07"),
        "C": ("a", "€"),
    }.items():
        assert java.ask(aggregates=[["min", column], ["max", column]])["aggregates"] == [[least, greatest]], column
