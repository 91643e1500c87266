"""A real streaming query: exactly once over restarts with whatever Spark remembers, errors with class and text."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import CommitError, ErrorBudgetExceeded, FeedError, LockLostError, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.writers.batch.stream_batches import BatchProgress
from sparkhaven.writers.spark.stream_query import Batches
from sparkhaven.writers.task import SplitNotes
from tests.support.processes import wait_until
from tests.support.spark.stream_job import run
from tests.support.streams.stream_kit import STREAM, TABLE, decode, numbers, open_log, place_in, put_file, record
from tests.support.witness.damage import permissions_hold

pytestmark = pytest.mark.spark


def put(feed: Path, first: int, count: int) -> None:
    """Files of ten rows, in two locations."""
    for number in range(first, first + count):
        rows = [record(number * 10 + i, "ab"[i % 2]) for i in range(10)]
        put_file(feed, f"{number:03}", rows, number + 1)


def committed(root: Path) -> list[int]:
    return numbers(root, load_stream(place_in(root, Fs())))


def spoil(checkpoint: Path, damage: str, older: Path, foreign: Path) -> None:
    """Does ``damage`` to the checkpoint of a query."""
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert files
    match damage:
        case "deleted" | "emptied" | "older" | "foreign and newer":
            shutil.rmtree(checkpoint)
            if damage == "emptied":
                checkpoint.mkdir()
            elif damage != "deleted":
                shutil.copytree(older if damage == "older" else foreign, checkpoint)
        case "unreadable":
            for path in files:
                path.chmod(0)
        case _:
            for path in files:
                data = path.read_bytes()
                flipped = bytes([data[0] ^ 1]) + data[1:] if data else b""
                path.write_bytes({"cut short": data[: len(data) // 2], "a bit flipped": flipped, "torn": b""}[damage])


def test_each_file_once_whatever_happened_to_the_spark_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    checkpoint = Layout(root).spark_checkpoint(TABLE, STREAM)
    seen: list[BatchProgress] = []
    put(feed, 0, 5)
    totals = run(spark, feed, root, progress=seen.append)
    assert (totals.rows, totals.epochs, totals.epoch, totals.splits) == (50, 3, 3, 5)
    assert [progress.outcome.rows for progress in seen] == [20, 20, 10]
    older, foreign = tmp_path / "older", tmp_path / "foreign"
    shutil.copytree(checkpoint, older)
    put(tmp_path / "other feed", 0, 9)
    (tmp_path / "other").mkdir()
    run(spark, tmp_path / "other feed", tmp_path / "other")
    shutil.copytree(Layout(tmp_path / "other").spark_checkpoint(TABLE, STREAM), foreign)

    put(feed, 5, 2)
    assert run(spark, feed, root).rows == 20
    damages = ("deleted", "emptied", "older", "foreign and newer", "cut short", "a bit flipped", "torn", "unreadable")
    for number, damage in enumerate(damages):
        spoil(checkpoint, damage, older, foreign)
        put(feed, 7 + number, 1)
        if damage == "unreadable":
            with permissions_hold(), pytest.raises(PermissionError, match="offsets"):
                run(spark, feed, root)
            for path in (path for path in checkpoint.rglob("*") if path.is_file()):
                path.chmod(0o644)
        totals = run(spark, feed, root)
        assert (damage, totals.rows, totals.replayed) == (damage, 10, 0)
    assert committed(root) == [*range(150)]


def test_runs_of_one_batch_each_keep_the_log_short(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    floors = []
    for number in range(4):
        put(feed, number, 1)
        run(spark, feed, root, settings={"keep_epochs": 1, "compact_bytes": 1, "slice_work": 1})
        floors.append(load_stream(place_in(root, Fs())).floor)
    assert floors == [0, 1, 2, 3]


def test_errors_of_tasks_driver_and_source_keep_class_and_text(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    put(feed, 0, 1)
    run(spark, feed, root)
    bad = put_file(feed, "bad", [{**record(1), "N": None}], 50)
    with pytest.raises(ErrorBudgetExceeded, match="the batch has 1 bad row") as caught:
        run(spark, feed, root)
    assert "bad:1 N is missing" in str(caught.value)
    Path(bad.path).unlink()
    put_file(feed, "000", [record(1)], 1)
    with pytest.raises(PositionGapError, match="changed after it was taken"):
        run(spark, feed, root)
    shutil.rmtree(feed)
    with pytest.raises(FeedError, match="directory is gone") as gone:
        run(spark, feed, root)
    assert gone.value.where == str(feed)
    assert committed(root) == [*range(10)]


def dies(split: FileId, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
    yield from decode(split, notes)
    if split.path.endswith(("001", "002")):
        os._exit(9)
    raise ZeroDivisionError("a fault of the decoder")


@pytest.mark.parametrize(("first", "reported"), [(1, "Python worker exited"), (3, "ZeroDivisionError: a fault")])
def test_a_worker_that_dies_or_errs_commits_nothing(
    spark: SparkSession, tmp_path: Path, first: int, reported: str
) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    put(feed, first, 2)  # two tasks, so that neither runs in the driver
    with pytest.raises(CommitError, match="could not run the tasks") as caught:
        run(spark, feed, root, decode=dies)
    assert reported in str(caught.value)
    assert committed(root) == []
    assert run(spark, feed, root).rows == 20


def test_a_lost_log_is_not_taken_for_a_new_stream(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    put(feed, 0, 1)
    run(spark, feed, root)
    shutil.rmtree(Layout(root).intraday(TABLE))
    with pytest.raises(PositionGapError, match="commit log is empty"):
        run(spark, feed, root)
    shutil.rmtree(Layout(root).spark_checkpoint(TABLE, STREAM))  # as the message says
    assert run(spark, feed, root).rows == 10


def test_a_stop_ends_after_the_batch_and_the_next_start_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    put(feed, 0, 12)
    stop = threading.Event()
    totals = run(spark, feed, root, stop=stop, trigger={"processingTime": "0 seconds"}, progress=lambda _: stop.set())
    assert 20 <= totals.rows < 120
    assert len(committed(root)) == totals.rows
    run(spark, feed, root, per_batch=20)
    assert committed(root) == [*range(120)]


def test_a_batch_that_begins_while_the_stream_ends_is_refused_and_no_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, root, close = tmp_path / "feed", tmp_path / "db", Batches.close
    root.mkdir()
    put(feed, 0, 12)
    stop = threading.Event()

    def close_late(batches: Batches) -> None:
        close(batches)
        wait_until(lambda: batches.refused, 120, lambda: "no batch has begun", every=0.01)

    monkeypatch.setattr(Batches, "close", close_late)
    totals = run(spark, feed, root, stop=stop, trigger={"processingTime": "0 seconds"}, progress=lambda _: stop.set())
    assert len(committed(root)) == totals.rows < 120


def test_a_start_with_an_empty_feed_is_no_lost_log(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    feed.mkdir()
    root.mkdir()
    assert [run(spark, feed, root).rows for _ in range(2)] == [0, 0]
    put(feed, 0, 1)
    assert run(spark, feed, root).rows == 10


def test_being_overtaken_is_reported_where_spark_meets_the_successor_first(spark: SparkSession, tmp_path: Path) -> None:
    feed, root = tmp_path / "feed", tmp_path / "db"
    root.mkdir()
    put(feed, 0, 3)

    def overtake(progress: BatchProgress) -> None:
        Layout(root).stream_lock(TABLE, STREAM).unlink()
        with open_log(Fs(), root):
            pass
        (Layout(root).spark_checkpoint(TABLE, STREAM) / "commits" / "0").write_text("v1\n{}")  # of its query

    with pytest.raises(LockLostError):
        run(spark, feed, root, per_batch=1, progress=overtake)
    assert committed(root) == [*range(10)]
