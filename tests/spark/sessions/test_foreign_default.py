"""Spark's default file system is another one than the local disk, as on clusters with HDFS; viewfs stands in for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import to_timestamp

from sparkhaven.jobs.dataframes.frame_writer import deephaven_writer, write_frame
from sparkhaven.jobs.dataframes.frames import register
from sparkhaven.jobs.session.spark_session import build_session, end_jvm
from sparkhaven.readers import open_table
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.testing import make_table
from sparkhaven.writers.spark.stream_query import stream_conf
from tests.support.spark.delta_cases import places, quarantine
from tests.support.spark.delta_conf import delta_conf
from tests.support.spark.feed_source import FeedSource
from tests.support.spark.one_session import end_shared_session
from tests.support.spark.stream_job import run
from tests.support.streams.stream_kit import STREAM, TABLE, numbers, open_log, place_in, put_file, record
from tests.support.writers.quarantine_cases import bad, take

pytestmark = pytest.mark.spark
FS = Fs()


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a path without a scheme ends up."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def spark(elsewhere: Path) -> Iterator[SparkSession]:
    foreign = {
        "spark.hadoop.fs.defaultFS": "viewfs://cluster/",
        "spark.hadoop.fs.viewfs.mounttable.cluster.linkMergeSlash": f"file://{elsewhere}",
    }
    end_shared_session()
    spark = build_session("foreign-default", workers=2, extra=stream_conf() | delta_conf(FS) | foreign)
    spark.dataSource.register(FeedSource)
    yield spark
    spark.stop()
    end_jvm()  # which would keep the settings of Hadoop


def test_the_default_file_system_is_the_other_one(spark: SparkSession, elsewhere: Path, tmp_path: Path) -> None:
    hadoop = spark._jvm.org.apache.hadoop.fs
    default = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    assert default.mkdirs(hadoop.Path(f"{tmp_path}/probe"))
    assert not (tmp_path / "probe").exists() and [*elsewhere.rglob("probe")] != []


def test_a_stream_that_is_rolled_back_takes_everything_again(
    spark: SparkSession, elsewhere: Path, tmp_path: Path
) -> None:
    """A checkpoint that is left elsewhere would hold what was rolled back for done."""
    feed, root = tmp_path / "feed", tmp_path / "the root"
    root.mkdir()
    for number in range(4):
        put_file(feed, str(number), [record(n) for n in range(10 * number, 10 * number + 10)], number + 1)
    run(spark, feed, root, per_batch=1)
    checkpoint = Layout(root).spark_checkpoint(TABLE, STREAM)
    assert sorted(path.name for path in (checkpoint / "commits").iterdir() if path.name.isdigit()) == [*"0123"]
    with open_log(FS, root) as log:
        log.rollback(2)
    run(spark, feed, root, per_batch=1)
    assert numbers(root, load_stream(place_in(root, FS))) == [*range(40)]
    assert [*elsewhere.rglob(tmp_path.name)] == []


def test_rejected_rows_are_parked_and_found_on_the_local_disk(
    spark: SparkSession, elsewhere: Path, tmp_path: Path
) -> None:
    root = tmp_path / "a b[1]{2}%20"
    root.mkdir()
    quarantined = quarantine(root)
    one = put_file(tmp_path / "feed", "1", [record(0), bad(1)], 1)
    with open_log(FS, root) as log:
        take(FS, root, log, [[one]], quarantined.add)
    assert places(quarantined) == [("1", 2, 1, None)]
    assert (Layout(root).quarantine(STREAM) / "_delta_log").is_dir()
    assert [*elsewhere.rglob(tmp_path.name)] == []


def test_a_default_file_system_that_does_not_answer_is_never_asked(spark: SparkSession, tmp_path: Path) -> None:
    """Of a table that is followed into another one, of a frame, and of a read."""
    first, second = tmp_path / "first", tmp_path / "second"
    make_table(first, "NS.T", {"N": [*range(10)]})
    other = spark.newSession()
    other.conf.set("fs.defaultFS", "hdfs://127.0.0.1:1/")
    other.conf.set("ipc.client.connect.max.retries", "0")
    hadoop = spark._jvm.org.apache.hadoop.fs
    with pytest.raises(Exception, match="ConnectException"):
        hadoop.FileSystem.get(other._jsparkSession.sessionState().newHadoopConf()).exists(hadoop.Path("/"))
    register(other)
    schema = Layout(first).schema(TableName.parse("NS.T"))
    route: dict[str, Any] = {"internal": {"fixed": "a"}, "value": "Date", "bounds": {"max_past": "36500 d"}}
    writer = deephaven_writer(second, "NS.T", "copy", schema=schema, **route)
    frame = other.readStream.format("deephaven").option("root", str(first)).load("NS.T")
    frame = frame.withColumn("Date", to_timestamp("Date"))
    with writer:
        query = frame.writeStream.foreachBatch(writer).trigger(availableNow=True)
        query.option("checkpointLocation", f"file:{tmp_path}/checkpoint").start().awaitTermination()
    copied = other.read.format("deephaven").option("root", str(second)).load("NS.T")
    copied = copied.withColumn("Date", to_timestamp("Date"))
    for name, rows, expected in (("third", copied.where("N > 6"), range(7, 10)), ("fourth", copied, range(10))):
        write_frame(rows, tmp_path / name, "NS.T", "copy", schema=schema, **route)
        assert sorted(open_table(tmp_path / name, "NS.T").to_arrow()["N"].to_pylist()) == [*expected]
