"""One frame, one view, one cached frame asked many things, one after the other: each query sees every row. Real Spark.

Expected is what the same question gives for a frame that Spark made of the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

import sparkhaven
from sparkhaven.testing import make_table
from tests.support.examples import share_of, some_of

pytestmark = pytest.mark.spark

DAYS = "2026-11-20", "2026-11-21"
DDL = "Date string, Sym string, I int, Px double"
NAMES = [part.split()[0] for part in DDL.split(", ")]
ROWS = [(DAYS[n > 5], "abc"[n % 3], n, n / 4 if n % 4 else None) for n in range(10)]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
Question = Callable[[DataFrame, str], Any]


def rows(frame: DataFrame) -> list[str]:
    """Rows in a form that orders also where there are nulls."""
    return sorted(repr(tuple(row)) for row in frame.collect())


def low(frame: DataFrame) -> DataFrame:
    return frame.where("I < 2")


def high(frame: DataFrame) -> DataFrame:
    return frame.where("I > 6")


def sql(frame: DataFrame, text: str) -> list[str]:
    return rows(frame.sparkSession.sql(text))


def written(frame: DataFrame, place: Path) -> list[str]:
    """Two writes of one frame, read as Parquet."""
    high(frame).write.mode("overwrite").parquet(str(place / "high"))
    frame.write.mode("overwrite").parquet(str(place / "all"))
    read = frame.sparkSession.read
    return rows(read.parquet(str(place / "high"))) + rows(read.parquet(str(place / "all")))


def temporary(frame: DataFrame, name: str) -> list[int]:
    """A view of the frame, asked in sequence."""
    frame.createOrReplaceTempView(name)
    texts = "where I > 6", "", "where Sym = 'a'", "where Date = '2026-11-21'", ""
    return [frame.sparkSession.sql(f"select * from {name} {text}").count() for text in texts]


def cached(frame: DataFrame, _: str) -> list[Any]:
    """A part is cached, then all of it, and both are asked."""
    part, every = high(frame).cache(), frame.select("*")
    try:
        first = [part.count(), every.count(), part.count()]
        every.cache()
        return [*first, every.count(), high(every).count(), low(every).count(), part.count(), frame.count()]
    finally:
        part.unpersist()
        every.unpersist()


# of a frame and the name of a view of it
QUESTIONS: dict[str, Question] = {
    "where, then count": lambda d, v: [high(d).count(), d.count()],
    "count, where, count": lambda d, v: [d.count(), low(d).count(), d.count()],
    "three filters": lambda d, v: [low(d).count(), high(d).count(), d.where("Sym = 'a'").count(), d.count()],
    "filters on every type": lambda d, v: [
        d.where(text).count() for text in ("Date = '2026-11-21'", "Sym in ('a', 'b')", "Px is null", "Px > 1.5", "true")
    ],
    "union of a part and all": lambda d, v: rows(low(d).union(d)),
    "union of all and a part": lambda d, v: rows(d.union(low(d))),
    "union with itself": lambda d, v: rows(d.union(d)),
    "inner self-join": lambda d, v: rows(d.alias("x").join(low(d).alias("y"), "Sym")),
    "left join with a part": lambda d, v: rows(d.join(low(d).select("I", f.lit(1).alias("L")), "I", "left")),
    "anti and semi join": lambda d, v: [rows(d.join(high(d), "I", kind)) for kind in ("left_anti", "left_semi")],
    "exceptAll": lambda d, v: rows(d.exceptAll(high(d))),
    "intersectAll": lambda d, v: rows(d.intersectAll(d.where("Sym = 'b'"))),
    "scalar subqueries": lambda d, v: sql(
        d, f"select (select count(*) from {v} where I > 6), (select count(*) from {v}), (select max(I) from {v})"
    ),
    "correlated subquery": lambda d, v: sql(
        d, f"select * from {v} x where Px > (select avg(Px) from {v} y where y.Sym = x.Sym and y.I < 8)"
    ),
    "not in a subquery": lambda d, v: sql(d, f"select * from {v} where I not in (select I from {v} where I > 6)"),
    "exists": lambda d, v: sql(
        d, f"select * from {v} x where exists (select 1 from {v} y where y.I = x.I + 1 and y.I > 6)"
    ),
    "expression used twice": lambda d, v: sql(
        d, f"with t as (select * from {v}) select 1, count(*) from t where I > 6 union all select 2, count(*) from t"
    ),
    "view asked in sequence": lambda d, v: [
        sql(d, f"select count(*), sum(I) from {v} where {text}") for text in ("I > 6", "true", "I < 2", "true", "I = 3")
    ],
    "temporary view of it": lambda d, v: temporary(d, v + "_again"),
    "cached": cached,
    "window over a part and all": lambda d, v: [
        rows(each.withColumn("R", f.row_number().over(Window.partitionBy("Sym").orderBy("I")))) for each in (high(d), d)
    ],
    "limit, then all": lambda d, v: [d.limit(2).count(), high(d).limit(1).count(), d.count()],
    "other columns": lambda d, v: [
        rows(high(d).select("Sym")), rows(d.select("I")), rows(d.select("Px", "Date")), rows(d.drop("I"))
    ],
    "isEmpty": lambda d, v: [d.where("I > 100").isEmpty(), d.isEmpty(), d.count()],
    "first and head": lambda d, v: [
        tuple(high(d).orderBy("I").first()), tuple(d.orderBy("I").first()), len(high(d).take(9)), len(d.head(99))
    ],
    "toPandas twice": lambda d, v: [sorted(high(d).toPandas()["I"]), sorted(d.toPandas()["I"])],
    "toArrow twice": lambda d, v: [sorted(low(d).toArrow()["I"].to_pylist()), sorted(d.toArrow()["I"].to_pylist())],
    "toLocalIterator": lambda d, v: [len(list(low(d).toLocalIterator())), len(list(d.toLocalIterator()))],
    "groups and pivot": lambda d, v: [
        rows(high(d).groupBy("Sym").count()), rows(d.groupBy("Sym").count()),
        rows(d.groupBy("Date").pivot("Sym").count()),
    ],
    "distinct and dropDuplicates": lambda d, v: [
        low(d).select("Sym").distinct().count(), d.select("Sym").distinct().count(), d.dropDuplicates(["Date"]).count()
    ],
    "rdd and partitions": lambda d, v: [high(d).rdd.count(), d.rdd.count()],
    "udf": lambda d, v: [
        rows(each.select(f.udf(lambda i: i + 1, "int")("I"))) for each in (low(d), d)
    ],
    "filters that exclude each other": lambda d, v: [
        d.where("I > 6 and I < 2").count(), d.where("I > 6 or I < 2").count(), d.count()
    ],
    "cross join": lambda d, v: rows(low(d).select("I").crossJoin(d.select(f.col("I").alias("J")))),
    "rollup, cube": lambda d, v: sql(d, f"select Date, Sym, count(*) from {v} group by cube (Date, Sym)"),
    "lateral": lambda d, v: sql(
        d, f"select x.I, n from {v} x, lateral (select count(*) n from {v} y where Sym = x.Sym and y.I > 6) where I < 4"
    ),
}  # fmt: skip
FEW = [*QUESTIONS][::4]  # each of them after the others
LEAST = 16  # questions of the one frame that is asked most


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("one-frame") / "db"
    schema = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
      <Partitions keyFormula="${autobalance_single}"/><Column name="Date" dataType="String" columnType="Partitioning"/>
      <Column name="Sym" dataType="String"/><Column name="I" dataType="int"/><Column name="Px" dataType="double"/>
    </Table>"""
    for day in DAYS:
        of_day = [row for row in ROWS if row[0] == day]
        columns = {name: [row[number] for row in of_day] for number, name in enumerate(NAMES) if number}
        make_table(where, "NS.T", columns, schema=schema.encode(), date=day)
    return where


