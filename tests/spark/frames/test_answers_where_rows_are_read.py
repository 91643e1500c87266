"""Aggregates that tasks answer, and few rows that the driver reads, against Spark's own answers of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import Consent
from sparkhaven.writers.partitions import add_partition
from tests.support.spark.readers import reader_of
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_runs import merge
from tests.unit.readers.test_withdrawn_rows import withdraw

pytestmark = pytest.mark.spark

SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="L" dataType="long"/><Column name="I" dataType="int"/><Column name="S" dataType="short"/>
  <Column name="B" dataType="byte"/><Column name="D" dataType="double"/><Column name="F" dataType="float"/>
  <Column name="Note" dataType="String" symbolTable="None"/><Column name="At" dataType="Instant"/>
  <DataIndex columns="L"/>
</Table>
"""
DAYS = ["2026-11-20", "2026-11-21", "2026-11-22"]
ROWS = 3000  # of a date of history: an index helps where few of them are asked for
TASKS, DRIVER = "aggregated by its tasks", "LocalTableScan"  # in what ``explain`` shows
LARGEST = 2**63 - 1


@pytest.fixture(autouse=True)
def _java(spark: SparkSession) -> Iterator[None]:
    with reader_of(spark, "jvm"):
        yield


def numbers(count: int, *, step: int = 1) -> dict[str, list[Any]]:
    """Rows with nulls in every column, a symbol that is null, and few others."""

    def some(value: Any, row: int, every: int) -> Any:
        return None if row % every == 0 else value

    rows = range(count)
    return {
        "Sym": [some(f"S{row % 7}", row, 11) for row in rows],
        "L": [some(step * row, row, 5) for row in rows],
        "I": [some(-row, row, 6) for row in rows],
        "S": [some(row % 100, row, 7) for row in rows],
        "B": [some(row % 5 - 2, row, 8) for row in rows],
        "D": [some(row / 4, row, 9) for row in rows],
        "F": [some(row / 2, row, 10) for row in rows],
        "Note": [some(f"note {row % 13}", row, 4) for row in rows],
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallTable:
    """A date of history, one of history with later rows, and one of the day of which rows were withdrawn."""
    table = SmallTable(tmp_path_factory.mktemp("answers"), SCHEMA)
    add_partition(table.fs, table.layout, "NS", "0")
    for day in DAYS[:2]:
        table.add("a", day, numbers(ROWS))
        merge(table.layout, day, table=table.table)
    table.add("a", DAYS[1], numbers(40))
    table.add("b", DAYS[2], numbers(300))
    key = next(key for key in table.log().state.locations if key.value == DAYS[2])
    withdraw(table, range(0, 300, 3), key)
    return table


def views(spark: SparkSession, root: Path) -> None:
    """Our table as ``asked``, and the same rows without any source of ours as ``plain``."""
    sparkhaven.read_frame(spark, root, "NS.T").createOrReplaceTempView("asked")
    arrow = sparkhaven.open_table(root, "NS.T").to_arrow(dictionaries=False)
    at = arrow.schema.get_field_index("At")
    plain = arrow.set_column(at, "At", arrow["At"].cast(pa.timestamp("us", "UTC")))
    spark.createDataFrame(plain).createOrReplaceTempView("plain")


def shown(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().toString()
    return text


def same(spark: SparkSession, text: str, mark: str | None) -> None:
    """One frame asked twice has the rows of the plain ones, and is answered there; None: by Spark."""
    frame = spark.sql(text.format("asked"))
    expected = sorted(map(repr, spark.sql(text.format("plain")).collect()))
    for _ in range(2):
        assert sorted(map(repr, frame.collect())) == expected, text
    marks = [known for known in (TASKS, DRIVER) if known in shown(frame)]
    assert marks == [known for known in (mark,) if known], text


SUMS = "sum(L), sum(I), sum(S), sum(B), sum(D), sum(F), count(*), count(I), count(Note)"


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (f"select {SUMS} from {{}}", TASKS),
        (f"select {SUMS}, max(Note), min(Sym) from {{}}", TASKS),
        ("select avg(D), avg(F), count(*) from {}", TASKS),
        (f"select Date, {SUMS} from {{}} group by Date", TASKS),
        (f"select Sym, {SUMS} from {{}} group by Sym", TASKS),
        ("select Sym, count(*) from {} group by Sym", TASKS),
        ("select Sym from {} group by Sym", TASKS),
        (f"select {SUMS} from {{}} where Date = '{DAYS[1]}'", TASKS),
        ("select sum(I) from {} where Date = 'never'", None),
        ("select avg(L), avg(I) from {}", None),  # Spark averages whole numbers as floating-point ones
        ("select sum(distinct I), count(distinct I) from {}", None),
        ("select sum(I + 1) from {}", None),
        ("select sum(I) filter (where B = 1) from {}", None),
        ("select sum(I) from {} where B = 1", None),
        ("select Sym, Date, sum(I) from {} group by Sym, Date", None),
        ("select Note, sum(I) from {} group by Note", None),
        ("select Sym, max(Note) from {} group by Sym", None),
    ],
)
def test_tasks_answer_for_their_rows(text: str, mark: str | None, spark: SparkSession, small: SmallTable) -> None:
    views(spark, small.root)
    same(spark, text, mark)


