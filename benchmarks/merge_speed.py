"""Merges one large day and sorts the same rows with DuckDB and Spark; prints seconds, output size and ratios.

    python -m benchmarks.merge_speed                  20 M rows x 10 columns, about 10 GB of disk below --dir
    python -m benchmarks.merge_speed --rows 2000000 --no-spark --no-cold

Ours reads committed intraday locations and writes historical ones: grouped by Sym, sorted by EventTime inside,
source checksums verified, digests of both sides proven equal, everything synced. Its tasks run in processes of our
own (``sparkhaven merge --local``), then in Spark in the session that the command builds. DuckDB and Spark read Parquet
files of the same rows, ``ORDER BY Sym, EventTime``, and write Parquet, which is synced, without proof. DuckDB writes
it by snappy, by zstd and uncompressed; the fastest counts. Spark's sort has a stock JVM. Each Spark is a process of its
own. Those runs are warm, and every contender's best counts. Cold ones are whole commands in new processes, with
nothing in the page cache, which needs root: ours, and DuckDB with the codec that was fastest; medians.
``--grouped`` adds a merge and a sort by Sym alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import add_record, record
from benchmarks.peers import STOCK_JVM, fastest, synced
from benchmarks.scratch import scratch
from benchmarks.steps import StepFs
from benchmarks.whole_commands import CODECS, may_empty_cache, merged, sorted_by_duckdb
from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import Executor, LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.spark.workers import SparkExecutor
from tests.support.tables.intraday_rows import IntradayRows

DAY = "2024-03-05"
TABLE = TableName("Bench", "Quote")
BY_TIME = (SortKey("EventTime"),)
SOURCES = 4
SCHEMA = b"""<Table namespace="Bench" name="Quote" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Venue" dataType="String"/>
  <Column name="EventTime" dataType="Instant"/>
  <Column name="BidPx" dataType="double"/>
  <Column name="AskPx" dataType="double"/>
  <Column name="BidQty" dataType="int"/>
  <Column name="AskQty" dataType="int"/>
  <Column name="Seq" dataType="long"/>
  <Column name="Cond" dataType="short"/>
  <Column name="Last" dataType="Boolean"/>
</Table>
"""


@dataclass(frozen=True)
class Timing:
    """One run of one contender."""

    seconds: float
    cpu: float  # of this process and of workers that have ended, so not of Spark
    bytes_out: int


def rows_of(number: int, first: int, seed: int) -> pa.Table:
    """A stretch of a feed: times rise, symbols are mixed."""
    rng = np.random.default_rng(seed)
    start = 1_709_622_000_000_000_000
    times = start + np.sort(rng.integers(0, 8 * 3600 * 10**9, number))
    syms = pa.array([f"S{i:04d}" for i in range(2000)])
    venues = pa.array([f"V{i}" for i in range(12)])
    mid = np.round(rng.normal(100, 5, number), 2)
    chosen = pa.array(rng.zipf(1.3, number).clip(1, 2000) - 1, pa.int32())
    return pa.table(
        {
            "Sym": pa.DictionaryArray.from_arrays(chosen, syms),
            "Venue": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 12, number), pa.int32()), venues),
            "EventTime": pa.array(times, pa.timestamp("ns", "UTC")),
            "BidPx": mid - 0.01,
            "AskPx": mid + 0.01,
            "BidQty": pa.array(rng.integers(1, 10_000, number), pa.int32()),
            "AskQty": pa.array(rng.integers(1, 10_000, number), pa.int32()),
            "Seq": pa.array(np.arange(first, first + number), pa.int64()),
            "Cond": pa.array(rng.integers(0, 30, number), pa.int16()),
            "Last": pa.array(rng.random(number) < 0.5),
        }
    )


def make(directory: Path, rows: int) -> list[Path]:
    """The day as intraday locations and as Parquet files; the latter's paths."""
    db = IntradayRows(directory / "db", SCHEMA)
    source_rows, files = rows // SOURCES, []
    (directory / "parquet").mkdir()
    for source in range(SOURCES):
        table = rows_of(source_rows, source * source_rows, source)
        for low in range(0, source_rows, 1 << 20):  # as batches of a feed
            db.commit({(f"source-{source}", DAY): table.slice(low, 1 << 20)})
        files.append(directory / "parquet" / f"source-{source}.parquet")
        pq.write_table(table, files[-1])
    db.log.close()
    return files


