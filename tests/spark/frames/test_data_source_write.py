"""``df.write`` and ``df.writeStream`` with ``format("deephaven")``. Real Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.testing import assert_table_equal
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import Quarantine
from tests.support.places import REPOSITORY
from tests.support.processes import ended
from tests.support.spark.data_source import BOUNDS
from tests.support.spark.frames import DDL, SCHEMA, STREAM, TABLE, epochs, numbers, put, row, source, writer

pytestmark = pytest.mark.spark
NAMES = [part.split()[0] for part in DDL.split(", ")]
POSITIONS = '{"partition": "part", "offset": "off"}'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "my.schema").write_bytes(SCHEMA)
    return tmp_path / "db"


def frame_of(spark: SparkSession, some: range, **changes: Any) -> DataFrame:
    rows = [{**row(number), **changes} for number in some]
    return spark.createDataFrame([tuple(each[name] for name in NAMES) for each in rows], DDL)


def options(root: Path, **more: str) -> dict[str, str]:
    schema = str(root.parent / "my.schema")
    route = {"root": str(root), "schema": schema, "stream": STREAM, "internal": "Sym", "value": "At", "bounds": BOUNDS}
    return {**route, **more}


def save(frame: DataFrame, root: Path, mode: str = "append", **more: str) -> None:
    frame.write.format("deephaven").mode(mode).options(**options(root, **more)).save(str(TABLE))


def start(frame: DataFrame, root: Path, checkpoint: Path, mode: str = "append", **more: str) -> StreamingQuery:
    stream = frame.writeStream.format("deephaven").outputMode(mode).options(**options(root, **more))
    return stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(TABLE))


def quarantined(root: Path) -> list[tuple[str, int]]:
    """Reason and epoch of the rows in the quarantine."""
    layout = Layout(root)
    shelf = Quarantine(StreamPlace(Fs(), layout, TABLE, STREAM), layout.quarantine(STREAM), clock=lambda: 0.0)
    return sorted((row["Reason"], row["Epoch"]) for row in shelf.rows(Chosen()))


def run(frame: DataFrame, root: Path, checkpoint: Path, **more: str) -> None:
    start(frame, root, checkpoint, **more).awaitTermination()


def test_a_frame_is_one_epoch_and_a_label_writes_it_once(spark: SparkSession, root: Path) -> None:
    frame = frame_of(spark, range(40)).repartition(4)
    save(frame, root, label="first")
    assert (numbers(root), epochs(root)) == ([*range(40)], 1)
    found = spark.read.format("deephaven").option("root", str(root)).load(str(TABLE)).select(*NAMES)
    assert (found.where("N > 30").count(), found.count(), found.where("Sym = 'a'").count()) == (9, 40, 20)
    assert_table_equal(spark, root, str(TABLE), frame.withColumn("Small", frame.Small.cast("short")))
    save(frame.repartition(2), root, LABEL="first")
    assert epochs(root) == 1
    with pytest.raises(PySparkException, match="other rows were written under this label"):
        save(frame.where("N <> 7"), root, label="first")
    save(frame_of(spark, range(40, 44)), root)
    save(frame_of(spark, range(0)), root)
    assert (numbers(root), epochs(root)) == ([*range(44)], 3)


def test_what_is_refused_says_why(spark: SparkSession, root: Path) -> None:
    frame = frame_of(spark, range(4))
    for wrong, reported in (
        ({"keepEpoch": "5"}, "did you mean 'keepEpochs'"),
        ({"quarantine": "/q"}, "is a key of option 'badRows'"),
        ({"stream": "a/b"}, "InvalidNameError"),
    ):
        with pytest.raises(PySparkException, match=reported):
            save(frame, root, **wrong)
    with pytest.raises(PySparkException, match="the output mode is not append"):
        save(frame, root, mode="overwrite")
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(PySparkException, match="Append"):
            save(frame, root, mode=mode)
    with pytest.raises(PySparkException, match="lacks Px; has Price too"):
        save(frame.withColumnRenamed("Px", "Price"), root)
    assert not root.exists() or epochs(root) == 0


def test_a_row_that_cannot_be_stored_commits_nothing(spark: SparkSession, root: Path) -> None:
    with pytest.raises(PySparkException, match="Nothing of this batch was committed"):
        save(frame_of(spark, range(9)).union(frame_of(spark, range(9, 10), Small=40_000)), root)
    assert epochs(root) == 0
    save(frame_of(spark, range(9)), root)
    assert numbers(root) == [*range(9)]


def test_bad_rows_go_to_the_quarantine_of_a_frame_and_of_a_query(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    kept = '{"max_rows": 2, "max_fraction": 1.0}'
    frame = frame_of(spark, range(9)).union(frame_of(spark, range(9, 11), Small=40_000)).repartition(3)
    for _ in range(2):
        save(frame, root, badRows=kept, label="first")
    assert (numbers(root), epochs(root), quarantined(root)) == ([*range(9)], 1, [("overflow", 1)] * 2)
    with pytest.raises(PySparkException, match="more bad rows than the budget allows"):
        save(frame_of(spark, range(3), Small=40_000), root, badRows=kept)
    put(tmp_path / "feed", "1", range(20, 24))
    rows = source(spark, tmp_path / "feed", placed=False)
    wrong = rows.withColumn("Small", F.when(rows.N == 21, 40_000).otherwise(rows.Small))
    for _ in range(2):
        run(wrong, root, tmp_path / "checkpoint", badRows=kept)
    assert (numbers(root), epochs(root)) == ([*range(9), 20, 22, 23], 2)
    assert quarantined(root) == [("overflow", 1), ("overflow", 1), ("overflow", 2)]


def test_a_stream_that_another_process_has_opened(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    frame = frame_of(spark, range(4))
    put(tmp_path / "feed", "1", range(4))
    with writer(root, placed=False) as other:
        other.write(frame, None, "q", 0)
        with pytest.raises(PySparkException, match="another process is writing the stream"):
            save(frame, root)
        with pytest.raises(StreamingQueryException, match="another process is writing the stream"):
            run(source(spark, tmp_path / "feed", placed=False), root, tmp_path / "checkpoint")
    gate, begun = tmp_path / "gate", tmp_path / "begun"

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        """Holds the tasks until another writer was there."""
        import time

        begun.touch()
        while not gate.exists():
            time.sleep(0.01)
        yield from batches

    found: list[BaseException] = []

    def late() -> None:
        try:
            save(frame_of(spark, range(10, 12)).coalesce(1).mapInArrow(slow, DDL), root)  # the other core is not held
        except PySparkException as error:
            found.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    while not begun.exists() and thread.is_alive():
        thread.join(0.01)
    save(frame_of(spark, range(4, 8)), root)
    gate.touch()
    thread.join()
    assert "opened the stream since this write began" in str(found[0])
    assert numbers(root) == [*range(8)]


def test_a_query_is_exactly_once_through_crashes_and_restarts(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    feed, checkpoint = tmp_path / "feed", tmp_path / "checkpoint"
    put(feed, "1", range(8))
    put(feed, "2", range(8, 16))
    frame = source(spark, feed, placed=False)
    run(frame, root, checkpoint)
    assert (numbers(root), epochs(root)) == ([*range(16)], 2)
    for name in ("commits/1", "commits/.1.crc"):  # killed after the commit, before Spark wrote its own
        (checkpoint / name).unlink(missing_ok=True)
    before = sorted(path.stat().st_size for path in root.rglob("*.dat"))
    run(frame, root, checkpoint)
    assert (numbers(root), epochs(root)) == ([*range(16)], 2)
    assert sorted(path.stat().st_size for path in root.rglob("*.dat")) == before  # its tasks knew their batch

    (checkpoint / "commits/1").unlink()
    put(feed, "2", range(8, 15))
    with pytest.raises(StreamingQueryException, match="repeated with other rows"):
        run(frame, root, checkpoint)
    put(feed, "2", range(8, 16))
    put(feed, "3", range(16, 20))
    run(frame, root, checkpoint)
    assert (numbers(root), epochs(root)) == ([*range(20)], 3)
    with pytest.raises(StreamingQueryException, match="another query has written this stream"):
        run(frame, root, tmp_path / "other")
    put(feed, "4", range(20, 24))  # Spark asks for the writer when there is a batch
    with pytest.raises(StreamingQueryException, match="SettingsError: unknown option 'nothing'"):
        run(frame, root, checkpoint, nothing="x")
    assert epochs(root) == 3


def test_a_query_that_is_killed_goes_on_where_it_was(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    feed, checkpoint = tmp_path / "feed", tmp_path / "checkpoint"
    for number in range(40):
        put(feed, f"{number}", range(4 * number, 4 * number + 4))
    job = subprocess.Popen(
        [sys.executable, "-m", "tests.support.spark.write_job", str(feed), str(root), str(checkpoint)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        start_new_session=True,
    )
    log = Layout(root).stream_log(TABLE, STREAM)
    with ended(job):
        while job.poll() is None and not (log.exists() and epochs(root) >= 2):
            with suppress(subprocess.TimeoutExpired):
                job.wait(0.05)
    held = epochs(root)
    assert 2 <= held < 40
    run(source(spark, feed, placed=False, files=40), root, checkpoint)
    assert numbers(root) == [*range(160)]
    assert held < epochs(root) < 40


def test_a_query_with_positions_needs_no_checkpoint(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    put(feed, "1", range(10), (0, 0))
    put(feed, "2", range(100, 105), (1, 7))
    for number in range(2):
        run(source(spark, feed, placed=True), root, tmp_path / f"checkpoint{number}", positions=POSITIONS)
        assert (numbers(root), epochs(root)) == ([*range(10), *range(100, 105)], 2)
    state = load_stream(StreamPlace(Fs(), Layout(root), TABLE, STREAM))
    assert state.offsets.positions() == {"source/0": 10, "source/1": 12}


def test_speculation_is_seen_by_the_tasks(spark: SparkSession, root: Path) -> None:
    spark.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    before = spark.conf.get("spark.speculation")
    spark.conf.set("spark.speculation", "true")  # as each session takes it from Spark's configuration
    try:
        with pytest.raises(PySparkException, match="speculative execution"):
            save(frame_of(spark, range(4)), root)
    finally:
        spark.conf.set("spark.speculation", before)
    assert epochs(root) == 0
