"""Every change of a schema under Spark: frames, views and SQL of before and after it, and a query that runs through it.

The changes, and what each row had when it was written, are those of ``tests.support.schemas``. Each frame is asked
twice in a query, and again after the change; one query asks all tables. Real Spark.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.schemas.altered_table import AlteredTable
from tests.support.schemas.changes import CHANGES, FIRST, B, Change, Columns, K
from tests.support.schemas.doors import same_rows
from tests.support.schemas.moments import begun, steps
from tests.support.streams.schema_site import TABLE

pytestmark = pytest.mark.spark

ROW = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
Rows = dict[str, list[tuple[Any, ...]]]


def changes() -> dict[str, Change]:
    """Those that change something, and one that tries all that are refused, one after the other."""
    effective = {name: change for name, change in CHANGES.items() if change.effective}
    refused = [c for name, c in CHANGES.items() if name not in effective and c.first == FIRST]
    whole = tuple(step for change in refused for step in change.steps if step.refused is not None)
    return effective | {"refused": Change(FIRST, tuple(replace(step, words=()) for step in whole))}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, AlteredTable]:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    found = {name: AlteredTable(tmp_path / re.sub(r"\W", "_", name), change) for name, change in changes().items()}
    for table in found.values():
        table.base.mkdir()
        begun(table)
    return found


@pytest.fixture
def spark_alone(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    for query in spark.streams.active:
        query.stop()


def of_all(frames: dict[str, DataFrame]) -> DataFrame:
    """One frame of all: the name of each table, and its rows as JSON."""
    named = [frame.selectExpr(f"'{name}' AS name", ROW) for name, frame in frames.items()]
    return reduce(DataFrame.union, named)


def rows_of(frame: DataFrame, shown: dict[str, Columns]) -> Rows:
    """The rows of each table, in its columns."""
    found: Rows = defaultdict(list)
    for name, text in frame.collect():
        row = json.loads(text)
        assert list(row) == list(shown[name]), (name, row)
        found[name].append(tuple(row.values()))
    return found


def require(found: Rows, expected: dict[str, list[tuple[Any, ...]]], what: str) -> None:
    for name, rows in expected.items():
        same_rows(found[name], rows, f"{what} of {name}")


def twice(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [*rows] * 2


def test_every_change_in_frames_views_sql_and_a_running_query(
    spark_alone: SparkSession, tables: dict[str, AlteredTable]
) -> None:
    spark = spark_alone
    first = {name: table.change.first for name, table in tables.items()}
    then = {name: twice(table.expected(table.shown)) for name, table in tables.items()}
    before = {name: frame(spark, table) for name, table in tables.items()}
    before = {name: opened.union(view(spark, name, opened)) for name, opened in before.items()}
    streams = {name: frame(spark, table, stream=True) for name, table in tables.items()}
    streamed: Rows = defaultdict(list)

    def collect(batch: DataFrame, number: int) -> None:
        del number
        for name, rows in rows_of(batch, first).items():
            streamed[name].extend(rows)

    query = of_all(streams).writeStream.foreachBatch(collect).trigger(processingTime="2 seconds").start()
    require(rows_of(of_all(before), first), then, "a frame and its view")
    query.processAllAvailable()

    for table in tables.values():
        steps(table, anew=False)

    require(rows_of(of_all(before), first), then, "a frame and a view of before")
    shown = {name: table.shown for name, table in tables.items()}
    opened = {name: frame(spark, table) for name, table in tables.items()}
    now = {name: of_now.union(view(spark, name, of_now)) for name, of_now in opened.items()}
    require(rows_of(of_all(now), shown), {n: twice(t.expected(t.shown)) for n, t in tables.items()}, "a frame of after")
    query.processAllAvailable()
    query.stop()
    require(streamed, {name: table.expected(first[name]) for name, table in tables.items()}, "readStream")


def test_a_query_and_a_frame_of_before_a_rename_name_the_column_that_later_files_lack(
    spark_alone: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    table = AlteredTable(tmp_path, CHANGES["rename"])
    begun(table)
    streamed: list[Any] = []

    def collect(batch: DataFrame, number: int) -> None:
        streamed.extend((number, row.K, row.B) for row in batch.collect())

    query = frame(spark_alone, table, stream=True).writeStream.foreachBatch(collect).start()
    query.processAllAvailable()
    steps(table)  # the last row is in a location of its own
    with pytest.raises(Exception, match=r"the schema has changed since the table was opened. Column B"):
        query.processAllAvailable()
    values = table.expected({"K": K, "B": B})
    assert [row[1:] for row in streamed] == values[: len(streamed)]
    assert [tuple(row) for row in frame(spark_alone, table).select("K", "N").sort("K").collect()] == values


def frame(spark: SparkSession, table: AlteredTable, *, stream: bool = False) -> DataFrame:
    reading: Any = spark.readStream if stream else spark.read
    found: DataFrame = reading.format("deephaven").option("root", str(table.root)).load(TABLE)
    return found


def view(spark: SparkSession, name: str, opened: DataFrame) -> DataFrame:
    """All rows by SQL over a view of the frame."""
    names = re.sub(r"\W", "_", name)
    opened.createOrReplaceTempView(names)
    return spark.sql(f"SELECT * FROM {names} WHERE K > 0")
