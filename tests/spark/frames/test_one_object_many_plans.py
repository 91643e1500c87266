"""One stream, one writer, one sink used by several queries; one frame while its table changes. Real Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import sparkhaven
from sparkhaven import errors
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.testing import make_table
from tests.support.streams.stream_logs import open_stream_log

pytestmark = pytest.mark.spark

DAY = "2026-11-20"
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
TO = b"""<Table namespace="NS" name="To" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/></Table>"""


def follow(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return spark.readStream.format("deephaven").option("root", str(root)).options(**options).load("NS.T")


def load(spark: SparkSession, root: Path, name: str = "NS.T", **options: str) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).options(**options).load(name)


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.N for row in frame.select("N").collect())


def stored(root: Path) -> list[int]:
    return sorted(sparkhaven.open_table(root, "NS.To").to_arrow("N")["N"].to_pylist())


def started(frame: DataFrame, place: Path) -> StreamingQuery:
    """A query into Parquet, with a checkpoint of its own."""
    writing = frame.writeStream.format("parquet").option("checkpointLocation", str(place / "checkpoint"))
    return writing.trigger(availableNow=True).start(str(place / "rows"))


def followed(spark: SparkSession, frame: DataFrame, place: Path) -> list[int]:
    started(frame, place).awaitTermination(120)
    return numbers(spark.read.parquet(str(place / "rows")))


def test_queries_of_one_stream_get_every_row_each(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "db"
    for n in range(3):
        make_table(root, "NS.T", {"N": [2 * n, 2 * n + 1]})
    frame = follow(spark, root, maxEpochsPerTrigger="2")
    assert followed(spark, frame.where("N > 3"), tmp_path / "part") == [4, 5]
    assert followed(spark, frame, tmp_path / "all") == [*range(6)]
    make_table(root, "NS.T", {"N": [6, 7]}, date="2026-11-21")
    assert followed(spark, frame.where("N > 3"), tmp_path / "part") == [4, 5, 6, 7]  # goes on at its checkpoint
    side_by_side = [started(frame.where(text), tmp_path / text) for text in ("N < 2", "N >= 0", "N = 7")]
    for query in side_by_side:
        query.awaitTermination(120)
    found = [numbers(spark.read.parquet(str(tmp_path / text / "rows"))) for text in ("N < 2", "N >= 0", "N = 7")]
    assert found == [[0, 1], [*range(8)], [7]]
    assert followed(spark, frame.union(frame.where("N > 5")), tmp_path / "union") == [*range(6), 6, 6, 7, 7]
    assert followed(spark, frame, tmp_path / "all") == [*range(8)]


def test_a_frame_is_its_snapshot_or_an_error_while_its_table_changes(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path, "NS.T", {"N": [1, 2, 3]}, date=DAY)
    first = sparkhaven.read_frame(spark, tmp_path, "NS.T", columns=["N"])
    given = spark.read.schema(first.schema).format("deephaven").option("root", str(tmp_path)).option("columns", "N")
    make_table(tmp_path, "NS.T", {"N": [4]}, date=DAY)
    second = load(spark, tmp_path).select("N")
    typed = given.load("NS.T")
    assert (numbers(typed), numbers(second), numbers(first)) == ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3])
    both = first.groupBy("N").count().join(second.groupBy("N").count(), "N", "right")  # two snapshots in one query
    assert both.count() == 4 and second.exceptAll(first).count() == 1 and first.union(second).count() == 7
    parts = [load(spark, tmp_path, where=text).groupBy("N").count() for text in ("N < 3", "N > 3")]
    assert numbers(parts[0].union(parts[1])) == [1, 2, 4]
    second.cache()
    assert second.count() == 4
    make_table(tmp_path, "NS.T", {"N": [5]}, date=DAY)
    assert (second.count(), second.where("N > 3").count(), numbers(typed)) == (4, 1, [1, 2, 3, 4])
    third = load(spark, tmp_path).select("N")
    assert (numbers(third), numbers(first)) == ([*range(1, 6)], [1, 2, 3])  # no frame takes what another one cached
    with open_stream_log(StreamPlace(Fs(), Layout(tmp_path), TableName("NS", "T"), "test"), None) as log:
        log.rollback(1)
    assert (numbers(first), numbers(load(spark, tmp_path))) == ([1, 2, 3], [1, 2, 3])
    for _ in range(2):
        with pytest.raises(Exception) as caught:
            third.collect()
        assert isinstance(errors.from_spark(caught.value), errors.SnapshotMovedError)
        assert numbers(first) == [1, 2, 3]
    second.unpersist()


def test_one_writer_for_two_queries(spark: SparkSession, tmp_path: Path) -> None:
    root, rule = tmp_path / "db", {"internal": {"fixed": "a"}, "value": {"fixed": DAY}, "schema": TO}
    make_table(root, "NS.T", {"N": [0, 1]})
    frame = follow(spark, root)

    def run(frame: DataFrame, writer: Any, name: str) -> None:
        writing = frame.writeStream.foreachBatch(writer).trigger(availableNow=True)
        writing.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination(120)

    with sparkhaven.deephaven_writer(root, "NS.To", "plain", ignore=["Date"], **rule) as writer:
        run(frame, writer, "one")
        with pytest.raises(Exception) as caught:
            run(frame, writer, "two")
        found = errors.from_spark(caught.value)
        assert isinstance(found, errors.PositionGapError) and "another query has written this stream" in found.what
        make_table(root, "NS.T", {"N": [2]})
        run(frame, writer, "one")
        assert (stored(root), writer.epoch) == ([0, 1, 2], 2)

    # with positions: each query has topics of its own, and rows of one position come once
    def placed(topic: str, first: int) -> DataFrame:
        return frame.selectExpr(f"N + {first} N", f"'{topic}' topic", "0 part", "N off")

    options: dict[str, Any] = {**rule, "internal": {"fixed": "b"}}
    positions = {"topic": "topic", "partition": "part", "offset": "off"}
    with sparkhaven.deephaven_writer(root, "NS.To", "placed", positions=positions, **options) as writer:
        for name, rows in (("x", placed("x", 100)), ("y", placed("y", 200)), ("x again", placed("x", 100))):
            run(rows, writer, name)
        make_table(root, "NS.T", {"N": [3]})
        for name, rows in (("y", placed("y", 200)), ("x", placed("x", 100))):
            run(rows, writer, name)
    assert stored(root) == [0, 1, 2, *range(100, 104), *range(200, 204)]


def test_one_sink_of_two_queries(spark: SparkSession, tmp_path: Path) -> None:
    root, schema = tmp_path / "db", tmp_path / "to.schema"
    schema.write_bytes(TO)
    make_table(root, "NS.T", {"N": [0, 1]})
    given = {"root": str(root), "schema": str(schema), "internal": '{"fixed": "a"}', "value": f'{{"fixed": "{DAY}"}}'}
    writing = follow(spark, root).writeStream.format("deephaven").options(**given, stream="s", ignore="Date")
    writing = writing.trigger(availableNow=True)
    first, second = (writing.option("checkpointLocation", str(tmp_path / name)) for name in ("a", "a"))
    first.start("NS.To").awaitTermination(120)
    second.start("NS.To").awaitTermination(120)  # the same query again: nothing new
    assert stored(root) == [0, 1]
    with pytest.raises(Exception) as caught:
        writing.option("checkpointLocation", str(tmp_path / "b")).start("NS.To").awaitTermination(120)
    found = errors.from_spark(caught.value)
    assert isinstance(found, errors.PositionGapError) and "another query has written this stream" in found.what
    make_table(root, "NS.T", {"N": [2]})
    writing.option("checkpointLocation", str(tmp_path / "a")).start("NS.To").awaitTermination(120)
    assert stored(root) == [0, 1, 2]
