"""A table that a real Delta writes, followed by a real stream: appends once, OPTIMIZE passed over, DELETE refused."""

from __future__ import annotations

import json
import threading
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sparkhaven.jobs.monitor.metrics.catalogue import NO_METRICS, MetricsSink
from sparkhaven.jobs.monitor.metrics.stream_metrics import Metrics, served
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import SparkRunner
from sparkhaven.jobs.streams.stream import Application, RunOptions, open_stream, run_one
from sparkhaven.jobs.streams.stream_run import StreamGroup, StreamRun
from sparkhaven.readers import open_table
from sparkhaven.store.delta.log import list_log
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import FeedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.testing import assert_table_equal
from sparkhaven.writers.quarantine.table import Quarantine
from tests.support.spark.delta_cases import same_for_spark

pytestmark = pytest.mark.spark

SCHEMA = """<Table namespace="Test" name="Copy" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="id" dataType="int"/>
  <Column name="name" dataType="String"/>
  <Column name="at" dataType="Instant"/>
</Table>"""
STREAM = """name = "{name}"
table = "Test.Copy"
schema = "Test.Copy.schema"
[feed]
type = "delta"
path = "source"
{feed}
[columns]
day = {{ zone = "UTC" }}
[partition]
internal = {{ fixed = "{name}" }}
value = {{ column = "day", zone = "UTC" }}
clock = "2026-11-22T00:00:00Z"
[bad_rows]
max_rows = 10
max_fraction = 1.0
"""


def take(spark: SparkSession, base: Path, name: str, feed: str = "", metrics: MetricsSink = NO_METRICS) -> StreamRun:
    """What is there is taken by the stream ``name``, then it ends; an error is raised."""
    (base / "Test.Copy.schema").write_text(SCHEMA)
    (base / f"{name}.toml").write_text(STREAM.format(name=name, feed=feed))
    settings = load_stream_file(Fs(), base / f"{name}.toml", {})
    progress = Progress(console=Console(quiet=True))
    with ExitStack() as opened:
        options = RunOptions(once=True, metrics=metrics)
        app = Application(Fs(), Layout(base / "db"), SparkRunner(spark), options, progress, threading.Event())
        run = open_stream(app.fs, app.layout, settings, opened, progress)
        run_one(app, StreamGroup([run]))
    if run.error is not None:
        raise run.error
    return run


def ids(base: Path, name: str) -> list[Any]:
    rows = open_table(base / "db", "Test.Copy").to_arrow(sources=[name])
    assert set(rows["name"].to_pylist()) == {f"n{number}" for number in rows["id"].to_pylist()}
    return sorted(rows["id"].to_pylist())


def test_the_life_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    table = f"delta.`{source}`"

    def append(start: int, stop: int) -> None:
        rows = spark.range(start, stop, 1, 1).selectExpr(
            "id",
            "concat('n', id) AS name",
            "DATE'2026-11-20' + CAST(id % 2 AS INT) AS day",
            "TIMESTAMP'2026-11-21' AS at",
        )
        rows.write.format("delta").partitionBy("day").mode("append").save(str(source))

    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, day DATE, at TIMESTAMP) USING delta PARTITIONED BY (day)"
        " TBLPROPERTIES('delta.checkpointInterval' = '3')"
    )
    append(0, 4)
    append(4, 6)
    first = take(spark, tmp_path, "log", "start_version = 0\nmax_per_trigger = { files = 1 }")
    assert first.totals is not None and (first.totals.rows, first.totals.epochs) == (6, 4)
    assert first.totals.counts["data_files"] == 4 and first.totals.messages == 0
    assert_table_equal(spark, tmp_path / "db", "Test.Copy", spark.sql(f"SELECT INT(id), name, at FROM {table}"))
    assert ids(tmp_path, "log") == [0, 1, 2, 3, 4, 5]
    dates = open_table(tmp_path / "db", "Test.Copy").to_arrow(dates=["2026-11-20"])
    assert sorted(dates["id"].to_pylist()) == [0, 2, 4]

    append(2**31 - 1, 2**31 + 2)  # the last two are no int
    spark.sql(f"OPTIMIZE {table}")
    metrics = Metrics()
    with served(metrics, 0) as url:
        again = take(spark, tmp_path, "log", "max_per_trigger = { files = 1 }", metrics)
        reported = urllib.request.urlopen(url, timeout=60).read().decode()
    labels = 'stream="log",table="Test.Copy"'
    assert f'sparkhaven_quarantine_total{{reason="overflow",{labels}}} 2.0\n' in reported
    assert f'sparkhaven_source_position{{source="version",{labels}}} 5.0\n' in reported
    assert f"sparkhaven_source_lag_files{{{labels}}} 0.0\n" in reported
    assert again.totals is not None and (again.totals.rows, again.totals.rejected) == (1, 2)
    quarantined = Quarantine(
        StreamPlace(Fs(), Layout(tmp_path / "db"), TableName("Test", "Copy"), "log"),
        Layout(tmp_path / "db").quarantine("log"),
        clock=lambda: 0.0,
    )
    rows = same_for_spark(spark, quarantined)
    assert [(row["Column"], json.loads(row["Payload"])["id"]) for row in rows] == [
        ("id", int(row["Value"])) for row in rows
    ]
    assert sorted(int(row["Value"]) for row in rows) == [2**31, 2**31 + 1]
    assert all(row["SourcePartition"].startswith(f"version 3: {source}/day=") for row in rows)
    assert take(spark, tmp_path, "log").totals.rows == 0  # type: ignore[union-attr]

    assert list_log(Fs(), source).checkpoints  # of version 3
    held = take(spark, tmp_path, "held")  # begins with the content, in the files that OPTIMIZE has made
    assert held.totals is not None and (held.totals.rows, held.totals.rejected) == (7, 2)
    assert ids(tmp_path, "held") == ids(tmp_path, "log")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    with pytest.raises(FeedError, match=r"version 5 of the Delta table removes or rewrites rows \(DELETE\)"):
        take(spark, tmp_path, "held")
    state = load_stream(StreamPlace(Fs(), Layout(tmp_path / "db"), TableName("Test", "Copy"), "held"))
    assert state.offsets.positions() == {"version": 5, "file": 0}
    take(spark, tmp_path, "held", "ignore_changes = true")
    found = ids(tmp_path, "held")
    assert sorted(set(found)) == [0, 1, 2, 3, 4, 5, 2**31 - 1] and len(found) > 7  # rows that were copied come twice
