"""``merge_frame`` of a Spark frame: its workers write the rows, in any number of tasks. Real Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import sparkhaven
from sparkhaven.errors import SchemaMismatchError, TableExistsError
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.staged_locations import taken_rows
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.writers.import_cases import empty
from tests.support.writers.merge_runs import FS

pytestmark = pytest.mark.spark
NS_T = TableName("NS", "T")
SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Id" dataType="long"/>
  <Column name="Px" dataType="double"/>
  <Column name="At" dataType="Instant"/></Table>"""
COLUMNS = "Date date, Sym string, Id bigint, Px float, At timestamp, More array<int>"


def rows_of(numbers: range) -> list[tuple[Any, ...]]:
    return [
        (
            date(2024, 1, 1 + n % 3),
            None if n % 5 == 0 else f"s{n % 7}",
            n,
            n / 4,
            datetime.fromtimestamp(n, UTC),
            [n],
        )
        for n in numbers
    ]


def test_a_spark_frame_becomes_history_whatever_its_tasks(spark: SparkSession, tmp_path: Path) -> None:
    layout = empty(tmp_path / "db", SCHEMA)
    frame = spark.createDataFrame(rows_of(range(500)), COLUMNS)
    with pytest.raises(SchemaMismatchError, match="found: More"):
        sparkhaven.merge_frame(frame, layout.root, "NS.T")
    looked = sparkhaven.merge_frame(frame.repartition(2), layout.root, "NS.T", ignore="More", dry_run=True)
    assert [(d.value, d.rows_in) for d in looked] == [("2024-01-01", 167), ("2024-01-02", 167), ("2024-01-03", 166)]
    notes: list[str] = []
    done = sparkhaven.merge_frame(
        frame.repartition(3), layout.root, "NS.T", "2024-01-01..2024-01-02", ignore="More", on_progress=notes.append
    )
    assert [(d.value, d.outcome, d.rows_out) for d in done] == [(d.value, "imported", d.rows_in) for d in looked[:2]]
    assert "334 rows of 2 dates read" in notes
    again = sparkhaven.merge_frame(frame.repartition(4), layout.root, "NS.T", ignore="More")
    assert [d.outcome for d in again] == ["unchanged", "unchanged", "imported"]
    table = sparkhaven.open_table(layout.root, "NS.T").to_arrow(dictionaries=False)
    columns = [table[name].to_pylist() for name in ("Date", "Sym", "Id", "Px", "At")]
    wanted = [(str(day), sym, n, px, at) for day, sym, n, px, at, _ in rows_of(range(500))]
    assert sorted(zip(*columns, strict=True), key=lambda row: row[2]) == wanted
    place = TablePlace(FS, layout, NS_T)
    assert [f for f in verify(FS, layout, NS_T, deep=True).findings if f.severity == "error"] == []
    assert validate_date(place, "2024-01-01").passed
    assert FS.stat(taken_rows(place)) is None


def test_errors_of_tasks_come_unchanged_and_leave_nothing(spark: SparkSession, tmp_path: Path) -> None:
    layout = empty(tmp_path / "db", SCHEMA)
    frame = spark.createDataFrame(rows_of(range(60)), COLUMNS).drop("More", "Date").repartition(3)
    sparkhaven.merge_frame(frame, layout.root, "NS.T", "2024-01-01")
    with pytest.raises(TableExistsError, match="upsert="):
        sparkhaven.merge_frame(frame.withColumn("Px", F.lit(1.5)), layout.root, "NS.T", "2024-01-01")
    wrong = frame.withColumn("Id", F.when(F.col("Id") == 41, F.lit(-(2**63))).otherwise(F.col("Id")))
    with pytest.raises(SchemaMismatchError, match=r"column Id, row \d+(.|\n)*it is the null of its type"):
        sparkhaven.merge_frame(wrong, layout.root, "NS.T", "2024-01-02")
    (joined,) = sparkhaven.merge_frame(
        frame.where("Id < 10").withColumn("Px", F.lit(9.0)), layout.root, "NS.T", "2024-01-01", upsert=["Id"]
    )
    assert (joined.rows_in, joined.rows_out, joined.left_out) == (70, 60, 10)
    read = sparkhaven.read_frame(spark, layout.root, "NS.T")
    assert read.where("Px = 9.0").count() == 10 + 1  # and that of Id 36
    assert FS.stat(taken_rows(TablePlace(FS, layout, NS_T))) is None
    assert [path.name for path in layout.root.glob("Systems/NS/Partitions/0*/*")] == ["2024-01-01"] * 2
