"""Columns with codecs as Spark types and as the Arrow arrays that Spark takes, without a JVM."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.readers.spark.options import Chars, ReadOptions
from sparkhaven.readers.spark.spark_types import spark_batch, spark_schema
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, coded_row, coded_table, counted
from tests.support.writers.merge_runs import FS

TABLE = parse_schema(SCHEMA, "Test.Coded.schema").schema
CODED = [column for column in TABLE.stored if column.name in COLUMNS]
TYPES = {
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
    "Thing": "binary",
}


def options(char: Chars = "string") -> ReadOptions:
    return ReadOptions(Path("db"), "Test.Coded", char=char)


def test_each_type_has_its_spark_type() -> None:
    schema = spark_schema(CODED, options())
    assert {field.name: field.dataType.simpleString() for field in schema} == TYPES
    assert schema["Clock"].metadata == {"deephaven.type": "LocalTime", "deephaven.unit": "ns"}
    assert schema["Px"].metadata == {}
    assert spark_schema(CODED, options("int"))["Units"].dataType == spark.ArrayType(spark.IntegerType())


def test_values_are_those_of_the_table() -> None:
    rng = random.Random(2)
    rows = [coded_row(rng, number) for number in range(200)]
    table = coded_table(TABLE, rows).select(list(COLUMNS)).combine_chunks()
    batch = spark_batch(table.to_batches()[0].slice(7), CODED, options())
    batch.validate(full=True)
    for name in COLUMNS:
        values = [row[name] for row in rows[7:]]
        if name == "Wide":
            values = [None if value is None else f"{value.normalize():f}" for value in values]
        elif name == "Units":
            values = [v and [None if unit is None else chr(unit) for unit in v] for v in values]
        assert counted(batch.column(name)).to_pylist() == values, name
    numbers = spark_batch(table.to_batches()[0], CODED, options("int")).column("Units")
    assert (numbers.type, numbers.to_pylist()) == (pa.list_(pa.int32()), [row["Units"] for row in rows])


@pytest.mark.parametrize("char", ["string", "int"])
def test_batches_have_the_arrow_types_that_a_worker_asks_for(char: Chars) -> None:
    rows = [coded_row(random.Random(3), number) for number in range(5)]
    table = coded_table(TABLE, rows).select(list(COLUMNS)).combine_chunks()
    batch = spark_batch(table.to_batches()[0], CODED, options(char))
    assert to_arrow_schema(spark_schema(CODED, options(char)), timezone="UTC").equals(batch.schema)


def test_bytes_of_any_offsets_are_binary() -> None:
    column = [column for column in CODED if column.name == "Raw"]
    batch = spark_batch(pa.record_batch({"Raw": pa.array([b"a", None], pa.large_binary())}), column, options())
    assert batch.schema.field("Raw").type == pa.binary()


def test_instants_of_arrays_are_as_the_option_says() -> None:
    column = [column for column in CODED if column.name == "Moments"]
    batch = pa.record_batch({"Moments": pa.array([[-1, None], None, [], [1000]], column[0].type.arrow)}).slice(0)
    with pytest.raises(SchemaMismatchError, match=r"(?s)an Instant has nanoseconds.*Moments.*instant=long"):
        spark_batch(batch, column, options())
    exact = replace(options(), instant="long")
    assert spark_batch(batch, column, exact).column(0).to_pylist() == [[-1, None], None, [], [1000]]
    assert spark_schema(column, exact)["Moments"].metadata == {"deephaven.type": "Instant[]", "deephaven.unit": "ns"}
    rounded = spark_batch(batch, column, replace(options(), instant="timestamp-truncate")).column(0)
    assert rounded.type == pa.list_(pa.timestamp("us", "UTC"))
    assert counted(rounded).to_pylist() == [[-1000, None], None, [], [1000]]


def test_half_of_a_character_in_an_array_is_refused_by_name() -> None:
    column = [column for column in CODED if column.name == "Units"]
    batch = pa.record_batch({"Units": pa.array([[65], [0xD83D]], pa.list_(pa.uint16()))})
    with pytest.raises(SchemaMismatchError, match=r"(?s)half of a character.*U\+D83D.*Units.*char=int"):
        spark_batch(batch, column, options())
    assert spark_batch(batch.slice(0, 1), column, options()).column(0).to_pylist() == [["A"]]
    assert spark_batch(batch, column, options("int")).column(0).to_pylist() == [[65], [0xD83D]]


@pytest.mark.parametrize(
    "text", ["0", "1E-10", "-0.0000001", "12.5", "1234567890123456789012345678901234567890", "-10"]
)
def test_long_decimals_are_plain_texts(text: str) -> None:
    column = [column for column in CODED if column.name == "Wide"]
    batch = pa.record_batch({"Wide": pa.array([Decimal(text), None], column[0].type.arrow)})
    shown, null = spark_batch(batch, column, options()).column(0).to_pylist()
    assert "E" not in shown and not shown.endswith(".") and (Decimal(shown), null) == (Decimal(text), None)
    assert shown == "0" or not ("." in shown and shown.endswith("0"))


def test_tasks_read_the_rows_that_an_expression_keeps(tmp_path: Path) -> None:
    rng = random.Random(9)
    rows = [coded_row(rng, number) for number in range(100)]
    db = IntradayRows(tmp_path, SCHEMA, fs=FS, statistics=True)
    for start in (0, 50):
        db.commit({("a", DAY): coded_table(db.schema, rows[start : start + 50])})
    wanted = {"root": str(tmp_path), "path": "Test.Coded", "where": "Far >= '2024-01-01' and Px > 0.1"}
    source = DeephavenSource(wanted)
    reader = pickle.loads(pickle.dumps(source)).reader(source.schema())
    reader, tasks = pickle.loads(pickle.dumps((reader, reader.partitions())))
    for _ in range(2):
        numbers = [number for task in tasks for batch in reader.read(task) for number in batch["N"].to_pylist()]
        kept = (row for row in rows if row["Far"] and row["Px"] and row["Far"] >= date(2024, 1, 1) and row["Px"] > 0)
        assert numbers == [row["N"] for row in kept]
