"""The quarantine in a real Delta: each quarantined once whatever is replayed, and always what the commit log says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkhaven.store.errors import ErrorBudgetExceeded
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.ledger import Ledger, read_ledger
from sparkhaven.writers.quarantine.changes import Requeue
from sparkhaven.writers.quarantine.row_choice import Chosen
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.spark.delta_cases import places, quarantine, same_for_spark
from tests.support.streams.stream_kit import STREAM, TABLE, numbers, open_log, place_in, put_file, record
from tests.support.writers.quarantine_cases import again, bad, quarantine_at, rejected_at, restart, take

pytestmark = pytest.mark.spark
FS = Fs()


def test_rows_of_batches_are_parked_with_all_that_is_known_of_them(spark: SparkSession, tmp_path: Path) -> None:
    quarantined = quarantine(tmp_path)
    one = put_file(tmp_path / "feed", "1", [record(0), bad(1), {**bad(2), "Note": "x" * 2_000_000}], 1)
    two = put_file(tmp_path / "feed", "2", [record(3), bad(4)], 2)
    three = put_file(tmp_path / "feed", "3", [record(5)], 3)
    with open_log(FS, tmp_path) as log:
        for number, file in enumerate((one, two, three)):
            take(FS, tmp_path, log, [[file]], quarantined.add, number)
        assert numbers(tmp_path, log.state) == [0, 3, 5]
    rows = same_for_spark(spark, quarantined)
    assert [(Path(r["SourcePartition"]).name, r["Position"], r["Epoch"]) for r in rows] == [
        ("1", 2, 1),
        ("1", 3, 1),
        ("2", 2, 2),
    ]
    first = rows[0]
    assert json.loads(first["Payload"]) == bad(1)
    assert (len(rows[1]["Payload"]), rows[1]["PayloadBytes"] > 2_000_000) == (1 << 20, True)
    assert (first["Namespace"], first["TableName"], first["Stream"]) == ("Test", "Event", STREAM)
    assert (first["Reason"], first["Detail"]) == ("wrong-json-type", "wrong JSON type (string)")
    assert (first["Column"], first["Expected"], first["Value"]) == ("N", "a number", '"x1"')
    assert (first["SourceTime"], first["Time"].timestamp()) == (10**9, 1_000_000.25)
    assert first["RequeuedEpoch"] is None
    assert places(quarantined, Chosen(source="*/2")) == [("2", 2, 2, None)]
    assert places(quarantined, Chosen(reason="overflow")) == []


def test_a_crash_before_the_commit_doubles_nothing_and_keeps_nothing(spark: SparkSession, tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    first = put_file(feed, "0", [record(100), bad(101)], 1)
    one = put_file(feed, "1", [bad(0), record(1), bad(2)], 2)
    fs = CrashingFs(crash_at="quarantine-write:after", occurrence=2)
    log = open_log(fs, tmp_path)
    quarantined = quarantine(tmp_path, fs)
    take(fs, tmp_path, log, [[first]], quarantined.add)
    with pytest.raises(Crash):
        take(fs, tmp_path, log, [[one]], quarantined.add, 1)
    log._lock.release()
    quarantined = quarantine(tmp_path)
    assert places(quarantined) == [("0", 2, 1, None), ("1", 1, 2, None), ("1", 3, 2, None)]
    # meanwhile the feed is mended: had the rows stayed, they would be in the table and in quarantine
    mended = put_file(feed, "1", [record(0), record(1), bad(2)], 3)
    with restart(FS, tmp_path, quarantined) as log:
        assert places(quarantined) == [("0", 2, 1, None)]
        assert take(FS, tmp_path, log, [[mended]], quarantined.add, 2).epoch == 2
        assert take(FS, tmp_path, log, [[mended]], quarantined.add, 3).epoch is None
        assert numbers(tmp_path, log.state) == [0, 1, 100]
    assert places(quarantined) == [("0", 2, 1, None), ("1", 3, 2, None)]


def test_a_batch_over_the_budget_leaves_no_table_at_all(spark: SparkSession, tmp_path: Path) -> None:
    quarantined = quarantine(tmp_path)
    one = put_file(tmp_path / "feed", "1", [bad(number) for number in range(1001)], 1)
    with open_log(FS, tmp_path) as log, pytest.raises(ErrorBudgetExceeded):
        take(FS, tmp_path, log, [[one]], quarantined.add)
    assert not quarantined.exists
    assert read_ledger(place_in(tmp_path, FS)) is None


def test_a_rollback_takes_the_rows_of_its_epochs_along(spark: SparkSession, tmp_path: Path) -> None:
    quarantined = quarantine(tmp_path)
    files = [put_file(tmp_path / "feed", str(n), [record(2 * n), bad(2 * n + 1)], n) for n in (1, 2, 3)]
    with open_log(FS, tmp_path) as log:
        for number, file in enumerate(files):
            take(FS, tmp_path, log, [[file]], quarantined.add, number)
        assert log.rollback(1) == 4
    with restart(FS, tmp_path, quarantined) as log:
        assert places(quarantined) == [("1", 2, 1, None)]
        assert read_ledger(place_in(tmp_path, FS)) == Ledger(str(quarantined.directory), "s.toml", 3, 4)
        mended = put_file(tmp_path / "feed", "2", [record(4), record(5)], 4)
        take(FS, tmp_path, log, [[mended], [again(Path(files[2].path), 5)]], quarantined.add, 3)
    with restart(FS, tmp_path, quarantined) as log:
        assert numbers(tmp_path, log.state) == [2, 4, 5, 6]
    assert places(quarantined) == [("1", 2, 1, None), ("3", 2, 5, None)]


def test_rows_of_other_streams_in_the_same_table_are_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    quarantined = quarantine(tmp_path)
    one = put_file(tmp_path / "feed", "1", [bad(0), record(1)], 1)
    with open_log(FS, tmp_path) as log:
        take(FS, tmp_path, log, [[one]], quarantined.add)
    other = quarantine_at(FS, tmp_path, "other")
    assert places(other) == []
    assert other.drop(Chosen()) == 0
    assert quarantined.drop(Chosen(epoch=2)) == 0
    assert quarantined.drop(Chosen(), after=0) == 0  # of a batch that is not committed yet
    assert quarantined.drop(Chosen(epoch=1)) == 1
    assert places(quarantined) == []


def test_other_rows_in_the_places_of_old_ones_are_parked_too(spark: SparkSession, tmp_path: Path) -> None:
    """A topic that was made again, or a new file of an old name, has other messages under the same positions."""
    quarantined = quarantine(tmp_path)
    open_log(FS, tmp_path).close()
    quarantined.add([rejected_at(tmp_path / "one", 1, None)], 1)
    quarantined.add([rejected_at(tmp_path / "one", 1, None), rejected_at(tmp_path / "two", 2)], 1)
    rows = same_for_spark(spark, quarantined)
    assert [(row["Epoch"], row["SourceTime"]) for row in rows] == [(1, None), (1, 1), (1, 2)]
    quarantined.mark(Requeue(rejected_at(tmp_path / "again", 2).path, 0, 3))
    rows = same_for_spark(spark, quarantined)
    assert [(row["Epoch"], row["SourceTime"], row["RequeuedEpoch"]) for row in rows] == [
        (1, None, None),
        (1, 1, None),
        (1, 2, 3),
    ]


def test_rows_of_a_new_epoch_are_appended_and_those_of_a_retry_merged(spark: SparkSession, tmp_path: Path) -> None:
    """An append costs the same whatever is there; a retry, or a process that is fenced off, may come second."""
    from delta.tables import DeltaTable

    open_log(FS, tmp_path).close()
    quarantined, other = quarantine(tmp_path), quarantine(tmp_path)
    one, two, three, four = (rejected_at(tmp_path / str(time), time) for time in (1, 2, 3, 4))
    for who, files, epoch in ((quarantined, [one], 1), (quarantined, [two], 2), (other, [two, three], 2)):
        who.add(files, epoch)
    layout, lost = Layout(tmp_path), read_ledger(place_in(tmp_path, FS))
    FS.unlink(layout.stream_quarantine(TABLE, STREAM))  # nobody knows what the table has
    quarantined.add([three, four], 3)
    history = DeltaTable.forPath(spark, str(quarantined.directory)).history().orderBy("version").collect()
    assert [row.operation for row in history] == ["MERGE", "WRITE", "MERGE", "MERGE"]
    found = [(row["Epoch"], row["SourceTime"]) for row in same_for_spark(spark, quarantined)]
    assert sorted(found) == [(1, 1), (2, 2), (2, 3), (3, 4)]
    assert lost is not None and read_ledger(StreamPlace(FS, layout, TABLE, STREAM)) == replace(lost, newest=3)
