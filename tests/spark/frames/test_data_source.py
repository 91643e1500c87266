"""``spark.read`` and ``spark.readStream`` of tables, compared with ``open_table`` and a naive reader. Real Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chispa import DataFramesNotEqualError
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, TimestampType

import sparkhaven
from sparkhaven.store.io.fs import Fs
from sparkhaven.testing import assert_table_equal, make_table

pytestmark = pytest.mark.spark

DAY, NEXT = "2026-11-20", "2026-11-21"
SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Flag" dataType="Boolean"/><Column name="B" dataType="byte"/><Column name="C" dataType="char"/>
  <Column name="S" dataType="short"/><Column name="I" dataType="int"/><Column name="L" dataType="long"/>
  <Column name="F" dataType="float"/><Column name="D" dataType="double"/><Column name="At" dataType="Instant"/>
  <Column name="Sym" dataType="String"/><Column name="Note" dataType="String" symbolTable="None"/>
</Table>
"""
ROWS: dict[str, list[Any]] = {
    "Flag": [True, False, None, True],
    "B": [1, -127, None, 127],
    "C": [65, 0x20AC, None, 0],
    "S": [-3, 32767, None, 0],
    "I": [2**31 - 1, -5, None, 0],
    "L": [2**62, -(2**62), None, 0],
    "F": [1.5, float("nan"), None, -0.0],
    "D": [float("inf"), -1e-300, None, float("nan")],
    "At": [datetime(2026, 11, 20, 1, 2, 3, 456789, UTC), datetime(1969, 12, 31, 23, 59, 59, 1, UTC), None, None],
    "Sym": ["a", "", None, "é😀"],
    "Note": ["line\nline", "", None, "x" * 300],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("tables") / "db"
    make_table(where, "NS.T", ROWS, schema=SCHEMA, date=DAY)
    make_table(where, "NS.T", ROWS, date=NEXT, source="1")
    return where


def load(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).options(**options).load("NS.T")


def test_a_table_equals_the_frame_that_it_was_made_of(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    frame = load(spark, root, dates=DAY).drop("C")
    make_table(tmp_path / "db", "NS.Copy", frame)
    assert_table_equal(spark, tmp_path / "db", "NS.Copy", frame)
    with pytest.raises(DataFramesNotEqualError):
        assert_table_equal(spark, tmp_path / "db", "NS.Copy", frame.where("I != 0 or I is null"))


def test_filters_of_queries_are_sparks_and_those_of_options_skip_dates(spark: SparkSession, root: Path) -> None:
    frame = load(spark, root)
    some = frame.where((f.col("Date") == NEXT) & (f.col("I") > -10) & f.col("Note").contains("line"))
    assert [row.I for row in some.select("I").collect()] == [2**31 - 1]
    assert frame.where(f.col("Date") == "2020-01-01").count() == 0
    assert frame.where("At > timestamp'2026-11-20 00:00:00Z'").count() == 2
    assert (frame.count(), frame.rdd.count()) == (8, 8)
    one = load(spark, root, where=f"Date = '{NEXT}' AND I > -10")
    assert (one.where("I > 0").count(), one.count()) == (1, 3)


def test_a_frame_keeps_its_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path, "NS.T", {"N": [1, 2]})
    frame = sparkhaven.read_frame(spark, tmp_path, "NS.T", columns=["N"])
    make_table(tmp_path, "NS.T", {"N": [3]})
    both = frame.join(frame.withColumnRenamed("N", "M"), f.col("N") == f.col("M"))
    assert (frame.count(), both.count()) == (2, 2)
    assert sparkhaven.read_frame(spark, tmp_path, "NS.T", epoch=1).count() == 2
    assert sparkhaven.read_frame(spark, tmp_path, "NS.T", epoch={"test": 2}, where="N > 1").count() == 2


def test_nanoseconds_are_refused_when_the_query_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1_700_000_000_000_000_001, "a")], "At bigint, Sym string")
    schema = SCHEMA.decode().split('<Column name="Flag"')[0] + '<Column name="At" dataType="Instant"/>'
    schema += '<Column name="Sym" dataType="String"/></Table>'
    options = {"internal": {"fixed": "0"}, "value": {"fixed": DAY}, "schema": schema.encode()}
    sparkhaven.write_frame(frame, tmp_path, "NS.T", "s", **options)
    with pytest.raises((AnalysisException, PythonException)) as caught:
        load(spark, tmp_path).collect()
    assert "instant=timestamp-truncate" in str(caught.value) and "nanoseconds" in str(caught.value)
    exact = load(spark, tmp_path, instant="long")
    assert (exact.schema["At"].dataType, exact.schema["At"].metadata) == (
        LongType(),
        {"deephaven.type": "Instant", "deephaven.unit": "ns"},
    )
    assert exact.first()["At"] == 1_700_000_000_000_000_001
    assert load(spark, tmp_path, instant="timestamp-truncate").schema["At"].dataType == TimestampType()


