"""Rows of data frames in columns with a codec, as Spark hands them over: what is stored, rejected and refused."""

from __future__ import annotations

import json
import random
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.feeds.base import route
from sparkhaven.ingest.feeds.frames import FrameBatch, FramesFeed, FramesOptions, fit_frame
from sparkhaven.ingest.spec import BadRowBudget, Clock, InternalRule, PartitionSpec, StreamSpec, ValueRule
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, coded_row, coded_table, plain_rows

TABLE = parse_schema(SCHEMA, "Test.Coded.schema").schema
PARTITION = PartitionSpec(InternalRule("fixed", "a"), ValueRule(fixed=DAY), Clock("fixed", 0))
SPEC = StreamSpec("s", "Test.Coded", FramesOptions(), PARTITION, bad_rows=BadRowBudget(100, 1.0))
NS_OF_DAY = 86_400_000_000_000
SPARK = {
    "Sym": "string",
    "N": "bigint",
    "Day": "date",
    "Far": "date",
    "Clock": "bigint",
    "Short": "bigint",
    "Px": "decimal(18,6)",
    "Wide": "string",
    "Free": "string",
    "Whole": "decimal(20,0)",
    "Huge": "string",
    "Raw": "binary",
    "Key": "binary",
    "Bytes": "binary",
    "Thing": "binary",
    "Flags": "array<boolean>",
    "Units": "array<string>",
    "Shorts": "array<smallint>",
    "Ints": "array<int>",
    "Longs": "array<bigint>",
    "Floats": "array<float>",
    "Doubles": "array<double>",
    "Texts": "array<string>",
    "Moments": "array<timestamp>",
    "Rows": "binary",
    "Weights": "map<string,double>",
    "Tags": "array<string>",
}


