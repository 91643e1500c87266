"""The files feed in a real Spark: batches of files, in runs, within limits, each once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.source import FilesStream, files_source
from sparkhaven.ingest.spec import Limit
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import PositionGapError, carried_error
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.writers.batch.stream_batches import BatchProgress, FeedTables, StreamPlan
from sparkhaven.writers.spark.stream_query import run_stream_of_tables
from sparkhaven.writers.task import SplitNotes
from tests.support.spark.one_session import shared_session
from tests.support.streams.stream_kit import STREAM, TABLE, numbers, open_log, record, stored, target_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


def _source(spark: SparkSession, stream: FilesStream) -> DataFrame:
    kind = files_source(stream, parts=False)
    spark.dataSource.register(kind)
    return spark.readStream.format(kind.name()).load()


def _put(feed: Path, *numbers: int) -> None:
    feed.mkdir(exist_ok=True)
    for number in numbers:
        (feed / f"{number}").write_bytes(b"x" * 100)
        os.utime(feed / f"{number}", (1_400_000_000 + number,) * 2)


def _run(spark: SparkSession, tmp_path: Path, checkpoint: str) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Names of the files of each batch, and its progress."""
    batches: list[list[str]] = []
    feed = FilesOptions(str(tmp_path / "feed"), max_per_trigger=Limit(files=2))
    source = _source(spark, FilesStream(tmp_path / "db", TableName("A", "B"), "s", feed, 2))

    def take(frame: DataFrame, batch_id: int) -> None:
        batches.append([Path(row.path).name for row in frame.collect()])

    writer = source.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
    query.awaitTermination()
    return batches, [progress.sources[0].latestOffset for progress in query.recentProgress]


def test_files_in_batches_and_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    _put(tmp_path / "feed", 1, 2, 3, 4, 5)
    batches, progress = _run(spark, tmp_path, "one")
    assert batches == [["1", "2"], ["3", "4"], ["5"]]
    assert "waiting_files" in str(progress[0])
    _put(tmp_path / "feed", 6)
    # no commit log has taken the first files here, and an offset tells only those of its own batch
    assert _run(spark, tmp_path, "one")[0] == [["1", "2"], ["3", "4"], ["6"]]


def pid_noted(split: FileId, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
    notes.count(str(os.getpid()), 1)
    notes.source.count(1)
    row = record(split.size)
    columns = {column.name: pa.array([row[column.name]], column.type.arrow) for column in stored()}
    yield LocationKey("a", "2026-11-20"), pa.RecordBatch.from_pydict(columns)


def test_a_batch_of_one_task_runs_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    for number, size in enumerate((1, 2, 6 << 20, (6 << 20) + 1)):
        with (tmp_path / "feed" / str(number)).open("wb") as file:
            file.truncate(size)
        os.utime(tmp_path / "feed" / str(number), (1_400_000_000 + number,) * 2)
    feed = FilesOptions(str(tmp_path / "feed"), max_per_trigger=Limit(files=2))
    source = _source(spark, FilesStream(tmp_path / "db", TABLE, STREAM, feed, 2))
    seen: list[BatchProgress] = []
    with open_log(Fs(), tmp_path / "db") as log:
        plan = StreamPlan("q", {"availableNow": True}, pid_noted, progress=seen.append)
        fed = FeedTables.one(log, target_of(tmp_path / "db", log), plan)
        run_stream_of_tables(spark, source, Fs(), fed, stop=threading.Event())
        assert numbers(tmp_path / "db", log.state) == [1, 2, 6 << 20, (6 << 20) + 1]
    here, workers = (set(map(int, progress.outcome.counts)) for progress in seen)
    assert here == {os.getpid()} and len(workers) == 2 and os.getpid() not in workers
    assert [progress.lag for progress in seen] == [2, 0]


def test_changed_file_stops_the_query_with_our_error(spark: SparkSession, tmp_path: Path) -> None:
    _put(tmp_path / "feed", 1, 2)
    _run(spark, tmp_path, "two")
    (tmp_path / "feed" / "2").write_bytes(b"other")
    with pytest.raises(Exception, match="changed after it was taken") as caught:
        _run(spark, tmp_path, "two")
    assert isinstance(carried_error(str(caught.value)), PositionGapError)
