"""The tables of ``benchmarks.spark_read``, and the same rows as zstd Parquet."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.store.places import TablePlace
from sparkhaven.testing import make_table
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows

DATES = [f"2026-11-{day:02}" for day in range(2, 12)]
SYMBOLS = 2000
DAY = DATES[0]
MERGED = b"""<Table namespace="NS" name="Merged" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="S0" dataType="String" columnType="Grouping"/>
  <Column name="N0" dataType="long"/>
  <Column name="N1" dataType="long"/>
  <DataIndex columns="N1"/>
</Table>
"""
PLANNED = MERGED.replace(b'"Merged"', b'"Planned"').replace(b' columnType="Grouping"', b"")
SMALL = b"""<Table namespace="NS" name="Small" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
</Table>
"""


@dataclass(frozen=True)
class Tables:
    """Where they are; the names of the columns of numbers and of texts of the wide one."""

    directory: Path
    numbers: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def root(self) -> Path:
        return self.directory / "db"

    def parquet(self, name: str) -> Path:
        return self.directory / "parquet" / name


def spark_tables(directory: Path, rows: int, columns: int, locations: int, planned: int) -> Tables:
    """Makes them, unless they are there: ``Wide``, ``Merged``, ``Small`` and ``Planned``, in ``NS``."""
    half = range(columns // 2)
    tables = Tables(directory, tuple(f"N{number}" for number in half), tuple(f"S{number}" for number in half))
    done = directory / "made"
    if not done.exists():
        _wide(tables, rows // len(DATES))
        _merged(tables, rows)
        _small(tables, locations)
        if planned:
            one = pa.table({"S0": ["a"], "N0": [1], "N1": [2]})
            db = IntradayRows(tables.root, PLANNED, statistics=True)
            db.commit({(f"s{number}", DATES[number % len(DATES)]): one for number in range(planned)})
        done.touch()
    return tables


def wide(rows: int, columns: int, seed: int = 1) -> pa.Table:
    """Numbers and symbols, half and half."""
    rng = np.random.default_rng(seed)
    words = pa.array([f"SYM{number}" for number in range(SYMBOLS)])
    arrays: dict[str, pa.Array] = {}
    for number in range(columns // 2):
        arrays[f"N{number}"] = pa.array(rng.integers(0, 1 << 40, rows))
        arrays[f"S{number}"] = words.take(pa.array(rng.integers(0, SYMBOLS, rows)))
    return pa.table(arrays)


def _parquet(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")


def _wide(tables: Tables, rows: int) -> None:
    for number, date in enumerate(DATES):
        table = wide(rows, 2 * len(tables.numbers), number)
        make_table(tables.root, "NS.Wide", table, date=date)
        _parquet(table, tables.parquet("Wide") / f"Date={date}" / "rows.parquet")


def _merged(tables: Tables, rows: int) -> None:
    """One date of history, grouped by a symbol; Parquet has its rows in the same order."""
    rng = np.random.default_rng(2)
    words = pa.array([f"SYM{number}" for number in range(SYMBOLS)])
    table = pa.table(
        {
            "S0": words.take(pa.array(rng.integers(0, SYMBOLS, rows))),
            "N0": rng.integers(0, 1 << 40, rows),
            "N1": rng.integers(0, max(rows // 100, 100), rows),
        }
    )
    db = IntradayRows(tables.root, MERGED, statistics=True)
    db.commit({("a", DAY): table})
    add_partition(db.fs, db.layout, "NS", "0")
    options, executor = MergeOptions(), LocalExecutor(1)
    place = TablePlace(db.fs, db.layout, db.table)
    for result in merge_dates(place, [DAY], options, executor=executor, clock=time.time):
        if result.error is not None:
            raise result.error
    _parquet(table.sort_by("S0"), tables.parquet("Merged") / f"Date={DAY}" / "rows.parquet")


def _small(tables: Tables, locations: int) -> None:
    db = IntradayRows(tables.root, SMALL, statistics=True)
    db.commit({(f"s{number}", DATES[0]): pa.table({"N": [number]}) for number in range(locations)})
    for number in range(locations):
        _parquet(pa.table({"N": [number]}), tables.parquet("Small") / f"{number}.parquet")
