"""What a micro-batch costs: the same stream with Spark's stock checkpoint files and with our settings.

``python -m benchmarks.parts.micro_batch [--batches 40]``. One file of ten rows a batch, committed with ``fsync``, so
that the numbers are overhead only. ``period`` is from one batch's end to the next; ``write`` is the part inside
foreachBatch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.peers import STOCK_JVM
from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.writers.batch.stream_batches import BatchProgress
from sparkhaven.writers.spark.stream_query import stream_conf
from tests.support.spark.feed_source import FeedSource
from tests.support.spark.stream_job import run
from tests.support.streams.stream_kit import put_file, record

WARM = 10


def measure(batches: int, *, tuned: bool) -> str:
    """Runs the stream in this process and returns one line of the table."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = build_session("micro-batch", workers=2, extra=stream_conf() if tuned else STOCK_JVM)
    spark.dataSource.register(FeedSource)
    ends: list[float] = []
    writes: list[float] = []

    def note(progress: BatchProgress) -> None:
        ends.append(time.perf_counter())
        writes.append(progress.seconds)

    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "db").mkdir()
        for number in range(batches + WARM):
            put_file(base / "feed", f"{number:04}", [record(number * 10 + i) for i in range(10)], number + 1)
        run(spark, base / "feed", base / "db", per_batch=1, progress=note)
    periods = [after - before for before, after in zip(ends[WARM:], ends[WARM + 1 :], strict=False)]
    period, write = statistics.median(periods), statistics.median(writes[WARM:])
    name = "ours" if tuned else "stock"
    return f"| {name} | {period * 1000:.0f} | {write * 1000:.0f} | {(period - write) * 1000:.0f} |"


def main() -> None:
    """Both in processes of their own, since a JVM keeps its file system."""
    parser = argparse.ArgumentParser(description="Cost of a micro-batch with stock settings and with ours.")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--only", choices=["stock", "ours"], help="measure in this process")
    options = parser.parse_args()
    if options.only:
        print(measure(options.batches, tuned=options.only == "ours"), flush=True)
        os._exit(0)  # a tidy stop of the JVM takes seconds
    print("| settings | period ms | write ms | rest ms |\n| --- | --- | --- | --- |")
    for name in ("stock", "ours"):
        command = [
            sys.executable,
            "-m",
            "benchmarks.parts.micro_batch",
            "--only",
            name,
            "--batches",
            str(options.batches),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        print(next(line for line in done.stdout.splitlines() if line.startswith("|")), flush=True)


if __name__ == "__main__":
    main()
