"""A snapshot and a mirror are written by no query and no frame. Real Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.testing import make_table
from tests.support.commands import run
from tests.support.disks.contents import contents

pytestmark = pytest.mark.spark
NAME, DAY = "New.One", "2026-01-01"
ROUTE = {"internal": {"fixed": "a"}, "value": {"fixed": DAY}}


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id AS A")


def stream(spark: SparkSession, base: Path) -> DataFrame:
    (base / "feed").mkdir(exist_ok=True)
    (base / "feed" / "1.json").write_text('{"A": 1}\n')
    return spark.readStream.schema("A bigint").json(str(base / "feed"))


def write(spark: SparkSession, root: Path, _: Path) -> None:
    options = {"root": str(root), "stream": "s", "internal": '{"fixed": "a"}', "value": f'{{"fixed": "{DAY}"}}'}
    rows(spark).write.format("deephaven").mode("append").options(**options).save(NAME)


def write_stream(spark: SparkSession, root: Path, base: Path) -> None:
    options = {"root": str(root), "stream": "s", "internal": '{"fixed": "a"}', "value": f'{{"fixed": "{DAY}"}}'}
    query = stream(spark, base).writeStream.format("deephaven").options(**options).trigger(availableNow=True)
    query.option("checkpointLocation", str(base / "checkpoint")).start(NAME).awaitTermination()


def write_each_batch(spark: SparkSession, root: Path, base: Path) -> None:
    with sparkhaven.deephaven_writer(root, NAME, "s", **ROUTE) as writer:
        query = stream(spark, base).writeStream.foreachBatch(writer).trigger(availableNow=True)
        query.option("checkpointLocation", str(base / "other")).start().awaitTermination()


def write_user_table(spark: SparkSession, root: Path, _: Path) -> None:
    rows(spark).write.format("deephaven").option("user", "My.Own").mode("append").save(str(root))


WAYS: list[Callable[[SparkSession, Path, Path], object]] = [
    write,
    write_stream,
    write_each_batch,
    write_user_table,
    lambda spark, root, _: sparkhaven.write_frame(rows(spark), root, NAME, "s", **ROUTE),
    lambda spark, root, _: sparkhaven.merge_frame(rows(spark), root, NAME, dates=DAY),
    lambda spark, root, _: sparkhaven.merge_frame(pa.table({"A": [1]}), root, NAME, dates=DAY, dry_run=True),
    lambda spark, root, _: sparkhaven.save_table(root, "My.Own", rows(spark)),
    lambda spark, root, _: make_table(root, NAME, rows(spark)),
]


@pytest.mark.parametrize("kind", ["snapshot", "mirror"])
def test_no_way_of_spark_writes_a_copy(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    sparkhaven.register(spark)
    db, copy = tmp_path / "db", tmp_path / kind
    make_table(db, NAME, {"A": [9]}, date=DAY)
    assert run(db, "partitions", "add", "New", "0").exit_code == 0
    sparkhaven.save_table(db, "My.Own", pa.table({"A": [1]}))
    assert run(db, *(("snapshot", "--out", copy) if kind == "snapshot" else ("mirror", db, copy))).exit_code == 0
    before = contents(copy.resolve())
    for way in WAYS:
        with pytest.raises((SparkhavenError, PySparkException), match=f"the root is a {kind}, which is not written"):
            way(spark, copy, tmp_path)
        assert contents(copy.resolve()) == before
    assert run(copy, "verify", "--deep").exit_code == 0
