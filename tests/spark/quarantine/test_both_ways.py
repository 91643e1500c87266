"""One quarantine with two kinds of writers, Spark's and ours: each reads what the other wrote, and nothing is lost."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from sparkhaven.store.delta.log import LOG, list_log, version_file
from sparkhaven.store.delta.snapshot import read_snapshot
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.quarantine.changes import Requeue
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import THRESHOLDS
from tests.support.spark.delta_cases import same_for_spark, spark_quarantine, spark_rows
from tests.support.streams.stream_kit import open_log
from tests.support.writers.quarantine_cases import quarantine_at, rejected_at
from tests.support.writers.quarantine_tables import unpack_older

pytestmark = pytest.mark.spark
FS = Fs()


def test_spark_and_we_take_turns(spark: SparkSession, tmp_path: Path) -> None:
    """Through checkpoints of both, retries, marks and deletions; the table is ours first, so Spark finds our first."""
    open_log(FS, tmp_path).close()
    theirs, ours = spark_quarantine(spark, tmp_path), quarantine_at(FS, tmp_path)
    files = {epoch: [rejected_at(tmp_path / f"r{epoch}", epoch)] for epoch in range(1, 18)}
    for epoch in files:
        (theirs if epoch % 3 == 0 else ours).add(files[epoch], epoch)
        (ours if epoch % 3 == 0 else theirs if epoch % 4 == 0 else ours).add(files[epoch], epoch)  # a retry by another
    assert [row["Epoch"] for row in same_for_spark(spark, ours)] == [*files]
    listing = list_log(FS, ours.directory)
    assert len(listing.checkpoints) >= 2 and min(listing.checkpoints) == THRESHOLDS.checkpoint_versions

    requeue = tmp_path / "requeue"
    rejected_at(requeue, 3, 4)
    theirs.mark(Requeue(requeue, 0, 30))
    assert ours.drop(Chosen(epoch=5)) == 1
    assert theirs.drop(Chosen(state="requeued")) == 2
    assert quarantine_at(FS, tmp_path, "other").drop(Chosen()) == 0
    theirs.add([rejected_at(tmp_path / "last", 99)], 18)
    assert [row["Epoch"] for row in same_for_spark(spark, ours)] == [1, 2, *range(6, 19)]
    history = DeltaTable.forPath(spark, str(ours.directory)).history()
    assert history.count() == list_log(FS, ours.directory).latest + 1  # type: ignore[operator]
    assert {row.operation for row in history.collect()} == {"WRITE", "MERGE", "UPDATE", "DELETE", "OPTIMIZE"}


def test_spark_reads_our_compacted_table_from_our_checkpoint_alone(spark: SparkSession, tmp_path: Path) -> None:
    open_log(FS, tmp_path).close()
    ours = quarantine_at(FS, tmp_path)
    for epoch in range(1, THRESHOLDS.small_files + 12):
        ours.add([rejected_at(tmp_path / "r", epoch)], epoch)
    snapshot = read_snapshot(FS, ours.directory)
    base = max(list_log(FS, ours.directory).checkpoints)
    assert len(snapshot.files) < 15 and base == 60
    for number in range(base + 1):
        version_file(ours.directory, number).unlink()
    assert [row["Epoch"] for row in same_for_spark(spark, ours)] == [*range(1, THRESHOLDS.small_files + 12)]
    theirs = spark_quarantine(spark, tmp_path)
    theirs.add([rejected_at(tmp_path / "r", 1000)], 1000)
    DeltaTable.forPath(spark, str(ours.directory)).optimize().executeCompaction()
    assert len(same_for_spark(spark, ours)) == THRESHOLDS.small_files + 12
    assert ours.drop(Chosen(epoch=1000)) == 1  # from a file that Spark has compacted
    assert len(same_for_spark(spark, ours)) == THRESHOLDS.small_files + 11


def test_two_writers_at_once_one_of_them_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Two streams share a table; each row is there once, and every version has one writer."""
    open_log(FS, tmp_path).close()
    theirs, ours = spark_quarantine(spark, tmp_path), quarantine_at(FS, tmp_path, "other")
    errors: list[BaseException] = []

    def run(name: str, count: int) -> None:
        writer = theirs if name == "s" else ours
        try:
            for epoch in range(1, count):
                writer.add([rejected_at(tmp_path / f"{name}{epoch}", epoch)], epoch)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=("s", 5)), threading.Thread(target=run, args=("o", 40))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    rows = spark_rows(spark, ours.directory)
    assert sorted((row["Stream"], row["Epoch"]) for row in rows) == [
        *(("feed", epoch) for epoch in range(1, 5)),
        *(("other", epoch) for epoch in range(1, 40)),
    ]


def test_a_table_of_an_older_release_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Made by Spark alone, with times of 96 bits and a checkpoint."""
    open_log(FS, tmp_path).close()
    ours = quarantine_at(FS, tmp_path)
    unpack_older(ours.directory)
    before = same_for_spark(spark, ours)
    assert [row["Epoch"] for row in before] == [*range(1, 13)]
    assert {row["Time"].timestamp() for row in before} == {1_000_000.25}
    ours.add([rejected_at(tmp_path / "a", 1), rejected_at(tmp_path / "b", 13)], 13)
    assert ours.drop(Chosen(epoch=2)) == 1
    ours.mark(Requeue(rejected_at(tmp_path / "c", 3).path, 0, 14))
    rows = same_for_spark(spark, ours)
    assert [(row["Epoch"], row["RequeuedEpoch"]) for row in rows] == [
        (epoch, 14 if epoch == 3 else None) for epoch in range(1, 14) if epoch != 2
    ]
    kept = [row for row in rows if row["RequeuedEpoch"] is None and row["Epoch"] < 13]
    assert kept == [row for row in before if row["Epoch"] not in (2, 3)]


def test_a_version_that_another_program_takes_first_is_built_upon(tmp_path: Path, spark: SparkSession) -> None:
    """A program that does not know our lock, as OPTIMIZE in a notebook, commits between our look and our commit."""
    open_log(FS, tmp_path).close()
    ours = quarantine_at(FS, tmp_path)
    for epoch in (1, 2, 3):
        ours.add([rejected_at(tmp_path / "r", epoch)], epoch)

    class Late(Fs):
        optimized = False

        def link(self, source: Path, target: Path) -> bool:
            if not self.optimized:
                self.optimized = True
                DeltaTable.forPath(spark, str(ours.directory)).optimize().executeCompaction()
            return super().link(source, target)

    assert quarantine_at(Late(), tmp_path).drop(Chosen(epoch=2)) == 1
    assert [row["Epoch"] for row in same_for_spark(spark, ours)] == [1, 3]
    log = [json.loads(version_file(ours.directory, n).read_text().splitlines()[0]) for n in (3, 4)]
    assert [action["commitInfo"]["operation"] for action in log] == ["OPTIMIZE", "DELETE"]
    names = {path.name for path in ours.directory.iterdir() if path.suffix == ".parquet"}
    said = "".join(path.read_text() for path in (ours.directory / LOG).glob("*.json"))
    assert all(name in said for name in names)  # what the first attempt wrote is removed
    assert pq.read_table(ours.directory / next(iter(names))).num_rows