@contextmanager
def pushdown(spark: SparkSession, value: str) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, value)
    yield
    spark.conf.unset(PUSHDOWN)


def answers(frame: DataFrame, view: str, place: Path, names: Iterable[str] = QUESTIONS) -> dict[str, Any]:
    """What each question gives, all asked of the same frame and the same view, in this order."""
    frame.createOrReplaceTempView(view)
    return {name: QUESTIONS[name](frame, view) for name in names} | {"two writes": written(frame, place)}


def loaded(spark: SparkSession, root: Path) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).load("NS.T").select(*NAMES)


def view_of(spark: SparkSession, root: Path) -> DataFrame:
    options = f"root '{root}', path 'NS.T', columns '{','.join(NAMES)}'"
    spark.sql(f"create or replace temporary view declared using deephaven options ({options})")
    return spark.table("declared")


FRAMES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "read_frame": lambda spark, root: sparkhaven.read_frame(spark, root, "NS.T", columns=NAMES),
    "load": loaded,
    "declared view": view_of,
    "cached frame": lambda spark, root: loaded(spark, root).cache(),
}


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    names = {*some_of(QUESTIONS, LEAST), *some_of(FEW, 4)}
    asked = [name for name in QUESTIONS if name in names]
    return answers(spark.createDataFrame(ROWS, DDL), "plain", tmp_path_factory.mktemp("plain"), asked)


@pytest.mark.parametrize("kind", FRAMES)
def test_every_query_of_one_frame_sees_every_row(
    spark: SparkSession, root: Path, expected: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    with pushdown(spark, "false" if kind == "load" else "true"):  # a user may have set it for sources of others
        frame = FRAMES[kind](spark, root)
        asked = some_of(QUESTIONS, LEAST) if kind == "read_frame" else some_of(FEW, 4)
        answered = answers(frame, "asked", tmp_path, asked)
        frame.unpersist()
    assert {name: answer for name, answer in answered.items() if answer != expected[name]} == {}
    assert len(answered) > (share_of(30, LEAST) if kind == "read_frame" else share_of(9, 4))