def handed_over(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as Spark has them in Arrow: times as numbers, characters and long decimals as texts."""
    batch = coded_table(TABLE, rows).combine_chunks().to_batches()[0]
    for index, name in enumerate(batch.schema.names):
        if SPARK[name] == "bigint":
            batch = batch.set_column(index, name, batch.column(name).view(pa.int64()))
    units = [v["Units"] and [None if unit is None else chr(unit) for unit in v["Units"]] for v in rows]
    texts = {"Units": pa.array(units, pa.list_(pa.string())), "Wide": batch.column("Wide").cast(pa.string())}
    for name, array in texts.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, array)
    return batch


def decode(batch: pa.RecordBatch, types: dict[str, str]) -> tuple[list[dict[str, Any]], list[BadRow]]:
    """The stored rows, and the rejected ones."""
    rejects = Rejects(SPEC.bad_rows)
    split = FrameBatch(batch, "t/0", np.arange(batch.num_rows, dtype=np.int64), "row")
    routed = list(
        route(FramesFeed(fit_frame(SPEC, TABLE, types)).decode(Fs(), split, TABLE, rejects, time.time), rejects)
    )
    stored = [row for part in routed for row in plain_rows(pa.Table.from_batches([part.batch]))]
    return stored, list(rejects.rows)


def test_every_type_is_taken_as_spark_has_it() -> None:
    rng = random.Random(4)
    rows = [coded_row(rng, number) for number in range(200)]
    stored, rejected = decode(handed_over(rows), SPARK)
    assert rejected == []
    assert [row | {"Tags": row["Tags"] or []} for row in stored] == rows


def test_a_rejected_row_has_its_numbers_as_they_came_and_harms_no_other() -> None:
    rng = random.Random(6)
    rows = [coded_row(rng, number) for number in range(4)]
    batch = handed_over(rows)
    clocks = pa.array([-1, NS_OF_DAY, 5, None], pa.int64())
    batch = batch.set_column(batch.schema.get_field_index("Clock"), "Clock", clocks)
    stored, rejected = decode(batch, SPARK)
    assert [row["Clock"] for row in stored] == [5, None]
    assert [(row.line, row.column) for row in rejected] == [(0, "Clock"), (1, "Clock")]
    assert [json.loads(row.payload or b"")["Clock"] for row in rejected] == [-1, NS_OF_DAY]


def test_a_value_in_doubt_does_not_reject_the_rest_of_its_row() -> None:
    row = coded_row(random.Random(8), 1)
    full = {
        "Clock": 5,
        "Far": row["Far"] or coded_row(random.Random(9), 2)["Far"],
        "Raw": b"a",
        "Doubles": [float("nan")],
    }
    batch = handed_over([row | full])
    batch = batch.set_column(batch.schema.get_field_index("Short"), "Short", pa.array(["12:30"]))
    stored, rejected = decode(batch, SPARK | {"Short": "string"})
    assert rejected == []
    assert (stored[0]["Short"], stored[0]["Clock"], stored[0]["Raw"]) == (45_000_000_000_000, 5, b"a")


BAD = [
    ("Clock", pa.array([-1], pa.int64()), "bigint"),
    ("Short", pa.array([43_200_000_000_001], pa.int64()), "bigint"),
    ("Px", pa.array([Decimal("0.0000001")], pa.decimal128(38, 10)), "decimal(38,10)"),
    ("Px", pa.array([Decimal("1234567890123")], pa.decimal128(38, 10)), "decimal(38,10)"),
    ("Wide", pa.array(["x"]), "string"),
    ("Wide", pa.array(["1e60"]), "string"),
    ("Huge", pa.array(["1.5"]), "string"),
    ("Raw", pa.array([b""]), "binary"),
    ("Key", pa.array([b"abc"]), "binary"),
    ("Shorts", pa.array([[40_000]], pa.list_(pa.int32())), "array<int>"),
    ("Shorts", pa.array([[-(2**15)]], pa.list_(pa.int32())), "array<int>"),
    ("Ints", pa.array([[-(2**31)]], pa.list_(pa.int64())), "array<bigint>"),
    ("Units", pa.array([["ab"]]), "array<string>"),
    ("Moments", pa.array([[2**61]], pa.list_(pa.timestamp("us", "UTC"))), "array<timestamp>"),
]


@pytest.mark.parametrize(
    ("name", "array", "spark_type"), BAD, ids=[f"{name}-{number}" for number, (name, *_) in enumerate(BAD)]
)
def test_a_value_that_a_column_cannot_hold_is_a_rejected_row(name: str, array: pa.Array, spark_type: str) -> None:
    batch = handed_over([coded_row(random.Random(5), 0)])
    stored, rejected = decode(
        batch.set_column(batch.schema.get_field_index(name), name, array), SPARK | {name: spark_type}
    )
    assert (stored, [row.column for row in rejected]) == ([], [name])


WRONG = {
    "Day": ["boolean", "timestamp", "int", "array<date>"],
    "Clock": ["int", "double", "timestamp", "date"],
    "Px": ["double", "boolean", "date", "binary"],
    "Free": ["double", "array<string>"],
    "Whole": ["float", "timestamp_ntz"],
    "Raw": ["bigint", "array<tinyint>"],
    "Flags": ["boolean", "array<array<boolean>>"],
    "Units": ["array<date>", "binary"],
    "Longs": ["array<string>", "array<boolean>", "bigint", "map<string,bigint>"],
    "Doubles": ["array<string>", "array<date>", "struct<a:double>", "array<array<double>>"],
    "Texts": ["array<int>", "array<binary>", "map<string,string>"],
    "Moments": ["array<timestamp_ntz>", "array<bigint>", "array<date>", "timestamp"],
    "Weights": ["map<string,string>", "map<int,double>", "struct<a:double>", "array<double>"],
    "Tags": ["array<bigint>", "int"],
    "Thing": ["int", "array<binary>"],
}


@pytest.mark.parametrize(("name", "spark_type"), [(n, t) for n, types in WRONG.items() for t in types])
def test_other_types_are_refused_by_name(name: str, spark_type: str) -> None:
    with pytest.raises(SchemaMismatchError, match=f"column {name} of the data frame cannot be stored as") as caught:
        fit_frame(SPEC, TABLE, SPARK | {name: spark_type})
    assert (caught.value.found, caught.value.column) == (spark_type, name)
    assert str(caught.value.hint) == "make another type of it in the query"


@pytest.mark.parametrize(
    ("name", "spark_type"),
    [
        ("Day", "string"),
        ("Clock", "string"),
        ("Clock", "time(6)"),
        ("Px", "decimal(38,10)"),
        ("Px", "int"),
        ("Whole", "bigint"),
        ("Free", "decimal(10,2)"),
        ("Wide", "decimal(38,0)"),
        ("Units", "array<int>"),
        ("Longs", "array<int>"),
        ("Longs", "array<decimal(20,0)>"),
        ("Doubles", "array<float>"),
        ("Texts", "array<varchar(10)>"),
        ("Weights", "map<string,float>"),
        ("Raw", "void"),
        ("Tags", "void"),
    ],
)
def test_types_that_hold_such_values_are_taken(name: str, spark_type: str) -> None:
    fit_frame(SPEC, TABLE, SPARK | {name: spark_type})


def test_the_error_says_what_a_time_takes() -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        fit_frame(SPEC, TABLE, SPARK | {"Clock": "int"})
    assert caught.value.expected == "a bigint of nanoseconds, or a time of the day, like 13:30:00.5, for LocalTime"
    assert set(COLUMNS) < set(SPARK)
