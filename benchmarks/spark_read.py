"""What Spark's reads of a table cost, against Spark's own reads of the same rows as zstd Parquet, in one run.

Queries: sum of two of the columns, with the columns named and not; of one of the dates, named in the option ``where``
and by a filter of the query; and the number of tasks of a table of many small locations. Medians of interleaved
rounds after a warm-up.

    python -m benchmarks.spark_read [--rows 4000000] [--columns 20] [--locations 2000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparkhaven.jobs.dataframes.frames import read_frame, register
from sparkhaven.testing import make_table

DATES = [f"2026-11-{day:02}" for day in range(2, 12)]
KEPT = ["N0", "N1"]


def wide(rows: int, columns: int) -> pa.Table:
    """Numbers and symbols, half and half."""
    rng = np.random.default_rng(1)
    words = pa.array([f"SYM{number}" for number in range(2000)])
    arrays: dict[str, pa.Array] = {}
    for number in range(columns // 2):
        arrays[f"N{number}"] = pa.array(rng.integers(0, 1 << 40, rows))
        arrays[f"S{number}"] = words.take(pa.array(rng.integers(0, 2000, rows)))
    return pa.table(arrays)


def total(frame: DataFrame) -> object:
    """A query that uses two columns."""
    return frame.agg(*(f.sum(name) for name in KEPT)).collect()


def main(rows: int, columns: int, locations: int, rounds: int) -> None:
    """Prints seconds and ratios."""
    with tempfile.TemporaryDirectory() as directory:
        root, parquet = Path(directory) / "db", Path(directory) / "parquet"
        table = wide(rows // len(DATES), columns)
        for date in DATES:
            make_table(root, "NS.Wide", table, date=date)
            (parquet / f"Date={date}").mkdir(parents=True)
            pq.write_table(table, parquet / f"Date={date}" / "rows.parquet", compression="zstd")
        for number in range(locations):
            make_table(root, "NS.Small", {"N": [number]}, source=f"s{number}", stream=f"t{number % 10}")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()  # stock
        register(spark)
        queries = queries_of(spark, root, parquet)
        seconds: dict[str, list[float]] = {name: [] for name in queries}
        for number in range(rounds + 1):
            for name, query in queries.items():
                before = time.perf_counter()
                query()
                if number:
                    seconds[name].append(time.perf_counter() - before)
        peer = statistics.median(seconds["Parquet"])
        for name, times in seconds.items():
            median = statistics.median(times)
            print(f"{name:32} {median:7.2f} s  {median / peer:5.2f} x Parquet's sum")
        small = read_frame(spark, root, "NS.Small")
        print(f"{locations:,} locations of one row: {small.rdd.getNumPartitions()} tasks, {small.count():,} rows")
        spark.stop()


def queries_of(spark: SparkSession, root: Path, parquet: Path) -> dict[str, Callable[[], object]]:
    """The queries by name, each with its own plan every time."""
    date = f.col("Date") == DATES[3]
    return {
        "Parquet": lambda: total(spark.read.parquet(str(parquet))),
        "columns named": lambda: total(read_frame(spark, root, "NS.Wide", columns=KEPT)),
        "all columns": lambda: total(read_frame(spark, root, "NS.Wide")),
        "Parquet, one date": lambda: total(spark.read.parquet(str(parquet)).where(date)),
        "columns named, date in where": lambda: total(
            read_frame(spark, root, "NS.Wide", columns=KEPT, where=f'Date = "{DATES[3]}"')
        ),
        "columns named, date in a filter": lambda: total(
            read_frame(spark, root, "NS.Wide", columns=[*KEPT, "Date"]).where(date)
        ),
        "all columns, date in a filter": lambda: total(read_frame(spark, root, "NS.Wide").where(date)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--locations", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    main(given.rows, given.columns, given.locations, given.rounds)
