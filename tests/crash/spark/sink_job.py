"""A Spark job over a feed of files, into any sink: ``python -m tests.crash.spark.sink_job SINK FEED PLACE``.

``stream`` is a stream of ours, ``writer`` our ``deephaven_writer`` behind Spark's own source, ``parquet`` and ``delta``
are Spark's and Delta's sinks as they come: no setting of theirs is touched. One file is one batch. The job tells what a
reader sees (``before {...}``), takes what is in the feed (``acknowledged N``: so many first rows of the feed), tells
what a reader sees then (``after {...}``), waits for a line, takes what is there now, and ends. ``failed ...``: it could
not.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sparkhaven.jobs.dataframes.frame_writer import FrameWriter, deephaven_writer
from sparkhaven.readers import open_table
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.writers.batch.stream_batches import BatchProgress
from tests.support.spark.delta_conf import delta_conf
from tests.support.spark.stream_job import run, session
from tests.support.streams.stream_kit import STREAM, TABLE, numbers, put_file, read_all, record

SINKS = ("stream", "writer", "parquet", "delta")
ROWS_A_FILE = 40
DDL = "Src string, Date string, N bigint, Sym string, Note string, part int, off bigint"
SCHEMA = b"""<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Src" dataType="String"/>
  <Column name="N" dataType="long"/>
  <Column name="Sym" dataType="String"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
</Table>
"""


def put_files(feed: Path, first: int, stop: int) -> None:
    """Files of the feed by number, each with its rows and where they stand in it."""
    for number in range(first, stop):
        at = range(number * ROWS_A_FILE, (number + 1) * ROWS_A_FILE)
        put_file(feed, f"{number:05}.json", [{**record(n, "ab"[n % 2]), "part": 0, "off": n} for n in at], number + 1)


def seen(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers of rows, and how many of them have columns that do not belong together."""
    found = list(rows)
    torn = sum(any(row[name] != record(row["N"])[name] for name in ("Sym", "Note")) for row in found)
    return {"numbers": sorted(row["N"] for row in found), "torn": torn}


class Job:
    """The sink, its place and, where Spark keeps one, its checkpoint: all of it below ``place``."""

    def __init__(self, sink: str, feed: Path, place: Path) -> None:
        self.sink, self.feed = sink, feed
        self.table, self.checkpoint = place / "table", place / "checkpoint"
        self.spark = session(delta=False) if sink == "stream" else plain_session()

    def read(self) -> dict[str, Any]:
        """What a reader sees; none yet: no rows."""
        if not self.table.exists():
            return seen([])
        try:
            return getattr(self, f"_read_{self.sink}")()  # type: ignore[no-any-return]
        except Exception as error:
            return {"error": _gist(error)}

    def take(self) -> None:
        """All that is in the feed."""
        getattr(self, f"_take_{self.sink}")()

    def _read_stream(self) -> dict[str, Any]:
        fs, layout = Fs(), Layout(self.table)
        if STREAM not in list_streams(TablePlace(fs, layout, TABLE)):
            return seen([])
        state = load_stream(StreamPlace(fs, layout, TABLE, STREAM))
        numbers(self.table, state)  # lengths, checksums, places
        return seen(row for rows in read_all(self.table, state).values() for row in rows)

    def _take_stream(self) -> None:
        def tell(progress: BatchProgress) -> None:
            say(f"acknowledged {progress.epoch * ROWS_A_FILE}")  # a file is an epoch

        self.table.mkdir(parents=True, exist_ok=True)
        run(self.spark, self.feed, self.table, per_batch=1, progress=tell)

    def _read_writer(self) -> dict[str, Any]:
        if not list_streams(TablePlace(Fs(), Layout(self.table), TABLE)):
            return seen([])
        return seen(open_table(self.table, str(TABLE)).to_arrow().to_pylist())

    def _take_writer(self) -> None:
        writer: FrameWriter = deephaven_writer(
            self.table,
            str(TABLE),
            STREAM,
            internal="Src",
            value={"fixed": "2026-11-20"},
            schema=SCHEMA,
            positions={"partition": "part", "offset": "off"},
            ignore=("Date",),
        )

        def write(frame: DataFrame, batch: int) -> None:
            writer(frame, batch)
            say(f"acknowledged {writer.epoch * ROWS_A_FILE}")

        with closing(writer):
            self._run(lambda frame: frame.writeStream.foreachBatch(write), tell=False)

    def _read_parquet(self) -> dict[str, Any]:
        return seen(row.asDict() for row in self.spark.read.schema(DDL).parquet(str(self.table)).collect())

    def _take_parquet(self) -> None:
        self._run(lambda frame: frame.writeStream.format("parquet").option("path", str(self.table)))

    def _read_delta(self) -> dict[str, Any]:
        if not (self.table / "_delta_log").exists():
            return seen([])
        return seen(row.asDict() for row in self.spark.read.format("delta").load(str(self.table)).collect())

    def _take_delta(self) -> None:
        self._run(lambda frame: frame.writeStream.format("delta").option("path", str(self.table)))

    def _run(self, sink: Callable[[DataFrame], Any], *, tell: bool = True) -> None:
        source = self.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(self.feed))
        writer = sink(source).option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query: StreamingQuery = writer.start()
        known = -1
        while query.isActive:
            if tell:
                known = _tell(query, known)
            time.sleep(0.02)
        query.awaitTermination()  # raises what ended it
        if tell:
            _tell(query, known)


def _tell(query: StreamingQuery, known: int) -> int:
    """Says how far the source is, once Spark has called the batch done. Its log has one entry a file."""
    progress = query.lastProgress
    end = progress["sources"][0]["endOffset"] if progress is not None else None
    if not end:
        return known
    at = int((json.loads(end) if isinstance(end, str) else end)["logOffset"])
    if at > known:
        say(f"acknowledged {(at + 1) * ROWS_A_FILE}")
    return max(known, at)


def plain_session() -> SparkSession:
    """Spark as it comes, with Delta; no setting that has to do with writing."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run the machine's python3, which lacks our packages
    builder = SparkSession.builder.master("local[2]").appName("sink")
    own = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    for key, value in {**delta_conf(Fs()), **own}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def say(text: str) -> None:
    """A line for who has started this job."""
    print(text, flush=True)


def _gist(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith("\tat")]
    said = [line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")]
    return f"{type(error).__name__}: {' '.join(said[:2])}"[:400]


def main(sink: str, feed: Path, place: Path) -> int:
    """Exit code 1 when the job could not go on."""
    job = Job(sink, feed, place)
    say(f"before {json.dumps(job.read())}")
    try:
        job.take()
        say(f"after {json.dumps(job.read())}")
        if sys.stdin.readline():
            job.take()
        return 0
    except Exception as error:
        traceback.print_exc()
        say(f"failed {_gist(error)}")
        return 1


if __name__ == "__main__":
    code = main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    os._exit(code)  # the JVM ends with its parent; a tidy stop takes seconds
