"""A table with every column type, random rows for it, and what a merge of them must give, worked out naively."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pyarrow as pa

from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.model import TableSchema

TABLE = TableName("Test", "Every")
DAY = "2024-03-05"
SCHEMA = b"""<Table namespace="Test" name="Every" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_by_first_grouping_column}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Venue" dataType="String"/>
  <Column name="Note" dataType="String" symbolTable="None" encoding="UTF_8"/>
  <Column name="Flag" dataType="Boolean"/>
  <Column name="B" dataType="byte"/>
  <Column name="C" dataType="char"/>
  <Column name="S" dataType="short"/>
  <Column name="I" dataType="int"/>
  <Column name="L" dataType="long"/>
  <Column name="F" dataType="float"/>
  <Column name="D" dataType="double"/>
  <Column name="T" dataType="Instant"/>
</Table>
"""
STRINGS = ["", "a", "b", "B", "é", "\U0001f600", "\uffee", "\u00ff", "zz", "10", "9"]
_FLOATS = [math.nan, 0.0, -0.0, math.inf, -math.inf, 1.5, -2.25, 1e30]
ARROW = {
    "Sym": pa.string(),
    "Venue": pa.string(),
    "Note": pa.string(),
    "Flag": pa.bool_(),
    "B": pa.int8(),
    "C": pa.uint16(),
    "S": pa.int16(),
    "I": pa.int32(),
    "L": pa.int64(),
    "F": pa.float32(),
    "D": pa.float64(),
    "T": pa.timestamp("ns", "UTC"),
}


def random_row(rng: random.Random) -> dict[str, Any]:
    """One row; each value is null now and then."""
    f4 = [struct.unpack("f", struct.pack("f", x))[0] for x in _FLOATS]
    row = {
        "Sym": rng.choice(STRINGS),
        "Venue": rng.choice(STRINGS[:6]),
        "Note": rng.choice(STRINGS) * rng.randint(0, 3),
        "Flag": rng.random() < 0.5,
        "B": rng.randint(-127, 127),
        "C": rng.randint(0, 65534),
        "S": rng.randint(-5, 5),
        "I": rng.randint(-(2**31) + 1, 2**31 - 1),
        "L": rng.randint(-3, 3),
        "F": rng.choice(f4),
        "D": rng.choice(_FLOATS),
        "T": rng.randint(0, 10**18),
    }
    return {name: None if rng.random() < 0.12 else value for name, value in row.items()}


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as an Arrow table of the column types."""
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in ARROW.items()})


def naive_key(value: Any, descending: bool = False) -> tuple[Any, ...]:
    """Deephaven's order as a Python sort key; ``descending`` must be applied by ``reverse`` on a stable sort."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        if math.isnan(value):
            return (2,)
        return (1, value, 0 if math.copysign(1, value) < 0 else 1)
    if isinstance(value, str):
        units = value.encode("utf-16-be")
        return (1, [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)])
    return (1, value)


def naive_order(rows: list[dict[str, Any]], sort: list[tuple[str, bool]]) -> list[dict[str, Any]]:
    """Rows by group, then by the sort columns (name, descending), ties in the order given."""
    ordered = list(rows)
    for name, descending in reversed([("Sym", False), *sort]):
        if descending:  # reverse=True keeps equal elements in their order
            ordered.sort(key=lambda row: naive_key(row[name]), reverse=True)
        else:
            ordered.sort(key=lambda row: naive_key(row[name]))
    return ordered


def comparable(value: Any) -> Any:
    """A value that equals itself: NaN and the sign of zero made visible."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def read_location(layout: Layout, schema: TableSchema, key: LocationKey, fs: Fs | None = None) -> list[dict[str, Any]]:
    """All rows of a historical location, by the ordinary column reader."""
    fs = fs or Fs()
    directory = layout.history_location(TableName(schema.namespace, schema.name), key)
    size = table_size.load(fs, directory)
    assert size is not None
    columns = {}
    for column in schema.stored:
        array = read_column(fs, directory, column, size.data_file_sizes, size.size)
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())
        columns[column.name] = array.to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