def timed(name: str, out: Path, work: Callable[[], Any]) -> Timing:
    """Runs one contender."""
    os.sync()
    begun, before = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - begun, time.process_time() - before
    files = [path for path in out.rglob("*") if path.is_file()] if out.is_dir() else [out]
    print(f"  {name}: {seconds:.2f} s, processor {cpu:.2f} s", file=sys.stderr)
    return Timing(seconds, cpu, sum(path.stat().st_size for path in files))


def ours(name: str, root: Path, executor: Executor, sort: tuple[SortKey, ...], memory: int) -> Timing:
    """One first merge of the day."""
    layout, options = Layout(root), MergeOptions(sort=sort, memory=memory, workers=executor.workers)
    history = layout.system("Bench")
    shutil.rmtree(history, ignore_errors=True)

    fs = StepFs()

    def merge() -> None:
        (result,) = merge_dates(TablePlace(fs, layout, TABLE), [DAY], options, executor=executor, clock=time.time)
        if result.error is not None:
            raise result.error

    timing = timed(name, history, merge)
    print("    " + ", ".join(f"{step} {seconds:.2f} s" for step, seconds in fs.seconds.items()), file=sys.stderr)
    return timing


def with_duckdb(name: str, files: list[Path], out: Path, order: str, threads: int, codec: str) -> Timing:
    """ORDER BY into one Parquet file, synced."""
    names = ", ".join(f"'{path}'" for path in files)

    def sort() -> None:
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {threads}")
            rows = f"SELECT * FROM read_parquet([{names}]) ORDER BY {order}"
            connection.execute(f"COPY ({rows}) TO '{out}' (FORMAT parquet, COMPRESSION {codec})")
        synced(out)

    return timed(name, out, sort)


def merge_in_spark(directory: Path, files: list[Path], arguments: argparse.Namespace) -> tuple[str, list[Timing]]:
    """Ours as the command runs it; the first of the runs starts Spark's Python workers."""
    del files
    name = "ours, sorted, tasks in Spark"
    spark = build_session("sparkhaven merge", workers=arguments.workers)
    marker = directory / "marker"  # which workers must see
    marker.write_bytes(b"here")
    executor = SparkExecutor(spark.sparkContext, directory, marker, arguments.workers)
    times = [ours(name, directory / "db", executor, BY_TIME, arguments.memory) for _ in range(arguments.repeat)]
    spark.stop()
    return name, times


def sort_in_spark(directory: Path, files: list[Path], arguments: argparse.Namespace) -> tuple[str, list[Timing]]:
    """ORDER BY into Parquet files, synced."""
    name, out = "spark, sorted", directory / "spark.parquet"
    extra = STOCK_JVM | {"spark.sql.legacy.parquet.nanosAsLong": "true"}
    spark = build_session("peer", workers=arguments.workers, memory="6g", extra=extra)

    def sort() -> None:
        frame = spark.read.parquet(*[str(path) for path in files])
        frame.orderBy("Sym", "EventTime").write.mode("overwrite").parquet(str(out))
        synced(out)

    times = [timed(name, out, sort) for _ in range(arguments.repeat)]
    spark.stop()
    return name, times


def main() -> int:
    """Runs all contenders and prints a table."""
    parser = argparse.ArgumentParser(description="merge of one day against ORDER BY of DuckDB and Spark")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=int, default=2 << 30, help="bytes per worker of our merge")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--no-cold", action="store_true", help="warm runs only; cold ones need root")
    parser.add_argument("--grouped", action="store_true", help="a merge and a sort by Sym alone, too")
    add_record(parser)
    arguments = parser.parse_args()
    if not (arguments.no_cold or may_empty_cache()):
        parser.error("only root can empty the page cache: --no-cold")
    with scratch("merge-speed", arguments.dir) as directory:
        record(parser, arguments, figures_of(_run(directory, arguments)))
    return 0


def figures_of(best: Mapping[str, float]) -> dict[str, float]:
    """The figures by name, of the seconds of each contender; DuckDB's are those of its fastest codec."""
    measured = {figure: best[name] for figure, name in FIGURES.items() if name in best}
    for figure, name in (("merge.duckdb", DUCKDB), ("merge.cold.duckdb", COLD_DUCKDB)):
        if (seconds := fastest(best, name)) is not None:
            measured[figure] = seconds
    for ours, *peers in RATIOS:
        for peer in peers:
            if {ours, peer} <= measured.keys():
                measured[f"{ours}.{peer.rpartition('.')[2]}.ratio"] = measured[peer] / measured[ours]
    return measured


