"""Types with a codec through Spark: batch and stream reads, each way to write frames, and refusals. Real Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparkhaven
from sparkhaven import errors
from sparkhaven.store.layout import TableName
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, coded_row, coded_table, plain_rows
from tests.support.writers.merge_runs import FS, merge

pytestmark = pytest.mark.spark

Row = dict[str, Any]
NAME = "Test.Coded"
EPOCH = datetime(1970, 1, 1)  # as PySpark shows it, in the session's zone, which is UTC
ROUTE: dict[str, Any] = {"schema": SCHEMA, "internal": {"fixed": "a"}, "value": {"fixed": DAY}, "ignore": ["Date"]}
OPTIONS = {"stream": "s", **{name: json.dumps(ROUTE[name]) for name in ("internal", "value", "ignore")}}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """Rows in history, and others in two intraday sources."""
    root = tmp_path_factory.mktemp("coded") / "db"
    rng = random.Random(11)
    rows = [coded_row(rng, number) for number in range(150)]
    db = IntradayRows(root, SCHEMA, fs=FS, statistics=True)
    db.commit({("a", "2024-03-04"): coded_table(db.schema, rows[:50])})
    merge(db.layout, "2024-03-04", table=TableName.parse(NAME))
    db.commit({("a", DAY): coded_table(db.schema, rows[50:100]), ("b", DAY): coded_table(db.schema, rows[100:])})
    return root, rows


def load(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return spark.read.format("deephaven").options(root=str(root), **options).load(NAME)


def shown(row: Row, char: str = "string") -> Row:
    """A row as Spark shows it."""
    wide, units = row["Wide"], row["Units"]
    if char == "string" and units is not None:
        units = [None if unit is None else chr(unit) for unit in units]
    return row | {"Wide": None if wide is None else f"{wide.normalize():f}", "Units": units}


def rows_of(frame: DataFrame) -> list[Row]:
    return plain_rows(frame.drop("Date").toArrow())


@pytest.mark.parametrize("char", ["string", "int"])
def test_a_batch_read_gives_every_value(spark: SparkSession, table: tuple[Path, list[Row]], char: str) -> None:
    root, rows = table
    assert rows_of(load(spark, root, char=char)) == [shown(row, char) for row in rows]


def test_rows_of_a_frame_are_python_values(spark: SparkSession, table: tuple[Path, list[Row]]) -> None:
    root, rows = table
    for row in load(spark, root).where("N < 20").collect():
        expected = shown(rows[row.N])
        weights = None if expected["Weights"] is None else dict(expected["Weights"])
        moments = expected["Moments"] and [
            n if n is None else EPOCH + timedelta(0, 0, n // 1000) for n in expected["Moments"]
        ]
        assert row.asDict() == expected | {"Weights": weights, "Moments": moments, "Date": "2024-03-04"}


def test_filters_of_spark_and_of_an_option_give_the_same_rows_each_time(
    spark: SparkSession, table: tuple[Path, list[Row]]
) -> None:
    root, rows = table
    frame = load(spark, root)
    for _ in range(2):
        for condition, where, keep in (
            ("Far >= date'2024-06-01'", "Far >= '2024-06-01'", lambda r: str(r["Far"]) >= "2024-06-01"),
            ("Px > 0.1", "Px > 0.1", lambda r: r["Px"] > 0),
            ("Clock < 43200000000000", "Clock < '12:00'", lambda r: r["Clock"] < 43_200_000_000_000),
            ("Whole <= -5", "Whole <= '-5'", lambda r: r["Whole"] <= -5),
        ):
            name = condition.split()[0]
            expected = [row["N"] for row in rows if row[name] is not None and keep(row)]
            assert sorted(row.N for row in frame.where(condition).select("N").collect()) == expected, condition
            assert sorted(row.N for row in load(spark, root, where=where).select("N").collect()) == expected, where
        assert frame.count() == len(rows)
    tags = frame.where(f.array_contains("Tags", "é")).select("N")
    assert sorted(row.N for row in tags.collect()) == [row["N"] for row in rows if "é" in row["Tags"]]


def test_a_stream_read_gives_every_value(spark: SparkSession, table: tuple[Path, list[Row]], tmp_path: Path) -> None:
    root, rows = table
    source = spark.readStream.format("deephaven").options(root=str(root)).load(NAME)
    query = source.writeStream.format("memory").queryName("coded").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    assert rows_of(spark.table("coded")) == [shown(row) for row in rows]


def saved(frame: DataFrame, place: Path) -> None:
    (place / "t.schema").write_bytes(SCHEMA)
    given = OPTIONS | {"root": str(place / "db"), "schema": str(place / "t.schema")}
    frame.write.format("deephaven").mode("append").options(**given).save(NAME)


def framed(frame: DataFrame, place: Path) -> None:
    sparkhaven.write_frame(frame, place / "db", NAME, "s", **ROUTE)


def followed(frame: DataFrame, place: Path) -> Any:
    """The frame as a stream of files."""
    frame.coalesce(2).write.parquet(str(place / "feed"))
    stream = frame.sparkSession.readStream.schema(frame.schema).parquet(str(place / "feed"))
    return stream.writeStream.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)


def sunk(frame: DataFrame, place: Path) -> None:
    (place / "t.schema").write_bytes(SCHEMA)
    given = OPTIONS | {"root": str(place / "db"), "schema": str(place / "t.schema")}
    followed(frame, place).format("deephaven").options(**given).start(NAME).awaitTermination(120)


def batched(frame: DataFrame, place: Path) -> None:
    with sparkhaven.deephaven_writer(place / "db", NAME, "s", **ROUTE) as writer:
        followed(frame, place).foreachBatch(writer).start().awaitTermination(120)


DOORS: dict[str, Callable[[DataFrame, Path], None]] = {
    "df.write": saved,
    "write_frame": framed,
    "writeStream": sunk,
    "deephaven_writer": batched,
}


@pytest.mark.parametrize(("door", "char"), [*((door, "string") for door in DOORS), ("write_frame", "int")])
def test_what_spark_reads_it_writes(
    spark: SparkSession, table: tuple[Path, list[Row]], tmp_path: Path, door: str, char: str
) -> None:
    root, rows = table
    DOORS[door](load(spark, root, char=char), tmp_path)
    again = sparkhaven.open_table(tmp_path / "db", NAME).to_arrow(dictionaries=False)
    assert plain_rows(again.drop_columns(["Date"])) == rows


WRONG = {
    "Day": ["boolean", "timestamp", "int", "array<date>"],
    "Clock": ["int", "double", "timestamp", "date"],
    "Px": ["double", "boolean", "date", "binary"],
    "Free": ["double", "array<string>"],
    "Whole": ["float", "timestamp_ntz"],
    "Raw": ["bigint", "array<tinyint>"],
    "Bytes": ["array<tinyint>", "int"],
    "Flags": ["array<string>", "boolean", "array<array<boolean>>"],
    "Units": ["string", "array<double>", "array<date>"],
    "Longs": ["array<string>", "array<boolean>", "bigint", "map<string,bigint>"],
    "Doubles": ["array<string>", "array<date>", "struct<a:double>"],
    "Texts": ["array<int>", "string", "array<binary>"],
    "Weights": ["map<string,string>", "map<int,double>", "struct<a:double>", "array<double>"],
    "Tags": ["string", "array<bigint>"],
    "Thing": ["int", "array<binary>"],
}


def test_other_types_are_refused_by_name(spark: SparkSession, table: tuple[Path, list[Row]], tmp_path: Path) -> None:
    frame = load(spark, table[0]).limit(0)
    kinds = {
        name: text.split('"')[1].rpartition(".")[2] if "java" in text else text.split('"')[1]
        for name, text in COLUMNS.items()
    }
    for name, types in WRONG.items():
        for spark_type in types:
            other = frame.drop(name).withColumn(name, f.lit(None).cast(spark_type))
            with pytest.raises(errors.SchemaMismatchError) as caught:
                framed(other, tmp_path)
            message = str(caught.value)
            assert f"column {name} of the data frame cannot be stored as" in message, message
            assert caught.value.found == spark_type
            assert str(caught.value.expected).endswith(f"for {kinds[name]}"), kinds[name]
    assert sparkhaven.open_table(tmp_path / "db", NAME).count() == 0


BAD = {
    "Clock": ["-1", "86400000000000"],
    "Short": ["43200000000001"],
    "Px": ["cast('0.0000001' as decimal(38,10))", "cast('1234567890123' as decimal(38,10))"],
    "Wide": ["'x'", "'1e60'"],
    "Huge": ["'1.5'"],
    "Raw": ["cast('' as binary)"],
    "Key": ["cast('abc' as binary)"],
    "Shorts": ["array(40000)", "array(-32768)"],
    "Ints": ["array(-2147483648)"],
    "Units": ["array('ab')"],
}


def test_values_that_a_column_cannot_hold_are_rejected_rows(
    spark: SparkSession, table: tuple[Path, list[Row]], tmp_path: Path
) -> None:
    root, rows = table
    frame = load(spark, root, where="N = 3")
    for number, (name, value) in enumerate((name, value) for name, values in BAD.items() for value in values):
        place = tmp_path / str(number)
        place.mkdir()
        both = frame.unionByName(
            frame.drop(name).withColumn(name, f.expr(value)).withColumn("N", f.lit(4).cast("long"))
        )
        given = ROUTE | {"bad_rows": {"max_rows": 1, "max_fraction": 1.0, "quarantine": str(place / "quarantine")}}
        sparkhaven.write_frame(both, place / "db", NAME, "s", **given)
        again = sparkhaven.open_table(place / "db", NAME).to_arrow(dictionaries=False).drop_columns(["Date"])
        assert plain_rows(again) == [rows[3]], (name, value)
