"""Filters on a grouping column and on an indexed one, of a date in history, and the same by DuckDB from Parquet.

    python -m benchmarks.index                    20 M rows, about 2 GB of disk below --dir and 4 GB of memory
    python -m benchmarks.index --rows 1000000

The date is merged with ``Sym`` as grouping column and a ``DataIndex`` of ``OrderId``, whose rows lie anywhere. DuckDB
has one Parquet file of the same rows in the same order, compressed by zstd, with its own statistics. Both have it
open, read four columns into Arrow, and give the same rows. Medians in turn, files in the page cache.
Limit: at most 1.1 rows are read for each that matches (exit 1 beyond). The goal is that DuckDB takes 20 times as long.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.scratch import scratch
from sparkhaven.readers import open_table
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows

DAY = "2024-03-05"
SCHEMA = b"""<Table namespace="Bench" name="Rows" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="OrderId" dataType="long"/>
  <Column name="Price" dataType="double"/>
  <Column name="Size" dataType="int"/>
  <DataIndex columns="OrderId"/>
</Table>
"""
COLUMNS = ("Sym", "OrderId", "Price", "Size")
ALL_ROWS = 20_000_000
MATCHES = (10, 100, 1_000, 10_000, 100_000)
SYMBOLS = 2_000
BATCH = 1 << 20
GOAL, MOST_READ = 20, 1.1


@dataclass(frozen=True)
class Outcome:
    """A filter: milliseconds of both, matches, rows that were read for them."""

    where: str
    ours: float
    duckdb: float
    matches: int
    read: int

    @property
    def ratio(self) -> float:
        return self.duckdb / self.ours


def batches(rows: int) -> Iterator[pa.Table]:
    """The rows in no order; so many as each of ``MATCHES`` says share a symbol, and others an order."""
    rng = np.random.default_rng(1)
    counts = [count for count in MATCHES if count * 20 <= rows]
    syms = np.concatenate([np.repeat(np.arange(len(counts)), counts), rng.integers(5, SYMBOLS, rows - sum(counts))])
    orders = np.concatenate(
        [np.repeat(np.arange(len(counts)), counts), rng.integers(5, max(rows // 100, 6), rows - sum(counts))]
    )
    rng.shuffle(syms)
    rng.shuffle(orders)
    names = pa.array([f"SYM{number:05}" for number in range(SYMBOLS)])
    for first in range(0, rows, BATCH):
        part = slice(first, min(first + BATCH, rows))
        count = part.stop - part.start
        ids = pa.DictionaryArray.from_arrays(pa.array(syms[part].astype(np.int32)), names)
        values = [ids, orders[part], rng.random(count) * 100, rng.integers(1, 1000, count).astype(np.int32)]
        yield pa.table(dict(zip(COLUMNS, values, strict=True)))


def stored(root: Path, rows: int) -> float:
    """Writes and merges the date; the seconds of the merge."""
    db = IntradayRows(root, SCHEMA)
    for table in batches(rows):
        db.commit({("a", DAY): table})
    add_partition(db.fs, db.layout, "Bench", "0")
    began = time.perf_counter()
    place = TablePlace(db.fs, db.layout, db.table)
    executor = LocalExecutor(1)
    for result in merge_dates(place, [DAY], MergeOptions(), executor=executor, clock=time.time):
        if result.error is not None:
            raise result.error
    return time.perf_counter() - began


def compare(root: Path, rows: int, rounds: int) -> list[Outcome]:
    table, parquet = open_table(root, "Bench.Rows"), root / "rows.parquet"
    with duckdb.connect() as connection:
        connection.register("everything", table.to_batches(COLUMNS, dictionaries=False))
        connection.execute("SET threads = 2")
        connection.execute(f"COPY (FROM everything) TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)")
        connection.execute("SET enable_object_cache = true")
        outcomes = []
        for number, count in enumerate(count for count in MATCHES if count * 20 <= rows):
            for where in (f"Sym = 'SYM{number:05}'", f"OrderId = {number}"):
                query = f"SELECT {', '.join(COLUMNS)} FROM '{parquet}' WHERE {where}"
                read_ours = partial(table.to_arrow, COLUMNS, where=where)
                ours, theirs = in_turn([read_ours, partial(_rows, connection, query)], rounds)
                read: list[int] = []
                rows_read = table.to_batches(COLUMNS, where=where, dictionaries=False, on_read=read.append).read_all()
                if rows_read.num_rows != count or not rows_read.equals(_rows(connection, query)):
                    raise SystemExit(f"{where}: {rows_read.num_rows} rows, expected {count}, those of DuckDB")
                outcomes.append(Outcome(where, ours, theirs, count, sum(read)))
    return outcomes


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return connection.sql(query).to_arrow_table()


def in_turn(ways: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Median milliseconds of each, after one call that does not count."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds + 1):
        for way, times in zip(ways, taken, strict=True):
            began = time.perf_counter()
            way()
            times.append(1000 * (time.perf_counter() - began))
    return [statistics.median(times[1:]) for times in taken]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ALL_ROWS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args(words)
    with scratch(above=args.dir) as root:
        seconds = stored(root, args.rows)
        outcomes = compare(root, args.rows, args.rounds)
    print(f"{args.rows} rows, merged with both indexes in {seconds:.1f} s")
    print(f"{'filter':22} {'matches':>8} {'read':>8} {'ours ms':>9} {'DuckDB ms':>10} {'ratio':>7}")
    for one in outcomes:
        print(f"{one.where:22} {one.matches:8} {one.read:8} {one.ours:9.2f} {one.duckdb:10.2f} {one.ratio:6.1f}x")
    reached = sum(one.ratio >= GOAL for one in outcomes)
    print(f"{reached} of {len(outcomes)} filters reach the goal of {GOAL}x")
    return int(any(one.read > MOST_READ * one.matches for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
