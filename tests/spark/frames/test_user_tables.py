"""User tables written and read by ``format("deephaven")``. Real Spark."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkhaven import open_table, read_frame, register, save_table
from sparkhaven.store.layout import USER_INTRADAY
from sparkhaven.testing import assert_table_equal
from tests.contracts.readers.user_intraday import UserIntradayContract
from tests.support.tables.user_intraday import NAME

pytestmark = pytest.mark.spark
COLUMNS = "N bigint, Name string, On date, Px decimal(10,2), Legs array<double>, Raw binary, Flag boolean"


def rows_of(numbers: range) -> list[tuple[Any, ...]]:
    return [
        (
            n,
            None if n % 5 == 0 else f"name{n % 7}",
            date(2024, 1, 1 + n % 3),
            Decimal(n) / 4,
            [n / 2, None],
            b"x" * n,
            None,
        )
        for n in numbers
    ]


def save(frame: DataFrame, base: Path, mode: str, **options: str) -> None:
    frame.write.format("deephaven").option("user", "me.T").options(**options).mode(mode).save(str(base))


def test_frames_with_timestamps_are_saved(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    frame = spark.sql("select id as N, timestamp_micros(id) as At from range(3)")
    save(frame, tmp_path, "append")
    assert numbers(tmp_path) == [0, 1, 2]
    assert open_table(tmp_path, "me.T").to_arrow("At")["At"].cast("int64").to_pylist() == [0, 1000, 2000]


def numbers(root: Path) -> list[int]:
    return sorted(open_table(root, "me.T").to_arrow("N")["N"].to_pylist())


@pytest.mark.parametrize("by", [{}, {"partitionBy": "On"}], ids=["splayed", "partitioned"])
def test_frames_replace_and_append_as_a_whole(spark: SparkSession, tmp_path: Path, by: dict[str, str]) -> None:
    register(spark)
    frame = spark.createDataFrame(rows_of(range(40)), COLUMNS).repartition(3)
    save(frame, tmp_path, "append", **by)
    save(spark.createDataFrame(rows_of(range(40, 50)), COLUMNS), tmp_path, "append", **by)
    assert numbers(tmp_path) == [*range(50)]
    back = read_frame(spark, tmp_path, "me.T")
    days = rows_of(range(50))
    if by:
        days = [(*row[:2], str(row[2]), *row[3:]) for row in days]
    kinds = COLUMNS.replace("On date", "On string") if by else COLUMNS
    assert_table_equal(spark, tmp_path, "me.T", spark.createDataFrame(days, kinds))
    assert back.where(F.col("N") < 3).count() == 3
    save(spark.createDataFrame(rows_of(range(60, 63)), COLUMNS), tmp_path, "overwrite", **by)
    assert numbers(tmp_path) == [60, 61, 62]
    assert back.count() == 50  # it was loaded before
    assert not list((tmp_path / ".scratch/me.T").iterdir())


def test_a_frame_of_the_table_itself_can_replace_it(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    save(spark.createDataFrame(rows_of(range(20)), COLUMNS), tmp_path, "overwrite")
    even = read_frame(spark, tmp_path, "me.T").where("N % 2 = 0")
    save(even, tmp_path, "overwrite")
    assert numbers(tmp_path) == [*range(0, 20, 2)]


def test_a_task_that_fails_leaves_the_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    save(spark.createDataFrame(rows_of(range(5)), COLUMNS), tmp_path, "overwrite")
    broken = spark.range(0, 100, 1, 4).select(
        F.expr("if(id = 77, raise_error('broken'), id)").cast("bigint").alias("N")
    )
    with pytest.raises(PySparkException, match="broken"):
        save(broken, tmp_path, "overwrite")
    assert numbers(tmp_path) == [*range(5)]
    assert not list((tmp_path / ".scratch/me.T").iterdir())


def test_a_frame_without_rows_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    save(spark.createDataFrame([], COLUMNS), tmp_path, "overwrite")
    assert numbers(tmp_path) == []
    save(spark.createDataFrame(rows_of(range(2)), COLUMNS), tmp_path, "append")
    assert numbers(tmp_path) == [0, 1]


def test_a_frame_is_taken_by_save_table(spark: SparkSession, tmp_path: Path) -> None:
    assert save_table(tmp_path, "me.T", spark.createDataFrame(rows_of(range(4)), COLUMNS)).rows == 4
    assert numbers(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": "me"}, "has no namespace"),
        ({"user": "me.../x"}, "cannot become a path"),
        ({"stream": "s"}, "unknown option"),
        ({"root": "/elsewhere"}, "two database roots"),
        ({"partitionBy": "Nope"}, "lack the column"),
    ],
)
def test_wrong_options_are_named(spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str) -> None:
    register(spark)
    with pytest.raises(PySparkException, match=message):
        save(spark.createDataFrame(rows_of(range(2)), COLUMNS), tmp_path, "overwrite", **options)
    assert not (tmp_path / "Users/me/Tables").exists()


def test_a_time_without_zone_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    frame = spark.sql("select 1 as N, timestamp_ntz'2024-01-01 00:00:00' as At")
    with pytest.raises(PySparkException, match="column At"):
        save(frame, tmp_path, "overwrite")


class TestSparkIntraday(UserIntradayContract):
    @pytest.fixture(autouse=True)
    def _registered(self, spark: SparkSession) -> None:
        register(spark)
        self.spark = spark

    def numbers(self, root: Path) -> list[int]:
        """The option names the directory, since Spark has the environment of its start."""
        options = {"root": str(root)} | ({"userIntraday": NAME} if os.environ.get(USER_INTRADAY) else {})
        frame = self.spark.read.format("deephaven").options(**options).load("me.T")
        return sorted(row.N for row in frame.select("N").collect())
