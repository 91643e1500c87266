"""Java reads batches where it can and Python does all else, behind one name: every way to ask, each asked twice."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparkhaven
from sparkhaven import errors
from sparkhaven.jobs.session.spark_jar import SETTING
from sparkhaven.testing import make_table
from tests.support.spark.readers import reader_of, sources_of

pytestmark = pytest.mark.spark

NAME = "NS.T"
DAYS = ("2026-11-20", "2026-11-21")
SUMS = [("a", 2), ("b", 4)]
USERS = "me.T"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("readers") / "db"
    for day in DAYS:
        make_table(where, NAME, {"N": [1, 2, 3], "Sym": ["a", "b", None]}, date=day)
    sparkhaven.save_table(where, USERS, pa.table({"N": [2, 4], "Sym": ["a", "b"]}))
    return where


@pytest.fixture(autouse=True)
def _asks_for_java(spark: SparkSession) -> Iterator[None]:
    with reader_of(spark, "auto"):
        sparkhaven.register(spark)
        yield


def load(spark: SparkSession, root: Path, **options: str) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).options(**options).load(NAME)


def with_java(session: SparkSession) -> SparkSession:
    session.conf.set(SETTING, "auto")
    return session


def shown(frame: DataFrame) -> str:
    """What ``explain`` shows."""
    text: str = frame._jdf.queryExecution().toString()
    return text


def sums(frame: DataFrame) -> list[tuple[str, int]]:
    rows = frame.where("Sym is not null").groupBy("Sym").agg(f.sum("N")).orderBy("Sym")
    return [(row[0], row[1]) for row in rows.collect()]


def in_thread(call: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    return results[0]


def plans_left() -> list[str]:
    return [path.name for path in Path(tempfile.gettempdir()).glob("sparkhaven-plan*")]


def test_java_reads_whichever_way_it_is_asked(spark: SparkSession, root: Path) -> None:
    spark.sql(f"create or replace global temporary view planned using deephaven options (root '{root}', path '{NAME}')")
    ways: dict[str, Callable[[SparkSession], DataFrame]] = {
        "format": lambda session: load(session, root),
        "read_frame": lambda session: sparkhaven.read_frame(session, root, NAME),
        "view": lambda session: session.table("global_temp.planned"),
        "class": lambda session: session.read.format("io.sparkhaven.spark.DeephavenSource").load(NAME, root=str(root)),
    }  # fmt: skip
    for name, way in ways.items():
        for session in (spark, with_java(spark.newSession())):
            frame = way(session)
            assert sums(frame) == SUMS == sums(frame), name
            assert in_thread(lambda frame=frame: sums(frame)) == SUMS, name
            assert in_thread(lambda way=way, session=session: sums(way(session))) == SUMS, name
            assert sources_of(frame) == {"java"}, name
    assert plans_left() == []


def executed(frame: DataFrame) -> str:
    """The plan as it was run."""
    frame.collect()
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


def test_extremes_of_texts_are_put_together_from_tasks(spark: SparkSession, root: Path) -> None:
    frame, python = load(spark, root), load(spark, root, reader="python")

    def asked(source: DataFrame) -> list[DataFrame]:
        extremes = [f.max("Sym"), f.min("Sym"), f.count("*")]
        return [
            source.agg(*extremes),
            source.groupBy("Date").agg(*extremes).orderBy("Date"),
            source.groupBy("Date").agg(f.max("Sym")).orderBy("Date").limit(1),
            source.where(f"Date = '{DAYS[1]}'").agg(*extremes),
            source.where("Date = 'never'").agg(*extremes),
        ]

    for by_tasks, plainly in zip(asked(frame), asked(python), strict=True):
        for _ in range(2):
            assert_df_equality(by_tasks, plainly, ignore_nullable=True)
    assert [tuple(row) for row in asked(frame)[0].collect()] == [("b", "a", 6)]
    assert ["aggregated by its tasks" in shown(query) for query in asked(frame)] == [True] * 4 + [False]


def test_what_two_parts_of_a_query_read_alike_is_read_once(spark: SparkSession, root: Path) -> None:
    frame, again = load(spark, root), load(spark, root)
    with_sums = [source.groupBy("Sym").agg(f.sum("N")) for source in (frame, frame, again)]
    for one, other, once in (
        (with_sums[0], with_sums[1], True),
        (with_sums[0], with_sums[2], False),  # of two moments
        (with_sums[0], frame.where("N > 1").groupBy("Sym").agg(f.sum("N")), False),
        (with_sums[0], frame.groupBy("Sym").agg(f.max("N")), False),
    ):
        both = one.unionAll(other)
        assert ("ReusedExchange" in executed(both)) is once
        rows = spark.createDataFrame([*one.collect(), *other.collect()], both.schema)
        assert_df_equality(both, rows, ignore_row_order=True)


def test_python_reads_what_java_cannot(spark: SparkSession, root: Path) -> None:
    users = spark.read.format("deephaven").option("root", str(root)).load(USERS)
    assert sums(users) == SUMS == sums(users)
    assert sources_of(users) == {"python"} and f"by Python: {USERS} is a table of a user" in shown(users)
    given = spark.read.schema("Date string, N long, Sym string").format("deephaven").load(NAME, root=str(root))
    assert sums(given) == SUMS and sources_of(given) == {"python"}
    both = load(spark, root).select("N", "Sym").unionAll(users)
    assert sums(both) == [(text, 2 * total) for text, total in SUMS] and sources_of(both) == {"java", "python"}


def test_java_reads_the_rows_of_a_condition(spark: SparkSession, root: Path) -> None:
    where = "N % 2 = 1 and Sym is not distinct from 'a' or Sym is null"
    options = f"root '{root}', path '{NAME}', where \"{where}\""
    spark.sql(f"create or replace temporary view some using deephaven options ({options})")
    ways = {
        "format": lambda: load(spark, root, where=where, reader="jvm"),
        "read_frame": lambda: sparkhaven.read_frame(spark, root, NAME, where=where, reader="jvm"),
        "view": lambda: spark.table("some"),
    }
    for name, way in ways.items():
        frame = way()
        for _ in range(2):
            assert sorted(row.N for row in frame.select("N").collect()) == [1, 1, 3, 3], name
            assert frame.where("N > 1").count() == 2, name
            assert frame.where(f"Date = '{DAYS[0]}'").limit(1).collect()[0].N == 1, name
            assert frame.agg(f.max("N"), f.min("Sym"), f.count("Sym")).collect() == [(3, "a", 2)], name
        assert sources_of(frame) == {"java"}, name
        assert f"4 of 4 rows where {where}, filters" in shown(frame), name
    assert plans_left() == []


def test_the_reader_can_be_chosen(spark: SparkSession, root: Path) -> None:
    asked = load(spark, root, reader="python")
    assert sums(asked) == SUMS and sources_of(asked) == {"python"}
    assert sources_of(sparkhaven.read_frame(spark, root, NAME, reader="python")) == {"python"}
    with reader_of(spark, "python"):
        assert sources_of(load(spark, root)) == {"python"}
        assert sources_of(sparkhaven.read_frame(spark, root, NAME)) == {"python"}
        assert sources_of(load(spark, root, reader="auto")) == {"java"}
    with reader_of(spark, "jvm"):
        assert sources_of(load(spark, root)) == {"java"}
        for call in (
            lambda: spark.read.format("deephaven").option("root", str(root)).load(USERS),
            lambda: sparkhaven.read_frame(spark, root, USERS),
        ):
            with pytest.raises(Exception) as raised:
                call()
            error = errors.from_spark(raised.value) or raised.value
            assert isinstance(error, errors.SettingsError) and error.what == "Java cannot read this"
    with reader_of(spark, "java"), pytest.raises(errors.SettingsError, match=SETTING):
        sparkhaven.register(spark)
    assert sources_of(load(spark, root)) == {"java"}
    assert plans_left() == []


def test_streams_and_writes_stay_with_python(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    rules = {
        "root": str(tmp_path / "db"),
        "stream": "x",
        "internal": '{"fixed": "a"}',
        "value": '{"fixed": "2026-11-22"}',
    }
    make_table(tmp_path / "db", NAME, {"N": [1], "Sym": ["a"]}, date=DAYS[0])
    for total in (4, 7):
        frame = load(spark, root, dates=DAYS[0]).drop("Date")
        frame.write.format("deephaven").mode("append").options(**rules).save(NAME)
        assert load(spark, tmp_path / "db").count() == total
    followed = spark.readStream.format("deephaven").option("root", str(tmp_path / "db")).load(NAME)
    writing = followed.writeStream.format("memory").queryName("followed").trigger(availableNow=True)
    writing.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(120)
    assert spark.table("followed").count() == 7
    assert plans_left() == []


def test_nothing_is_left_after_an_error(spark: SparkSession, root: Path) -> None:
    for options in ({"tiers": "all"}, {"dates": "2020-01-01"}, {"instant": "second"}):
        for load_it in (
            lambda options=options: load(spark, root, **options).count(),
            lambda: sparkhaven.read_frame(spark, root, "NS.No").count(),
        ):
            with pytest.raises(Exception) as raised:
                load_it()
            assert isinstance(errors.from_spark(raised.value), errors.SparkhavenError)
    assert plans_left() == []
