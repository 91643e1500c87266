"""What Spark's reads with the option ``where`` cost by the reader in Java, against the one in Python, in one run.

    python -m benchmarks.spark_where [--rows 4000000] [--columns 20] [--rounds 5] [--conditions date,half]

Each condition is read in turn by both. *first* is ``load`` and a sum of one column, as a program does that reads once.
*again* is that sum on the same frame. One round warms up, and the medians of the others count. The results must be
equal, and equal what ``open_table`` gives. Exit 1: they differ. With ``--directory`` the tables stay for another run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.parts.spark_tables import DATES, Tables, spark_tables
from benchmarks.scratch import scratch
from sparkhaven import open_table
from sparkhaven.jobs.dataframes.frames import register

READERS = ("jvm", "python")
CONDITIONS = {
    "date": ("Wide", f"Date = '{DATES[3]}'"),
    "symbol": ("Wide", "S0 = 'SYM7'"),
    "half": ("Wide", "N0 % 2 = 0"),
    "most": ("Wide", "N0 >= 1000 AND S0 <> 'SYM7'"),
    "texts": ("Wide", "S0 LIKE '%9%' AND N0 > N1"),
    "grouping": ("Merged", "S0 = 'SYM7'"),
    "index": ("Merged", "N1 = 77"),
}


def seconds_of(spark: SparkSession, tables: Tables, reader: str, name: str) -> tuple[float, float, int]:
    """Until the first sum, for the second one, and the sum."""
    table, where = CONDITIONS[name]
    options = {"root": str(tables.root), "columns": json.dumps(["N0"]), "where": where, "reader": reader}
    before = time.perf_counter()
    frame = spark.read.format("deephaven").options(**options).load(f"NS.{table}").agg(f.sum("N0"))
    total = frame.collect()[0][0]
    between = time.perf_counter()
    again = frame.alias("again").collect()[0][0]
    if total != again:
        raise AssertionError(f"{name} by {reader}: {total}, then {again}")
    return between - before, time.perf_counter() - between, total


def main(given: argparse.Namespace, directory: Path) -> int:
    """Prints seconds and ratios; 1: results differ."""
    tables = spark_tables(directory, given.rows, given.columns, 10, 0)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    register(spark)
    print(f"{'seconds':10}{'rows':>12}{'Java first':>12}{'again':>8}{'Python first':>14}{'again':>8}   times as fast")
    for name in given.conditions.split(",") if given.conditions else CONDITIONS:
        table, where = CONDITIONS[name]
        kept = open_table(tables.root, f"NS.{table}").to_arrow(["N0"], where=where)
        times: dict[str, list[tuple[float, float, int]]] = {reader: [] for reader in READERS}
        for _ in range(given.rounds + 1):
            for reader in READERS:
                times[reader].append(seconds_of(spark, tables, reader, name))
        sums = {run[2] for runs in times.values() for run in runs}
        if sums != {pc.sum(kept["N0"]).as_py()}:
            print(f"{name}: {sums}, open_table {pc.sum(kept['N0']).as_py()}")
            return 1
        java, python = ([statistics.median(part) for part in zip(*times[r][1:], strict=True)] for r in READERS)
        seconds = f"{java[0]:>12.3f}{java[1]:>8.3f}{python[0]:>14.3f}{python[1]:>8.3f}"
        ratios = f"{python[0] / java[0]:.1f}, {python[1] / java[1]:.1f}"
        print(f"{name:10}{kept.num_rows:>12,}{seconds}   {ratios}", flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--conditions", default="", help=f"some of {', '.join(CONDITIONS)}, separated by commas")
    parser.add_argument("--directory", type=Path)
    given = parser.parse_args()
    if given.directory is not None:
        sys.exit(main(given, given.directory))
    with scratch("spark-where") as directory:
        sys.exit(main(given, directory))
