"""JSON-lines files to durable columns: sparkhaven against Spark's Parquet sink and Delta, in one run.

Every path reads the same files, two a trigger (one million rows of ten columns), as a streaming query, each in a
process and a JVM of its own, one after the other. The first trigger is warm-up; the table shows the fastest of the
others. The peers read by Spark's source of JSON files, in the ways of ``benchmarks.peers``, and lines by ``from_json``;
the fastest counts. Their output is synced at the end, and each trigger takes its share. sparkhaven runs with ``fsync``.

``--shape large`` puts each trigger into one file, ``--shape small`` into files of two rows: then our own path alone is
timed, with one worker and with two.

``--format csv`` writes the same rows as CSV, for ``large`` and ``small``.

    python -m benchmarks.ingest_files [--rows 1000000] [--triggers 3] [--no-delta] [--shape even | large | small]
        [--format json | csv] [--ways "as it comes" zstd tuned]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import pyarrow
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.figures import add_record, record
from benchmarks.peers import AS_IT_COMES, SINKS, WAYS, fastest, session, streamed
from benchmarks.scratch import scratch
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.process import run_streams
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import RunOptions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.stream_batches import BatchProgress

READERS = {"json": tuple(WAYS), "from_json": (AS_IT_COMES,)}  # lines take no less by from_json
FIELDS = (
    "id long, src string, sym string, ts string, px double, qty int, side string, venue string, seq long, live boolean"
)
SCHEMA = """<Table namespace="Bench" name="Trade" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="id" dataType="long"/> <Column name="src" dataType="String"/>
  <Column name="sym" dataType="String" columnType="Grouping"/> <Column name="ts" dataType="Instant"/>
  <Column name="px" dataType="double"/> <Column name="qty" dataType="int"/> <Column name="side" dataType="String"/>
  <Column name="venue" dataType="String"/> <Column name="seq" dataType="long"/> <Column name="live" dataType="Boolean"/>
</Table>
"""
STREAM = """name = "bench"
table = "Bench.Trade"
schema = "Bench.Trade.schema"
[feed]
type = "files"
path = "feed/*"
format = "FORMAT"
max_per_trigger = { files = 2 }
[partition]
internal = { column = "src" }
value = { column = "ts", zone = "UTC", format = "yyyy-MM-dd" }
clock = "2026-11-21T12:00:00Z"
[bad_rows]
max_rows = 0
"""


def write_feed(directory: Path, rows: int, files: int, form: str = "json") -> int:
    """That many files of ``rows`` rows, each of one source; returns the bytes written."""
    directory.mkdir(parents=True)
    total = 0
    for number in range(files):
        path = directory / f"{number:08}.{form}"
        first = number * rows
        with path.open("w", encoding="utf-8") as file:
            if form == "csv":
                file.write("id,src,sym,ts,px,qty,side,venue,seq,live\n")
            for i in range(first, first + rows):
                row = {
                    "id": i,
                    "src": f"s{number % 2}",
                    "sym": f"SYM{i * 7919 % 997}",
                    "ts": f"2026-11-21T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}.{i % 1000000:06}Z",
                    "px": (i * 31 % 100000) / 100,
                    "qty": i % 5000,
                    "side": "BS"[i % 2],
                    "venue": f"V{i % 13}",
                    "seq": i * 3,
                    "live": i % 3 == 0,
                }
                if form == "csv":
                    file.write(",".join(str(value) for value in row.values()).lower() + "\n")
                else:
                    file.write(json.dumps(row, separators=(",", ":")) + "\n")
        total += path.stat().st_size
    return total


def parsed(spark: SparkSession, feed: Path, reader: str) -> DataFrame:
    """What a team would write: text lines through ``from_json`` with the schema, or the source of JSON files."""
    source = spark.readStream.option("maxFilesPerTrigger", "2")
    if reader == "json":
        rows = source.schema(FIELDS).json(str(feed))
    else:
        lines = source.format("text").load(str(feed))
        rows = lines.select(f.from_json("value", FIELDS).alias("row")).select("row.*")
    return rows.withColumn("ts", f.to_timestamp("ts"))


def run_sink(work: Path, sink: str, reader: str, way: str) -> list[float]:
    """Seconds of each trigger of a stock sink."""
    spark = session(way, delta=sink == "delta")
    seconds = streamed(parsed(spark, work / "feed", reader), sink, work, f"{sink}-{reader}-{way.replace(' ', '-')}")
    spark.stop()
    return seconds


def apart(path: Callable[..., list[float]], *arguments: object) -> list[float]:
    """Runs one path in a process of its own, so that none inherits the JVM of another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(path, *arguments).result()


