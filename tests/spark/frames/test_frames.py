"""Any data frame into a table: typed columns, positions from columns, batches known by their content. Real Spark."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sparkhaven.jobs.dataframes.frame_writer import FrameWriter, deephaven_writer, write_frame
from sparkhaven.readers import open_table
from sparkhaven.store.epochs.reading.stream_state import list_epochs, load_stream
from sparkhaven.store.errors import (
    ErrorBudgetExceeded,
    LockLostError,
    PositionGapError,
    SchemaMismatchError,
    SettingsError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.spark.frames import (
    DDL,
    POSITIONS,
    ROUTE,
    STREAM,
    TABLE,
    epochs,
    numbers,
    put,
    rolled_back,
    row,
    run,
    source,
    writer,
)

pytestmark = pytest.mark.spark


def fails(frame: DataFrame, writer: FrameWriter, checkpoint: Path) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        run(frame, writer, checkpoint)
    return str(caught.value)


def test_positions_decide_whatever_happened_to_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    feed, root, checkpoint, older = (tmp_path / name for name in ("feed", "db", "checkpoint", "older"))
    put(feed, "1", range(10), (0, 0))
    put(feed, "2", range(100, 105), (1, 7))
    frame = source(spark, feed, placed=True)
    run(frame, writer(root, placed=True), checkpoint)
    assert numbers(root) == [*range(10), *range(100, 105)]
    assert load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM)).offsets.positions() == {
        "source/0": 10,
        "source/1": 12,
    }
    shutil.copytree(checkpoint, older)
    put(feed, "3", range(10, 14), (0, 10))
    run(frame, writer(root, placed=True), checkpoint)
    expected = [*range(14), *range(100, 105)]
    assert (numbers(root), epochs(root)) == (expected, 3)

    for damage in ("deleted", "older", "other batches"):
        shutil.rmtree(checkpoint)
        if damage == "older":
            shutil.copytree(older, checkpoint)
        again = source(spark, feed, placed=True, files=5 if damage == "other batches" else 1)
        run(again, writer(root, placed=True), checkpoint)
        assert (numbers(root), epochs(root)) == (expected, 3), damage

    # one batch of all files: what is committed is dropped, the rest is written (R4)
    put(feed, "4", range(14, 20), (0, 14))
    shutil.rmtree(checkpoint)
    last = writer(root, placed=True)
    run(source(spark, feed, placed=True, files=9), last, checkpoint)
    assert last.last is not None and (last.last.rows, last.last.counts) == (6, {"rows_committed_before": 19})
    assert (numbers(root), epochs(root)) == ([*range(20), *range(100, 105)], 4)


def test_holes_are_refused_or_recorded(spark: SparkSession, tmp_path: Path) -> None:
    feed, root, checkpoint = tmp_path / "feed", tmp_path / "db", tmp_path / "checkpoint"
    put(feed, "1", range(10), (0, 0))
    run(source(spark, feed, placed=True), writer(root, placed=True), checkpoint)
    put(feed, "2", range(12, 15), (0, 12))
    reported = fails(source(spark, feed, placed=True), writer(root, placed=True), checkpoint)
    assert "the source does not continue where the last epoch ends" in reported
    filtered = source(spark, feed, placed=True).where("off <> 13")
    reported = fails(filtered, writer(root, placed=True), checkpoint)
    assert "offsets are missing among the rows of a batch" in reported
    assert (numbers(root), epochs(root)) == ([*range(10)], 1)
    run(filtered, writer(root, placed=True, allow_gap=True), checkpoint)
    assert numbers(root) == [*range(10), 12, 14]
    gaps = list_epochs(StreamPlace(Fs(), Layout(root), TABLE, STREAM))[-1].gaps
    assert [(gap.start, gap.stop) for gap in gaps] == [(10, 12)]


def test_a_replayed_batch_is_a_no_op_and_one_with_other_rows_is_loud(spark: SparkSession, tmp_path: Path) -> None:
    feed, root, checkpoint, older = (tmp_path / name for name in ("feed", "db", "checkpoint", "older"))
    put(feed, "1", range(8))
    put(feed, "2", range(8, 16))
    frame = source(spark, feed, placed=False)
    run(frame, writer(root, placed=False), checkpoint)
    assert (numbers(root), epochs(root)) == ([*range(16)], 2)
    shutil.copytree(checkpoint, older)

    # killed after the commit, before Spark wrote its own: batch 1 comes again
    for name in ("commits/1", "commits/.1.crc"):
        (checkpoint / name).unlink(missing_ok=True)
    again = writer(root, placed=False)
    run(frame, again, checkpoint)
    assert again.last is not None and (again.last.epoch, again.last.replayed) == (None, 1)
    assert (numbers(root), epochs(root)) == ([*range(16)], 2)

    # the same files, but not the same rows
    (checkpoint / "commits/1").unlink()
    put(feed, "2", range(8, 15))
    reported = fails(frame, writer(root, placed=False), checkpoint)
    assert "a committed batch was repeated with other rows" in reported
    assert "batch 1" in reported
    assert (numbers(root), epochs(root)) == ([*range(16)], 2)

    # an older checkpoint: batch 2 is planned anew with more files
    put(feed, "2", range(8, 16))
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    put(feed, "3", range(16, 20))
    run(frame, writer(root, placed=False), checkpoint)
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)
    put(feed, "4", range(20, 24))
    reported = fails(source(spark, feed, placed=False, files=9), writer(root, placed=False), checkpoint)
    assert "epochs rollback Test.Quote frames --to 2" in reported
    rolled_back(root, 2)
    run(source(spark, feed, placed=False, files=9), writer(root, placed=False), checkpoint)
    assert numbers(root) == [*range(24)]


def test_a_lost_checkpoint_is_reported_and_adopted(spark: SparkSession, tmp_path: Path) -> None:
    feed, root, checkpoint = tmp_path / "feed", tmp_path / "db", tmp_path / "checkpoint"
    put(feed, "1", range(8))
    frame = source(spark, feed, placed=False)
    run(frame, writer(root, placed=False), checkpoint)
    shutil.rmtree(checkpoint)
    assert "another query has written this stream" in fails(frame, writer(root, placed=False), checkpoint)
    assert epochs(root) == 1
    shutil.rmtree(checkpoint)
    (feed / "1").unlink()
    put(feed, "2", range(8, 12))
    run(source(spark, feed, placed=False), writer(root, placed=False, adopt=True), checkpoint)
    assert numbers(root) == [*range(12)]
    shutil.rmtree(Layout(root).intraday(TABLE))  # R8: the log is lost, the checkpoint is not
    put(feed, "3", range(12, 14))
    reported = fails(source(spark, feed, placed=False), writer(root, placed=False), checkpoint)
    assert "the commit log is empty" in reported


def frame_of(spark: SparkSession, some: range, ddl: str = DDL, **more: Any) -> DataFrame:
    names = [part.split()[0] for part in ddl.split(", ")]
    rows = [{**row(number), **{name: make(number) for name, make in more.items()}} for number in some]
    return spark.createDataFrame([tuple(each[name] for name in names) for each in rows], ddl)


def test_a_frame_is_one_epoch(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, range(40)).repartition(4)
    done = write_frame(frame, tmp_path, str(TABLE), STREAM, label="first", **ROUTE)
    assert (done.epoch, done.rows, numbers(tmp_path)) == (1, 40, [*range(40)])
    again = write_frame(frame.repartition(2), tmp_path, str(TABLE), STREAM, label="first", **ROUTE)
    assert (again.epoch, again.replayed) == (None, 1)
    with pytest.raises(PositionGapError, match="other rows"):
        write_frame(frame.where("N <> 7"), tmp_path, str(TABLE), STREAM, label="first", **ROUTE)
    assert write_frame(frame_of(spark, range(40, 44)), tmp_path, str(TABLE), STREAM, **ROUTE).epoch == 2
    assert write_frame(frame_of(spark, range(0)), tmp_path, str(TABLE), STREAM, **ROUTE).rows == 0
    assert numbers(tmp_path) == [*range(44)]


def test_a_frame_with_positions_and_several_topics(spark: SparkSession, tmp_path: Path) -> None:
    ddl = f"{DDL}, part int, off bigint, name string"
    place: dict[str, Any] = {"part": lambda n: n % 2, "off": lambda n: n // 4, "name": lambda n: "xy"[n // 2 % 2]}
    options: dict[str, Any] = {**ROUTE, "positions": {**POSITIONS, "topic": "name"}}
    done = write_frame(frame_of(spark, range(40), ddl, **place).repartition(3), tmp_path, str(TABLE), STREAM, **options)
    assert (done.epoch, done.rows, done.splits, done.messages) == (1, 40, 4, 40)
    done = write_frame(frame_of(spark, range(48), ddl, **place), tmp_path, str(TABLE), STREAM, **options)
    assert (done.epoch, done.rows) == (2, 8)
    positions = load_stream(StreamPlace(Fs(), Layout(tmp_path), TABLE, STREAM)).offsets.positions()
    assert positions == {"x/0": 12, "x/1": 12, "y/0": 12, "y/1": 12}
    assert numbers(tmp_path) == [*range(48)]
    nulls = frame_of(spark, range(2), ddl, part=lambda n: 0, off=lambda n: None, name=lambda n: "x")
    with pytest.raises(PositionGapError, match="a row has no position"):
        write_frame(nulls, tmp_path, str(TABLE), STREAM, **options)


def test_rows_of_one_offset_stay_together(spark: SparkSession, tmp_path: Path) -> None:
    ddl = f"{DDL}, part int, off bigint"
    frame = frame_of(spark, range(20), ddl, part=lambda n: 0, off=lambda n: n // 5).repartition(3)
    done = write_frame(frame, tmp_path, str(TABLE), STREAM, positions=POSITIONS, **ROUTE)
    assert (done.rows, done.messages, numbers(tmp_path)) == (20, 4, [*range(20)])
    assert write_frame(frame, tmp_path, str(TABLE), STREAM, positions=POSITIONS, **ROUTE).epoch is None


def test_frames_that_do_not_fit_are_refused_before_any_task(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, range(4))

    def write(changed: DataFrame, **options: Any) -> None:
        write_frame(changed, tmp_path, str(TABLE), STREAM, **(ROUTE | options))

    with pytest.raises(SchemaMismatchError, match="lacks Px; has Price too"):
        write(frame.withColumnRenamed("Px", "Price"))
    for name, kind in (
        ("N", "string"),
        ("Small", "boolean"),
        ("At", "timestamp_ntz"),
        ("Live", "double"),
        ("Px", "string"),
    ):
        with pytest.raises(SchemaMismatchError, match=f"column {name} of the data frame") as caught:
            write(
                frame.withColumn(
                    name, frame[name].cast(kind) if name != "At" else frame[name].cast("string").cast(kind)
                )
            )
        assert caught.value.found == kind
    with pytest.raises(SettingsError, match="lacks the columns of its positions"):
        write(frame, positions=POSITIONS)
    with pytest.raises(SettingsError, match="positions lack the column of the topic partition or of the offset"):
        write(frame, positions={"offset": "N"})
    with pytest.raises(SettingsError):
        write(frame, internal={"colum": "Sym"})
    with pytest.raises(SettingsError, match="not a batch of a streaming query"):
        deephaven_writer(tmp_path, str(TABLE), STREAM, **ROUTE)(frame, 0)
    write(frame.withColumn("More", frame.N), ignore=("More",))
    assert numbers(tmp_path) == [*range(4)]


def test_a_value_that_cannot_be_stored_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, range(9))
    for name, value in (("Small", 40_000), ("Small", -32_768), ("Side", "BB"), ("N", -(2**63)), ("At", None)):
        broken = frame_of(spark, range(9), **{name: lambda n, v=value, c=name: v if n == 4 else row(n)[c]})
        with pytest.raises(ErrorBudgetExceeded):
            write_frame(broken, tmp_path, str(TABLE), STREAM, **ROUTE)
    assert epochs(tmp_path) == 0
    write_frame(frame, tmp_path, str(TABLE), STREAM, **ROUTE)
    assert numbers(tmp_path) == [*range(9)]


def test_nanoseconds_and_decimals(spark: SparkSession, tmp_path: Path) -> None:
    ns = 1_795_132_800_000_000_123
    ddl = DDL.replace("At timestamp", "At bigint").replace("Px double", "Px decimal(9,3)")
    frame = frame_of(spark, range(3), ddl, At=lambda n: ns + n, Px=lambda n: Decimal(n) / 8)
    write_frame(frame, tmp_path, str(TABLE), STREAM, **ROUTE)
    found = open_table(tmp_path, str(TABLE)).to_arrow(columns=["N", "At", "Px"])
    assert sorted(
        zip(found["N"].to_pylist(), found["At"].cast("int64").to_pylist(), found["Px"].to_pylist(), strict=True)
    ) == [(0, ns, 0.0), (1, ns + 1, 0.125), (2, ns + 2, 0.25)]


def test_one_writer_at_a_time_and_none_left_behind_by_an_error(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, range(4))
    with deephaven_writer(tmp_path, str(TABLE), STREAM, **ROUTE) as first:
        first.write(frame, None, "q", 0)
        with pytest.raises(LockLostError):
            write_frame(frame, tmp_path, str(TABLE), STREAM, **ROUTE)
        with pytest.raises(ErrorBudgetExceeded):
            first.write(frame_of(spark, range(1), Small=lambda n: 99_999), None, "q", 1)
        write_frame(frame_of(spark, range(4, 6)), tmp_path, str(TABLE), STREAM, **ROUTE)
        assert first.write(frame_of(spark, range(6, 8)), None, "q", 2).epoch == 3
    assert numbers(tmp_path) == [*range(8)]


def test_a_rollback_behind_the_checkpoint_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    feed, root, checkpoint = tmp_path / "feed", tmp_path / "db", tmp_path / "checkpoint"
    put(feed, "1", range(4))
    put(feed, "2", range(4, 8))
    frame = source(spark, feed, placed=False)
    run(frame, writer(root, placed=False), checkpoint)
    rolled_back(root, 1)
    put(feed, "3", range(8, 10))
    reported = fails(frame, writer(root, placed=False), checkpoint)
    assert "batches of this query are missing in the log" in reported
    for name in ("offsets/1", "commits/1", "offsets/2"):
        (checkpoint / name).unlink()
        (checkpoint / name).with_name(f".{name[-1]}.crc").unlink(missing_ok=True)
    run(frame, writer(root, placed=False), checkpoint)
    assert numbers(root) == [*range(10)]