def test_errors_name_what_to_do(spark: SparkSession, root: Path) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, root, tiers="all")
    assert "did you mean 'tier'?" in str(caught.value)
    with pytest.raises(AnalysisException, match=r"NS\.Nothing"):
        spark.read.format("deephaven").option("root", str(root)).load("NS.Nothing")


def test_a_stream_of_a_table_goes_into_another_table_once(spark: SparkSession, tmp_path: Path) -> None:
    root, checkpoint = tmp_path / "db", tmp_path / "checkpoint"
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    make_table(root, "NS.From", {"N": [1, 2], "At": [at, at]})
    schema = SCHEMA.decode().replace('name="T"', 'name="To"').split('<Column name="Flag"')[0]
    schema += '<Column name="N" dataType="long"/><Column name="At" dataType="Instant"/></Table>'
    rule = {"internal": {"fixed": "0"}, "value": {"column": "At", "zone": "UTC"}, "ignore": ["Date"]}
    bounds = {"clock": "2026-11-22T00:00:00Z"}

    def run() -> dict[str, Any]:
        source = spark.readStream.format("deephaven").option("root", str(root)).option("maxEpochsPerTrigger", "1")
        options: dict[str, Any] = {"schema": schema.encode(), "bounds": bounds, **rule}
        with sparkhaven.deephaven_writer(root, "NS.To", "copy", **options) as writer:
            started = source.load("NS.From").writeStream.foreachBatch(writer)
            query = started.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
            query.awaitTermination()
        return dict(query.lastProgress or {})

    run()
    for number in (3, 4):
        make_table(root, "NS.From", {"N": [number], "At": [at]}, date=NEXT)
    progress = run()
    assert progress["sources"][0]["endOffset"] == '{"test": 3}'
    assert sorted(sparkhaven.open_table(root, "NS.To").to_arrow("N")["N"].to_pylist()) == [1, 2, 3, 4]
    last = max((checkpoint / "commits").glob("[0-9]"), key=lambda path: path.name)
    Fs().unlink(last)  # as if Spark had died before it wrote this: it sends the batch again
    run()
    assert sorted(sparkhaven.open_table(root, "NS.To").to_arrow("N")["N"].to_pylist()) == [1, 2, 3, 4]
    assert sparkhaven.open_table(root, "NS.To").epochs == {"copy": 3}


def test_a_stream_that_is_too_late_says_so(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path, "NS.T", {"N": [1]})
    source = spark.readStream.format("deephaven").option("root", str(tmp_path)).option("start", '{"test": 9}')
    query = source.load("NS.T").writeStream.format("memory").queryName("late").trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    assert "not in its log" in str(caught.value)


def test_spark_finds_the_format_by_itself(spark: SparkSession, root: Path) -> None:
    frame = spark.newSession().read.format("deephaven").option("root", str(root)).load("NS.T")
    assert (frame.where(f.col("Date") == NEXT).count(), frame.count()) == (4, 8)