class Watch(Progress):
    """Takes the moment at which each batch of our own stream was visible, and how long its steps took."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[float] = []
        self.outcomes: list[BatchOutcome] = []

    def batch(
        self,
        stream: str,
        done: BatchProgress,
        partitions: str = "",
        *,
        table: object,
        unit: str = "files",
        label: str = "",
    ) -> None:
        """Notes the moment and the steps."""
        self.moments.append(time.perf_counter())
        self.outcomes.append(done.outcome)


def profile(name: str, outcomes: Sequence[BatchOutcome]) -> None:
    """Median seconds of each step of the warm batches; ``decode`` and ``append`` are sums over all tasks."""
    warm = outcomes[1:] or outcomes
    steps = {step: statistics.median(o.seconds.get(step, 0.0) for o in warm) for step in outcomes[-1].seconds}
    print(f"{name}: " + ", ".join(f"{step} {seconds:.3f}" for step, seconds in steps.items()), flush=True)


def run_ours(work: Path, workers: int | None = None, name: str = "db") -> list[float]:
    """Seconds from each visible batch to the next: all of a trigger, planning and commit included."""
    watch = Watch()
    settings = load_stream_file(Fs(), work / "bench.toml", {})
    (run,) = run_streams(Fs(), Layout(work / name), [settings], RunOptions(once=True, workers=workers), watch)
    if run.error is not None:
        raise run.error
    profile("ours", watch.outcomes)
    return [0.0, *(later - earlier for earlier, later in pairwise(watch.moments))]


def report(times: dict[str, list[float]], rows: int) -> dict[str, float]:
    """Prints the table; returns the fastest warm trigger of each path in seconds per million rows."""
    best = {name: min(seconds[1:]) / rows * 1e6 for name, seconds in times.items()}
    ours = next(iter(best.values()))
    print(f"\n{'path':<30}{'s per 1 M rows':>16}{'against ours':>14}   warm triggers")
    for name, seconds in best.items():
        warm = " ".join(f"{one:.2f}" for one in times[name][1:])
        print(f"{name:<30}{seconds:>16.2f}{seconds / ours:>13.1f}x   {warm}")
    print(
        f"\nPython {platform.python_version()}, pyspark {pyspark.__version__}, pyarrow {pyarrow.__version__}", end=", "
    )
    print(f"{os.cpu_count()} cores, {platform.system()} {platform.release()}")
    return best


def main() -> None:
    """Runs every path and prints the table."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000, help="rows a trigger")
    options.add_argument("--triggers", type=int, default=3)
    options.add_argument("--shape", choices=("even", "large", "small"), default="even")
    options.add_argument("--format", choices=("json", "csv"), default="json")
    options.add_argument("--no-delta", action="store_true", help="leave Delta out (it needs its jars)")
    options.add_argument("--ways", nargs="+", choices=WAYS, default=tuple(WAYS), help="of the peers")
    add_record(options)
    args = options.parse_args()
    if args.format != "json" and args.shape == "even":
        options.error("--format csv needs --shape large or small: the peers of even read JSON")
    with scratch() as work:
        started = time.perf_counter()
        files = {"even": 2, "large": 1, "small": args.rows // 2}[args.shape]  # files a trigger
        size = write_feed(work / "feed", args.rows // files, files * args.triggers, args.format)
        seconds = time.perf_counter() - started
        print(f"feed: {args.rows * args.triggers:,} rows, {size / 1e6:,.0f} MB, made in {seconds:.0f} s", flush=True)
        (work / "Bench.Trade.schema").write_text(SCHEMA)
        (work / "bench.toml").write_text(STREAM.replace("files = 2", f"files = {files}").replace("FORMAT", args.format))
        if args.shape != "even":
            report({f"{n} workers": apart(run_ours, work, n, f"db{n}") for n in (2, 1)}, args.rows)
            return
        times = {"sparkhaven, fsync": apart(run_ours, work)}
        for sink in ("parquet",) if args.no_delta else SINKS:
            for reader, ways in READERS.items():
                for way in (way for way in ways if way in args.ways):
                    times[f"{sink}, {reader}, {way}"] = apart(run_sink, work, sink, reader, way)
        best = report(times, args.rows)
    measured = {"files": best["sparkhaven, fsync"]}
    for sink in SINKS:
        if (least := fastest(best, sink)) is not None:
            measured |= {f"files.{sink}": least, f"files.{sink}.ratio": least / measured["files"]}
    record(options, args, measured)


if __name__ == "__main__":
    main()
