"""A small table fed from a topic, and one stream over it in a session that the tests share."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.runners import SparkRunner
from sparkhaven.jobs.streams.stream import Application, RunOptions, open_stream, run_one
from sparkhaven.jobs.streams.stream_run import StreamGroup, StreamRun
from sparkhaven.readers import open_table
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """<Table namespace="Test" name="Tick" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
  <Column name="Text" dataType="String"/>
  <Column name="At" dataType="long"/>
</Table>"""

STREAM = """name = "ticks"
table = "Test.Tick"
schema = "Test.Tick.schema"
[feed]
type = "kafka"
bootstrap = "{bootstrap}"
{feed}
[columns]
At = {{ meta = "offset" }}
[partition]
internal = {{ meta = "partition" }}
value = {{ fixed = "2026-11-21" }}
[bad_rows]
max_rows = 0
[commit]
trigger = "0 seconds"
"""


def stream_file(base: Path, bootstrap: str, feed: str) -> Path:
    """The stream file and its schema below ``base``; ``feed`` are further lines of [feed]."""
    base.mkdir(parents=True, exist_ok=True)
    (base / "Test.Tick.schema").write_text(SCHEMA)
    path = base / "ticks.toml"
    path.write_text(STREAM.format(bootstrap=bootstrap, feed=feed))
    return path


def take(spark: SparkSession, base: Path, bootstrap: str, feed: str) -> StreamRun:
    """What is there is taken, then the stream ends; its run, with an error if there was one."""
    fs, layout = Fs(), Layout(base / "db")
    settings = load_stream_file(fs, stream_file(base, bootstrap, feed), {})
    progress = Progress(console=Console(quiet=True))
    with ExitStack() as opened:
        run = open_stream(fs, layout, settings, opened, progress)
        run_one(
            Application(fs, layout, SparkRunner(spark), RunOptions(once=True), progress, threading.Event()),
            StreamGroup([run]),
        )
    return run


def taken(spark: SparkSession, base: Path, bootstrap: str, feed: str) -> StreamRun:
    """As ``take``; an error of the run is raised."""
    run = take(spark, base, bootstrap, feed)
    if run.error is not None:
        raise run.error
    return run


def tick(number: int) -> bytes:
    """The message of an id."""
    return json.dumps({"Id": number, "Text": f"t{number % 7}"}).encode()


def ticks(numbers: Iterable[int]) -> list[bytes | None]:
    """Messages of ids in order."""
    return [tick(number) for number in numbers]


def ids(base: Path) -> list[Any]:
    """The ids of the table by internal partition, then offset."""
    return open_table(base / "db", "Test.Tick").to_arrow()["Id"].to_pylist()  # type: ignore[no-any-return]
