"""Random queries over random tables: a frame has the answers of the same rows without any of our sources."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sparkhaven
from sparkhaven.writers.partitions import add_partition
from tests.support.conditions import literal_of, random_condition
from tests.support.examples import share_of
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_runs import merge
from tests.unit.readers.test_withdrawn_rows import withdraw

pytestmark = pytest.mark.spark
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="L" dataType="long"/><Column name="I" dataType="int"/><Column name="D" dataType="double"/>
  <Column name="Flag" dataType="Boolean"/><Column name="At" dataType="Instant"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
  <DataIndex columns="L"/><DataIndex columns="I,D"/><DataIndex columns="At"/><DataIndex columns="Note"/>
</Table>
"""
DATES = ["2026-11-20", "2026-11-21", "2026-11-22"]
START = datetime(2026, 11, 20, tzinfo=UTC)
POOL: dict[str, list[Any]] = {
    "Date": [*DATES, "2026"],
    "Sym": ["a", "b", "c", "é", "zz", "\U0001f600"],
    "L": [0, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1],
    "I": [-1, 0, 1, 2],
    "D": [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5],
    "Flag": [True, False],
    "At": [START + timedelta(microseconds=n) for n in range(4)],
    "Note": ["n1", "n2", "x" * 80],
}
QUERIES = 12  # a table


def random_table(rng: random.Random, root: Path) -> SmallTable:
    """Some dates are merged, with indexes, and some of these have further rows; of some rows are withdrawn."""
    small = SmallTable(root, SCHEMA)
    add_partition(small.fs, small.layout, "NS", "0")
    for _ in range(rng.randrange(1, 7)):
        count, rows = rng.randrange(1, rng.choice([6, 600])), {}
        for name in POOL:
            if name != "Date":
                pool = [*POOL[name], None] if rng.random() < 0.7 else [rng.choice([*POOL[name], None])]
                rows[name] = [rng.choice(pool) for _ in range(count)]
        small.add(rng.choice("ab"), rng.choice(DATES), rows)
    for value in sorted({key.value for key in small.log().state.locations}):
        keys = [key for key in sorted(small.log().state.locations) if key.value == value and rng.random() < 0.3]
        for key in keys:
            count = small.log().state.locations[key].rows
            withdraw(small, rng.sample(range(count), rng.randrange(1, count + 1)), key)
        if rng.random() < 0.6:
            merge(small.layout, value, table=small.table, format=rng.choice(["deephaven", "parquet"]))
            if rng.random() < 0.5:
                small.add(rng.choice("ab"), value, {"L": [0, 1], "Sym": ["a", None]})
    return small


def literal(name: str, value: Any) -> str:
    if value is None:
        return "null"
    if name == "At":
        return f"timestamp '{value.isoformat()}'"
    if name == "D":
        return f"double('{'NaN' if math.isnan(value) else str(value).replace('inf', 'Infinity')}')"
    return f"'{value}'" if isinstance(value, str) else str(value)


def condition(rng: random.Random, depth: int = 0) -> str:
    chance = rng.random()
    if depth < 2 and chance < 0.35:
        return f"({condition(rng, depth + 1)} {rng.choice(['and', 'or'])} {condition(rng, depth + 1)})"
    if chance < 0.45:
        return f"not ({condition(rng, depth + 1)})"
    name = rng.choice([*POOL, "Date", "Sym"])
    values = [literal(name, value) for value in rng.sample([*POOL[name], None], 2)]
    if chance < 0.55:
        return f"{name} is {rng.choice(['', 'not '])}null"
    if chance < 0.7:
        return f"{name} in ({', '.join(values)})"
    if chance < 0.8 and isinstance(POOL[name][0], str):
        text = rng.choice(POOL[name])[:2]
        pattern = rng.choice([text + "%", "%" + text, f"%{text}%"])
        return f"{name} like '{pattern}'"
    return f"{name} {rng.choice(['=', '<=>', '<', '<=', '>', '>=', '<>'])} {values[0]}"


