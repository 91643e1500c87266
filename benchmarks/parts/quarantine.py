"""What bad rows cost: a stream with one bad row in a hundred against the same stream without, in one run.

Both read two files of JSON lines a trigger (one million rows of ten columns) and commit with ``fsync``. The rejected
rows, of seven kinds, are written to the quarantine in Delta before each commit. Each stream runs twice and the order of
the runs is mixed; the table shows the median of all warm triggers. Exit 1 if bad rows cost more than 1.5 times
the clean stream.

    python -m benchmarks.parts.quarantine [--rows 1000000] [--triggers 5]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pyspark

from benchmarks.figures import add_record, record
from benchmarks.parts.decode import COLUMNS, Row, bad_one_in_a_hundred, line_text, rows
from benchmarks.scratch import scratch
from sparkhaven.jobs.settings.stream_file import load_stream_file
from sparkhaven.jobs.streams.process import run_streams
from sparkhaven.jobs.streams.progress import Progress
from sparkhaven.jobs.streams.stream import RunOptions
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import BatchProgress

WORST = 1.5
SCHEMA = """<Table namespace="Bench" name="Rows" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
"""
STREAM = """name = "bench"
table = "Bench.Rows"
schema = "Bench.Rows.schema"
[feed]
type = "files"
path = "FEED/*.json"
format = "json"
max_per_trigger = { files = 2 }
[columns]
ts = { unit = "ns" }
[partition]
internal = { column = "venue" }
value = { column = "ts" }
clock = "2013-01-01T05:00:00Z"
[bad_rows]
max_rows = 1000000
max_fraction = 0.02
"""
FEEDS: dict[str, Callable[[Row], str]] = {"clean": line_text, "1 % bad": bad_one_in_a_hundred}


class Watch(Progress):
    """Takes the parts of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[BatchProgress] = []

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
        """Keeps them."""
        self.batches.append(done)


def write_feeds(work: Path, count: int, triggers: int) -> None:
    """The same rows for both feeds, but for those that are made bad."""
    halves = max(count // 2, 1)
    directories = [work / directory_of(name) for name in FEEDS]
    for directory in directories:
        directory.mkdir()
    source = rows(halves * 2 * triggers)
    for number in range(2 * triggers):
        some = list(islice(source, halves))
        for directory, text in zip(directories, FEEDS.values(), strict=True):
            with (directory / f"{number:04}.json").open("w", encoding="utf-8") as file:
                file.writelines(text(row) + "\n" for row in some)


def directory_of(name: str) -> str:
    """Name of a feed as a path."""
    return name.replace("1 % ", "")


def run(work: Path, name: str, number: int) -> list[BatchProgress]:
    """All batches of one run into a fresh database."""
    feed = directory_of(name)
    path = work / f"{feed}.toml"
    path.write_text(STREAM.replace("FEED", feed))
    watch = Watch()
    root = work / f"db-{feed}-{number}"
    (done,) = run_streams(Fs(), Layout(root), [load_stream_file(Fs(), path, {})], RunOptions(once=True), watch)
    if done.error is not None:
        raise done.error
    shutil.rmtree(root)
    return watch.batches


def main() -> int:
    """Runs both streams in turn and prints the table."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000, help="rows a trigger")
    options.add_argument("--triggers", type=int, default=5)
    add_record(options)
    args = options.parse_args()
    warm: dict[str, list[BatchProgress]] = {name: [] for name in FEEDS}
    first: dict[str, float] = {}
    with scratch() as work:
        columns = "".join(f'  <Column name="{name}" dataType="{kind}"/>\n' for name, kind in COLUMNS.items())
        (work / "Bench.Rows.schema").write_text(SCHEMA + columns + "</Table>\n")
        write_feeds(work, args.rows, args.triggers)
        for number, name in enumerate(("clean", "1 % bad", "1 % bad", "clean")):
            batches = run(work, name, number)
            first.setdefault(name, batches[0].seconds)
            warm[name].extend(batches[1:])
    steps = f"{'tasks':>8}{'quar.':>8}{'commit':>8}{'first':>8}"
    header = f"{'feed':<10}{'rejected':>10}{'s a batch':>11}{steps}   warm batches"
    print("\n" + header)
    medians = {}
    for name, batches in warm.items():
        medians[name] = statistics.median(batch.seconds for batch in batches)
        parts = [
            statistics.median(batch.outcome.seconds.get(part, 0.0) for batch in batches)
            for part in ("tasks", "quarantine", "commit")
        ]
        shown = "".join(f"{seconds:>8.2f}" for seconds in (*parts, first[name]))
        listed = " ".join(f"{batch.seconds:.2f}" for batch in batches)
        print(f"{name:<10}{batches[0].outcome.rejected:>10,}{medians[name]:>11.2f}{shown}   {listed}")
    ratio = medians["1 % bad"] / medians["clean"]
    print(f"bad rows cost {ratio:.2f} times the clean stream, limit {WORST}")
    print(f"Python {platform.python_version()}, pyspark {pyspark.__version__}, {os.cpu_count()} cores")
    record(options, args, {"quarantine.ratio": ratio})
    return int(ratio > WORST)


if __name__ == "__main__":
    sys.exit(main())