ONE = "Date < '2026-11-22' and L = 77"


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (f"select * from {{}} where {ONE}", DRIVER),
        (f"select Note, Sym from {{}} where {ONE} and I < -70 and Note like 'note%'", DRIVER),
        (f"select Note from {{}} where {ONE} and I > 0", DRIVER),
        (f"select Note, count(*) from {{}} where {ONE} and I > -70 group by Note", DRIVER),
        (f"select {SUMS}, min(D), max(F), min(L), max(Note), min(At) from {{}} where {ONE}", DRIVER),
        (f"select {SUMS}, min(D), max(Sym) from {{}} where {ONE} and I > 0", DRIVER),
        (f"select avg(D) from {{}} where {ONE}", DRIVER),
        (
            f"select Sym, B, Date, {SUMS} from {{}} where L in (5, 7, 77, 1000000) and Date < '3' group by 1, 2, 3",
            DRIVER,
        ),
        (f"select Sym, count(*) from {{}} where {ONE} group by Sym limit 1", DRIVER),
        (f"select * from {{}} where {ONE} limit 1", DRIVER),
        (f"select avg(L) from {{}} where {ONE}", DRIVER),
        (f"select a.L, b.I from {{0}} a join {{0}} b on a.L = b.L where a.{ONE.replace(' L', ' a.L')}", DRIVER),
        (f"select L from {{}} where {ONE} and Note = upper(Note)", None),
        (f"select L from {{}} where {ONE} and L + I = 0", None),
    ],
)
def test_the_driver_reads_few_rows(text: str, mark: str | None, spark: SparkSession, small: SmallTable) -> None:
    views(spark, small.root)
    same(spark, text, mark)


def test_no_task_reads_few_rows(spark: SparkSession, small: SmallTable) -> None:
    views(spark, small.root)
    context = spark.sparkContext
    context.setJobGroup("few", "few rows")
    try:
        assert [row.I for row in spark.sql(f"select * from asked where {ONE}").collect()] == [-77, -77]
        assert context.statusTracker().getJobIdsForGroup("few") == []
        spark.sql("select sum(I) from asked").collect()
        assert len(context.statusTracker().getJobIdsForGroup("few")) > 0
    finally:
        context._jsc.clearJobGroup()


@pytest.mark.parametrize("merged", [False, True])
def test_a_sum_that_does_not_fit_is_what_spark_says(merged: bool, spark: SparkSession, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    add_partition(small.fs, small.layout, "NS", "0")
    rows = {"L": [LARGEST] * 3 + [2] * ROWS, "Sym": ["a", "b", "a"] + ["b"] * ROWS, "I": [1] * (3 + ROWS)}
    small.add("a", DAYS[0], rows)
    if merged:
        merge(small.layout, DAYS[0], table=small.table)
    views(spark, small.root)
    where = f"where L = {LARGEST}" if merged else ""
    for text in (f"select sum(L) from asked {where}", f"select Sym, sum(L), sum(I) from asked {where} group by Sym"):
        with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            spark.sql(text).collect()
    same(spark, f"select try_sum(L), sum(I), count(*) from {{}} {where}", DRIVER if merged else TASKS)
    means = [spark.sql(f"select avg(L) from {view} {where}").collect()[0][0] for view in ("asked", "plain")]
    assert means[0] == pytest.approx(means[1], rel=1e-12)  # of floating-point numbers, in another order
    other = SmallTable(tmp_path / "least", SCHEMA)
    other.add("a", DAYS[0], {"L": [-(2**63) + 1, -(2**62), 2**62, 5]})  # a part does not fit, the whole does
    views(spark, other.root)
    assert [tuple(row) for row in spark.sql("select sum(L) from asked").collect()] == [(-(2**63) + 6,)]


def test_columns_that_were_added_or_widened_are_summed(spark: SparkSession, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.add("a", DAYS[0], numbers(100))
    wider = SCHEMA.replace('name="I" dataType="int"', 'name="I" dataType="long"').replace(
        '<Column name="At"',
        '<Column name="New" dataType="int"/><Column name="Text" dataType="String"/><Column name="At"',
    )
    small.schema = deploy(small.fs, small.layout, wider.encode(), consent=Consent(changes=True))
    small.logs.pop("s").close()
    small.add("b", DAYS[1], {**numbers(100), "New": list(range(100)), "Text": ["x"] * 100})
    views(spark, small.root)
    for text in (
        "select sum(I), sum(New), count(New), max(Text) from {}",
        "select Sym, sum(I), sum(New) from {} group by Sym",
        "select Text, sum(I), sum(New) from {} group by Text",
    ):
        same(spark, text, TASKS)


def test_very_many_symbols_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.add("a", DAYS[0], {"Sym": [f"S{row}" for row in range(90)], "I": list(range(90))})
    views(spark, small.root)
    same(spark, "select Sym, sum(I) from {} group by Sym", None)
    small.add("a", DAYS[1], {"Sym": ["S1"] * 900, "I": list(range(900))})
    views(spark, small.root)
    same(spark, "select Sym, sum(I) from {} group by Sym", TASKS)


def test_few_rows_of_a_snapshot_that_has_gone_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    add_partition(small.fs, small.layout, "NS", "0")
    small.add("a", DAYS[0], numbers(ROWS))
    merge(small.layout, DAYS[0], table=small.table)
    frame = sparkhaven.read_frame(spark, small.root, "NS.T").where("L = 77")
    assert frame.count() == 1 == frame.count()
    later = sparkhaven.read_frame(spark, small.root, "NS.T").where("L = 77")
    for path in small.layout.partitions("NS").rglob("I.dat"):
        path.unlink()
    for _ in range(2):
        with pytest.raises(Exception, match="a committed file is missing"):
            later.select("I").collect()