DUCKDB, COLD_DUCKDB = "duckdb, sorted", "duckdb, cold"
FIGURES = {
    "merge.local": "ours, sorted",
    "merge.spark": "ours, sorted, tasks in Spark",
    "merge.sort_in_spark": "spark, sorted",
    "merge.cold": "ours, cold",
}
RATIOS = (
    ("merge.local", "merge.duckdb", "merge.sort_in_spark"),
    ("merge.spark", "merge.duckdb", "merge.sort_in_spark"),
    ("merge.cold", "merge.cold.duckdb"),
)


def _run(directory: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """The best seconds of each warm contender, the medians of the cold ones."""
    print(f"making {arguments.rows:,} rows in {SOURCES} sources", file=sys.stderr)
    files, root = make(directory, arguments.rows), directory / "db"
    local, memory = LocalExecutor(arguments.workers), arguments.memory
    list(local.run(abs, range(arguments.workers)))  # workers start before the clock does, as Spark's have
    out = directory / "duckdb.parquet"

    def by_duckdb(order: str, codec: str) -> Callable[[str], Timing]:
        return lambda name: with_duckdb(name, files, out, order, arguments.workers, codec)

    contenders: dict[str, Callable[[str], Timing]] = {
        "ours, sorted": lambda name: ours(name, root, local, BY_TIME, memory),
        **{f"{DUCKDB}, {codec}": by_duckdb("Sym, EventTime", codec) for codec in CODECS},
    }
    if arguments.grouped:
        contenders["ours, grouped only"] = lambda name: ours(name, root, local, (), memory)
        contenders |= {f"duckdb, by Sym only, {codec}": by_duckdb("Sym", codec) for codec in CODECS}
    times: dict[str, list[Timing]] = {name: [] for name in contenders}
    for _ in range(arguments.repeat):
        for name, run in contenders.items():
            times[name].append(run(name))
    local.close()
    if not arguments.no_spark:
        for contender in (merge_in_spark, sort_in_spark):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                name, timings = process.submit(contender, directory, files, arguments).result()
            times[name] = timings
    _print(times, arguments)
    best = {name: min(timing.seconds for timing in timings) for name, timings in times.items()}
    return best if arguments.no_cold else best | _cold(directory, arguments, best)


def _cold(directory: Path, arguments: argparse.Namespace, warm: Mapping[str, float]) -> dict[str, float]:
    codec = min(CODECS, key=lambda codec: warm[f"{DUCKDB}, {codec}"])
    seconds: dict[str, list[float]] = {"ours, cold": [], f"{COLD_DUCKDB}, {codec}": []}
    mine, theirs = seconds.values()
    for _ in range(arguments.repeat):
        mine.append(merged(directory / "db", TABLE, DAY, arguments.workers, cold=True)[0])
        out = directory / "duckdb.parquet"
        theirs.append(sorted_by_duckdb(directory / "parquet", out, arguments.workers, codec, cold=True)[0])
    for name, runs in seconds.items():
        print(f"{name:32} {' '.join(f'{run:.2f}' for run in runs)}")
    return {name: statistics.median(runs) for name, runs in seconds.items()}


def _print(times: dict[str, list[Timing]], arguments: argparse.Namespace) -> None:
    best = {name: min(timings, key=lambda t: t.seconds) for name, timings in times.items()}
    print(
        f"\n{arguments.rows:,} rows x 10 columns, {arguments.workers} workers, {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"pyarrow {pa.__version__}, duckdb {duckdb.__version__}"
    )
    print(f"{'':32} {'best s':>8} {'cpu s':>8} {'M rows/s':>9} {'MB out':>8} {'against DuckDB':>15}")
    for name, timing in best.items():
        peer = "duckdb, by Sym only" if "only" in name else DUCKDB
        base = fastest({path: run.seconds for path, run in best.items()}, peer) or timing.seconds
        rate, size = arguments.rows / timing.seconds / 1e6, timing.bytes_out / 1e6
        print(
            f"{name:32} {timing.seconds:8.2f} {timing.cpu:8.2f} {rate:9.2f} {size:8.0f} {base / timing.seconds:14.2f}x"
        )


if __name__ == "__main__":
    raise SystemExit(main())
