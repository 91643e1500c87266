"""Spark passes the suite of executors; a merge by its Python workers gives the bytes of one that runs here."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparkhaven
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import Executor, LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.spark.workers import SparkExecutor
from tests.contracts.executors import ExecutorContract
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, history_bytes, make, merge
from tests.support.writers.rewrite_runs import rewrite

pytestmark = pytest.mark.spark
DAYS = [DAY, "2024-03-06", "2024-03-07"]


def run(root: Path, executor: Executor, memory: int) -> dict[str, bytes]:
    rng = random.Random(1)
    rows = [random_row(rng) for _ in range(20_000)]
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): as_table(rows[:9000]), ("b", DAY): as_table(rows[9000:])})
    db.commit({("a", day): as_table(rows[:50]) for day in DAYS[1:]})
    for name in ("0", "1"):
        add_partition(FS, db.layout, "Test", name)
    options = MergeOptions(sort=(SortKey("D"),), memory=memory, workers=2, parallel_rows=2000)  # the first day is cut
    found = list(
        merge_dates(TablePlace(db.fs, db.layout, TABLE), DAYS, options, executor=executor, clock=lambda: 1.7e9)
    )
    assert [result.error for result in found] == [None] * 3
    assert {result.value: result.rows_out for result in found} == {DAY: 20_000, DAYS[1]: 50, DAYS[2]: 50}
    for day in DAYS:
        record = newest(db.place, day)
        assert record is not None
        assert record.phase == "clean"
    return history_bytes(db.layout)


class TestSparkExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, spark: SparkSession, tmp_path: Path) -> Executor:
        marker = tmp_path.parent / "marker"
        marker.touch()
        return SparkExecutor(spark.sparkContext, tmp_path.parent, marker)


def test_tasks_in_spark_write_the_same_bytes(tmp_path: Path, spark: SparkSession) -> None:
    here = run(tmp_path / "here", LocalExecutor(), 1 << 30)
    marker = tmp_path / "marker"  # which workers must see
    marker.write_bytes(b"here")
    there = run(tmp_path / "there", SparkExecutor(spark.sparkContext, tmp_path, marker), 1)
    assert here
    assert there == here


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_columns_rewritten_in_spark_are_the_same_bytes_and_read_by_it(
    tmp_path: Path, spark: SparkSession, form: str
) -> None:
    changes = {
        "Sym": "CASE WHEN Flag THEN 'moved' ELSE Sym END",
        "L": "coalesce(S, 0) * 1000",
        "Note": "coalesce(Note, 'none')",
    }
    written = []
    for name in ("here", "there"):
        root = tmp_path / name
        db, rows = make(root, 4000)
        merge(db.layout, format=form)
        marker = tmp_path / "marker"
        marker.write_bytes(b"here")
        executor = SparkExecutor(spark.sparkContext, tmp_path, marker) if name == "there" else LocalExecutor()
        done = rewrite(db.layout, changes, executor=executor, workers=2, parallel_rows=500)
        assert (done.outcome, done.rows_out, done.pieces) == ("rewritten", 4000, 2)
        written.append(history_bytes(db.layout))
    assert written[0] == written[1]
    sparkhaven.register(spark)
    frame = (
        spark.read.format("deephaven")
        .options(root=str(tmp_path / "there"), instant="long", char="int")
        .load("Test.Every")
    )
    (found,) = frame.selectExpr("sum(L)", "count_if(Sym = 'moved')", "count_if(Note is null)").collect()
    moved = sum(row["Flag"] is True for row in rows)
    assert tuple(found) == (sum((row["S"] or 0) * 1000 for row in rows), moved, 0)