def query(rng: random.Random) -> str:
    """A query of the view ``{view}``; the order of its rows, and which ones a limit takes, do not count."""
    source = "{view}" + (f" where {condition(rng)}" if rng.random() < 0.7 else "")
    aggregates = ["count(*)", "count(distinct Sym)", "sum(I)", "sum(D)", "avg(I)", "avg(D)", "sum(distinct I)"]
    aggregates += [f"{function}({name})" for function in ("min", "max", "count") for name in POOL]
    chosen = ", ".join(rng.sample(aggregates, rng.randrange(1, 4))) if rng.random() < 0.6 else "count(*)"
    match rng.randrange(10):
        case 0 | 1:
            return f"select {', '.join(rng.sample(list(POOL), 3))} from {source}"
        case 2 | 3:
            return f"select {chosen} from {source}"
        case 4:
            return f"select Date, {chosen} from {source} group by Date"
        case 5:
            return f"select count(*) from (select Date, count(*) from {source} group by Date limit {rng.randrange(3)})"
        case 6:
            return f"select count(*) from (select L from {source} limit {rng.randrange(9)})"
        case 7 | 8:
            by = ", ".join(rng.sample(["Sym", "Flag", "I", "Date"], rng.choice([1, 1, 2])))
            return f"select {by}, {chosen} from {source} group by {by}"
    other = f"select count(*) from {{view}} where {condition(rng)}"
    return rng.choice(
        [
            f"select count(*) from {source} union all {other}",
            "select a.Date, count(*) from {view} a join {view} b on a.Date = b.Date and a.I = b.I group by a.Date",
            f"select count(*) from (select * from {source}) where Date in (select max(Date) from {{view}})",
        ]
    )


def rows(spark: SparkSession, text: str) -> list[tuple[str, ...]]:
    """Rows as texts in an order of their own; both zeros are one."""

    def shown(value: Any) -> str:
        return repr(value + 0.0) if isinstance(value, float) else repr(value)

    return sorted(tuple(map(shown, row)) for row in spark.sql(text).collect())


def in_spark(small: SmallTable, where: str | None = None) -> pa.Table:
    """The rows of a table with types that Spark has."""
    arrow = sparkhaven.open_table(small.root, "NS.T").to_arrow(dictionaries=False, where=where)
    return arrow.set_column(arrow.schema.get_field_index("At"), "At", arrow["At"].cast(pa.timestamp("us", "UTC")))


def condition_of_ours(rng: random.Random, small: SmallTable) -> str:
    """A condition that some rows satisfy, and others do not, where there is one among a hundred."""
    table, literals = sparkhaven.open_table(small.root, "NS.T"), {name: [*map(literal_of, POOL[name])] for name in POOL}
    chosen = [random_condition(rng, literals, ["L % 2 = 0", "length(Note) > 2", "I = D"]) for _ in range(100)]
    return next((where for where in chosen if 0 < table.count(where=where) < table.count()), chosen[0])


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("seed", range(3))
def test_random_queries(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(seed)
    small = random_table(rng, tmp_path)
    sparkhaven.read_frame(spark, small.root, "NS.T").createOrReplaceTempView("asked")
    spark.createDataFrame(in_spark(small)).createOrReplaceTempView("plain")
    for number in range(share_of(QUERIES)):
        if number == QUERIES // 2:  # the others ask the rows of a condition
            where = condition_of_ours(rng, small)
            sparkhaven.read_frame(spark, small.root, "NS.T", where=where).createOrReplaceTempView("asked")
            spark.createDataFrame(in_spark(small, where)).createOrReplaceTempView("plain")
        text = query(rng)
        expected = rows(spark, text.format(view="plain"))
        for _ in range(2):
            assert rows(spark, text.format(view="asked")) == expected, text


def test_a_limit_of_groups_is_none_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    for date in DATES:
        small.add("a", date, {"L": [1, 2, 3]})
    frame = sparkhaven.read_frame(spark, small.root, "NS.T")
    for _ in range(2):
        assert [row["count"] for row in frame.groupBy().count().limit(1).collect()] == [9]
        assert [row["count"] for row in frame.groupBy("Date").count().limit(2).collect()] == [3, 3]
        assert frame.limit(4).count() == 4
        assert frame.limit(4).where("L > 5").count() == 0


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("act", ["rollback", "rollback and other rows"])
def test_rows_that_were_rolled_back_are_an_error(act: str, spark: SparkSession, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    small.add("a", DATES[0], {"L": [1]})
    small.add("b", DATES[1], {"L": [2, 3]})
    frame = sparkhaven.read_frame(spark, small.root, "NS.T")
    small.add("a", DATES[0], {"L": [4]})
    assert frame.count() == 3
    assert frame.agg({"L": "sum"}).collect()[0][0] == 6
    small.log().rollback(1)
    if act != "rollback":
        small.add("b", DATES[1], {"L": [7, 8]})
    for asked in (frame, frame.select("L"), frame.groupBy().count(), frame.where("L > 1")):
        for _ in range(2):
            with pytest.raises(Exception, match="the pinned epoch has been rolled back"):
                asked.collect()
