"""Rows of data frames whose set would have the 65th text of its location are rejected, and no others. Real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparkhaven
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import Quarantine

pytestmark = pytest.mark.spark

TABLE, STREAM = TableName("Test", "Sets"), "s"
SCHEMA = (
    b'<Table namespace="Test" name="Sets" storageType="NestedPartitionedOnDisk">'
    b'<Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String" columnType="Partitioning"/>'
    b'<Column name="Src" dataType="String"/><Column name="N" dataType="long"/>'
    b'<Column name="Tags" dataType="StringSet"/></Table>'
)
ROUTE: dict[str, Any] = {"internal": "Src", "value": {"fixed": "2024-03-05"}}
ANY = {"max_fraction": 1.0}
REASON = "no-room-in-the-sets-of-the-location"


def frame_of(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    """Rows of one location, each with a text of its own, and as many of another, where all have the same."""
    numbers = spark.range(0, count, numPartitions=tasks).select(f.col("id").alias("N"))
    own = numbers.select(f.lit("a").alias("Src"), "N", f.array(f.concat(f.lit("t"), "N")).alias("Tags"))
    same = numbers.select(f.lit("b").alias("Src"), f.expr("-1 - N").alias("N"), f.expr("array('x')").alias("Tags"))
    return own.union(same)


def given(root: Path, bad_rows: dict[str, Any]) -> dict[str, str]:
    (root.parent / "t.schema").write_bytes(SCHEMA)
    place = {"root": str(root), "schema": str(root.parent / "t.schema"), "stream": STREAM, "internal": "Src"}
    return place | {"value": json.dumps(ROUTE["value"]), "badRows": json.dumps(bad_rows)}


def saved(frame: DataFrame, root: Path, bad_rows: dict[str, Any]) -> None:
    frame.write.format("deephaven").mode("append").options(**given(root, bad_rows)).save(str(TABLE))


def framed(frame: DataFrame, root: Path, bad_rows: dict[str, Any]) -> None:
    sparkhaven.write_frame(frame, root, str(TABLE), STREAM, schema=SCHEMA, bad_rows=bad_rows, **ROUTE)


def followed(frame: DataFrame, root: Path) -> Any:
    """The frame as a stream of files."""
    feed = str(root.parent / "feed")
    frame.write.parquet(feed)
    stream = frame.sparkSession.readStream.schema(frame.schema).parquet(feed)
    return stream.writeStream.option("checkpointLocation", f"{feed}.checkpoint").trigger(availableNow=True)


def sunk(frame: DataFrame, root: Path, bad_rows: dict[str, Any]) -> None:
    query = followed(frame, root).format("deephaven").options(**given(root, bad_rows))
    query.start(str(TABLE)).awaitTermination(120)


def batched(frame: DataFrame, root: Path, bad_rows: dict[str, Any]) -> None:
    with sparkhaven.deephaven_writer(root, str(TABLE), STREAM, schema=SCHEMA, bad_rows=bad_rows, **ROUTE) as writer:
        followed(frame, root).foreachBatch(writer).start().awaitTermination(120)


WRITES = [saved, framed, sunk, batched]


def stored(root: Path) -> list[int]:
    numbers: list[int] = sparkhaven.open_table(root, str(TABLE)).to_arrow(["N"])["N"].to_pylist()
    return sorted(numbers)


def rejected(root: Path) -> list[int]:
    layout = Layout(root)
    quarantine = Quarantine(StreamPlace(Fs(), layout, TABLE, STREAM), layout.quarantine(STREAM), clock=lambda: 0.0)
    rows = [*quarantine.rows(Chosen())] if quarantine.exists else []
    assert {row["Reason"] for row in rows} <= {REASON}
    return sorted(json.loads(row["Payload"])["N"] for row in rows)


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_rows_without_room_are_rejected(
    spark: SparkSession, tmp_path: Path, write: Callable[[DataFrame, Path, dict[str, Any]], None], tasks: int
) -> None:
    root = tmp_path / "db"
    write(frame_of(spark, 70, tasks), root, ANY)
    numbers, left = stored(root), rejected(root)
    assert len(left) == 70 - 64
    assert sorted(numbers + left) == [*range(-70, 70)], "each row once, in the table or in quarantine"
    assert verify(Fs(), Layout(root), TABLE, deep=True).errors == 0


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_more_of_them_than_the_budget_commit_nothing(
    spark: SparkSession, tmp_path: Path, write: Callable[[DataFrame, Path, dict[str, Any]], None]
) -> None:
    root = tmp_path / "db"
    with pytest.raises(Exception, match="more bad rows"):  # of PySpark, where that runs the write
        write(frame_of(spark, 70, 2), root, {"max_rows": 5})
    assert (stored(root), rejected(root)) == ([], [])
