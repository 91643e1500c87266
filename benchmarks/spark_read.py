"""What Spark's reads of a table cost, against Spark's own reads of the same rows as zstd Parquet, in one run.

    python -m benchmarks.spark_read [--rows 4000000] [--columns 20] [--locations 2000] [--rounds 5] [--queries sum,max]

Each query runs in turn with the reader in Java, the one in Python (``--python``), and Parquet by both of Spark's
readers: V1, and V2 with aggregates pushed down. Two rounds warm up, and the medians of the others count, of Parquet the
faster one. All plan anew each time, as a program does that reads once. The results must be
equal. ``Merged`` has the same rows as one date of history, by a grouping column and an index. Then: how long opening
and planning of ``--planned`` locations takes. Exit 1: a ratio is below its goal. With ``--directory`` the tables stay
for another run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.figures import add_record, record
from benchmarks.parts.spark_tables import DATES, Tables, spark_tables
from benchmarks.scratch import scratch
from sparkhaven.jobs.dataframes.frames import plan_of, read_frame, register
from sparkhaven.jobs.session.spark_jar import place_jar

WARM_UP = 2
Run = Callable[[DataFrame], Any]


@dataclass(frozen=True)
class Query:
    """What is asked of which table; ``goal``: how many times as fast as Parquet it should be; ``figure``: its name."""

    name: str
    table: str
    columns: tuple[str, ...]
    run: Run
    goal: float
    figure: str


def queries(numbers: tuple[str, ...], texts: tuple[str, ...]) -> list[Query]:
    """Numbers and texts are the columns of the wide table."""
    every = (*numbers, *texts)
    two = numbers[:2]
    return [
        Query("sum of 2 columns", "Wide", two, lambda frame: _sums(frame, two), 2.5, "sum"),
        Query("all columns, nothing done", "Wide", every, lambda frame: _nothing(frame.select(*every)), 4, "columns"),
        Query(
            "one date",
            "Wide",
            (*two, "Date"),
            lambda frame: _sums(frame.where(f.col("Date") == DATES[3]), two),
            1.5,
            "date",
        ),
        Query("count(*)", "Wide", two, lambda frame: frame.count(), 3, "count"),
        Query("group by a symbol", "Wide", ("S0", "N0"), _grouped, 2, "groups"),
        Query(
            "= on a symbol", "Wide", ("S0", "N0"), lambda frame: _sums(frame.where("S0 = 'SYM7'"), ("N0",)), 3, "symbol"
        ),
        Query(
            "= on a grouping column",
            "Merged",
            ("S0", "N0"),
            lambda df: _sums(df.where("S0 = 'SYM7'"), ("N0",)),
            10,
            "grouping",
        ),
        Query(
            "= on an indexed column",
            "Merged",
            ("N1", "N0"),
            lambda df: _sums(df.where("N1 = 77"), ("N0",)),
            10,
            "index",
        ),
        Query("max of texts", "Wide", texts, lambda frame: frame.agg(*map(f.max, texts)).collect(), 2, "texts"),
        Query("sum of all numbers", "Wide", numbers, lambda frame: _sums(frame, numbers), 2.5, "numbers"),
        Query("many small locations", "Small", ("N",), lambda frame: _sums(frame, ("N",)), 2.5, "small"),
    ]


def _sums(frame: DataFrame, names: tuple[str, ...]) -> Any:
    return frame.agg(*map(f.sum, names)).collect()


def _nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _grouped(frame: DataFrame) -> Any:
    return frame.groupBy("S0").agg(f.sum("N0")).agg(f.count("*"), f.sum("sum(N0)")).collect()


def readers(spark: SparkSession, tables: Tables, *, python: bool) -> dict[str, Callable[[Query], DataFrame]]:
    """What opens the table of a query, by the name of the reader."""

    def by_python(query: Query) -> DataFrame:
        options = {"root": str(tables.root), "columns": json.dumps(query.columns), "reader": "python"}
        return spark.read.format("deephaven").options(**options).load(f"NS.{query.table}")

    def parquet(query: Query, *, second: bool) -> DataFrame:
        spark.conf.set("spark.sql.sources.useV1SourceList", "" if second else "parquet")
        spark.conf.set("spark.sql.parquet.aggregatePushdown", str(second).lower())
        return spark.read.parquet(str(tables.parquet(query.table)))

    chosen: dict[str, Callable[[Query], DataFrame]] = {
        "Java": lambda query: read_frame(spark, tables.root, f"NS.{query.table}"),
        "Parquet V1": partial(parquet, second=False),
        "Parquet V2": partial(parquet, second=True),
    }
    return chosen | ({"Python": by_python} if python else {})


def measured(query: Query, chosen: Mapping[str, Callable[[Query], DataFrame]], rounds: int) -> dict[str, float]:
    """Median seconds by reader; AssertionError: the results differ."""
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    results = {}
    for number in range(rounds + WARM_UP):
        for name, reader in chosen.items():
            before = time.perf_counter()
            results[name] = query.run(reader(query))
            if number >= WARM_UP:
                seconds[name].append(time.perf_counter() - before)
    if len({str(result) for result in results.values()}) > 1:
        raise AssertionError(f"{query.name}: {results}")
    return {name: statistics.median(times) for name, times in seconds.items()}


def planned(spark: SparkSession, root: Path, name: str, rounds: int) -> float:
    """Median seconds until a frame of a table is there: opened, planned, handed over."""
    times = []
    for _ in range(rounds + WARM_UP):
        before = time.perf_counter()
        read_frame(spark, root, name)
        times.append(time.perf_counter() - before)
    return statistics.median(times[WARM_UP:])


def main(parser: argparse.ArgumentParser, given: argparse.Namespace, directory: Path) -> int:
    """Prints seconds and ratios; how many goals are missed."""
    tables = spark_tables(directory, given.rows, given.columns, given.locations, given.planned)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = (
        builder.config("spark.ui.showConsoleProgress", "false").config("spark.sparkhaven.reader", "auto").getOrCreate()
    )
    register(spark)
    if (reason := place_jar(spark, "auto")) is not None:
        raise SystemExit(f"{reason}: run java/build.py")
    missed = 0
    figures: dict[str, float] = {}
    chosen = readers(spark, tables, python=given.python)
    print(f"{'':28}" + "".join(f"{name:>12}" for name in chosen) + "   x Parquet   goal")
    for query in queries(tables.numbers, tables.texts):
        if given.queries and not any(word in query.name for word in given.queries.split(",")):
            continue
        times = measured(query, chosen, given.rounds)
        peer = min(times["Parquet V1"], times["Parquet V2"])
        ratio = peer / times["Java"]
        missed += ratio < query.goal
        name = f"spark_read.{query.figure}"
        figures |= {name: times["Java"], f"{name}.parquet": peer, f"{name}.ratio": ratio}
        shown = "".join(f"{seconds:>10.3f} s" for seconds in times.values())
        print(f"{query.name:28}{shown}{ratio:>12.2f}{query.goal:>7}", flush=True)
    if given.planned:
        seconds = planned(spark, tables.root, "NS.Planned", given.rounds)
        size = len(plan_of({"root": str(tables.root), "path": "NS.Planned"}))
        missed += seconds > given.planned / 10_000 * 0.3
        figures["spark_read.planned"] = seconds
        print(f"{given.planned:,} locations opened, planned, handed over in {seconds:.3f} s; plan of {size:,} bytes")
    spark.stop()
    record(parser, given, figures)
    return missed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--locations", type=int, default=2_000)
    parser.add_argument("--planned", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", default="", help="parts of names, separated by commas")
    parser.add_argument("--python", action="store_true", help="the reader in Python too")
    parser.add_argument("--directory", type=Path)
    add_record(parser)
    given = parser.parse_args()
    if given.directory is not None:
        sys.exit(1 if main(parser, given, given.directory) else 0)
    with scratch("spark-read") as directory:
        sys.exit(1 if main(parser, given, directory) else 0)
