"""What the Spark reader in Java takes of a query: never a row too few, aggregates and limits only where they are exact.

Random tables and conditions, against the same conditions in plain Python.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.epochs.state.log_records import Withdrawn
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.undo import Withdrawal
from sparkhaven.store.types.row_ranges import RowRanges
from sparkhaven.writers.partitions import add_partition
from tests.support.spark.pushed_queries import Java, Planned, Row, Tree, shown
from tests.support.spark.pushed_queries import literal as of_type
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.merge_runs import merge

pytestmark = pytest.mark.jvm
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="L" dataType="long"/><Column name="I" dataType="int"/><Column name="S" dataType="short"/>
  <Column name="D" dataType="double"/><Column name="F" dataType="float"/>
  <Column name="Flag" dataType="Boolean"/><Column name="At" dataType="Instant"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
  <Column name="Day" dataType="LocalDate"/><Column name="C" dataType="char"/>
  <Column name="Px" dataType="BigDecimal" objectCodec="io.deephaven.util.codec.BigDecimalCodec"
    objectCodecArguments="9,2"/>
  <Column name="Long" dataType="BigDecimal" objectCodec="io.deephaven.util.codec.BigDecimalCodec"
    objectCodecArguments="20,2"/>
  <DataIndex columns="L"/><DataIndex columns="I,S"/><DataIndex columns="D"/><DataIndex columns="F"/>
  <DataIndex columns="At"/><DataIndex columns="Note"/><DataIndex columns="Day"/><DataIndex columns="Px"/>
  <DataIndex columns="Long"/><DataIndex columns="C"/><DataIndex columns="Flag"/>
</Table>
"""
DATES = ["2026-11-20", "2026-11-21", "2026-11-22"]
START = datetime(2026, 11, 20, tzinfo=UTC)
LARGE = 2**53
POOL: dict[str, list[Any]] = {
    "Date": [*DATES, "2026"],
    "Sym": ["a", "b", "c", "é", "zz", "\U0001f600", "\ufffd", "a" * 80],
    "L": [0, 1, 2, LARGE, LARGE + 1, -LARGE, -LARGE - 1, 2**63 - 1, -(2**63) + 1],
    "I": [-2, -1, 0, 1, 2],
    "S": [-2, -1, 0, 1, 2],
    "D": [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 0.001],
    "F": [0.0, -0.0, math.nan, math.inf, 1.5, -2.25],
    "Flag": [True, False],
    "At": [START + timedelta(microseconds=n) for n in range(4)],
    "Note": ["n1", "n2", "é\U0001f600", "\ufffd", "x" * 80, ""],
    "Day": [date(1969, 12, 31), date(1970, 1, 1), date(2026, 11, 20), date(9999, 12, 31)],
    "C": ["a", "z", "é", "\ufffd"],
    "Px": [Decimal("-1.25"), Decimal("0.00"), Decimal("0.01"), Decimal("9999999.99")],
    "Long": [Decimal("-1.25"), Decimal("0.00"), Decimal("123456789012345678.99"), Decimal("-999999999999999999.99")],
}
TYPES = {
    "L": "bigint",
    "I": "int",
    "S": "smallint",
    "D": "double",
    "F": "float",
    "Flag": "boolean",
    "At": "timestamp",
    "Day": "date",
    "Px": "decimal(9,2)",
    "Long": "decimal(20,2)",
}
COMPARISONS = ["=", "<=>", "<", "<=", ">", ">=", "<>"]
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def random_table(rng: random.Random, root: Path) -> SmallTable:
    """Some commits to some locations; a column of a commit may have one value only.

    Some dates are merged, with indexes or without, some have rows behind those that were merged. Rows are withdrawn.
    """
    small = SmallTable(root, SCHEMA)
    for _ in range(rng.randrange(1, 7)):
        count, rows = rng.randrange(1, rng.choice([6, 60])), {}
        for name in POOL:
            if name != "Date":
                pool = [*POOL[name], None] if rng.random() < 0.7 else [rng.choice([*POOL[name], None])]
                rows[name] = [ord(value) if name == "C" and value else value for value in rng.choices(pool, k=count)]
        small.add(rng.choice("ab"), rng.choice(DATES), rows)
    add_partition(small.fs, small.layout, "NS", "0")
    for value in sorted({key.value for key in small.log().state.locations}):
        keys = [key for key in small.log().state.locations if key.value == value and rng.random() < 0.3]
        gone = tuple(withdrawn(small.log().state.locations[key], rng) for key in sorted(keys))
        if gone:
            small.log().withdraw(partial(Withdrawal, (), "chosen", gone))
        if rng.random() < 0.5:
            merge(small.layout, value, table=small.table, format=rng.choice(["deephaven", "parquet"]))
            if rng.random() < 0.5:
                small.add(rng.choice("ab"), value, {"L": [rng.choice(POOL["L"])], "Sym": [rng.choice(POOL["Sym"])]})
        elif not gone and rng.random() < 0.5:
            small.merge_by_hand(value)
    return small


def withdrawn(location: LocationState, rng: random.Random) -> Withdrawn:
    """One row of a location."""
    row = rng.randrange(location.rows)
    return Withdrawn(location.key, location.since, RowRanges.one(row, row + 1))


def random_condition(rng: random.Random, depth: int = 0) -> Tree:
    chance = rng.random()
    if depth < 2 and chance < 0.35:
        return [rng.choice(["AND", "OR"]), [random_condition(rng, depth + 1), random_condition(rng, depth + 1)]]
    if chance < 0.45:
        return ["NOT", [random_condition(rng, depth + 1)]]
    if chance < 0.47:
        return [rng.choice(["ALWAYS_TRUE", "ALWAYS_FALSE"]), []]
    if chance < 0.5:
        return ["UNHEARD_OF", ["L", literal("L", 1)]]
    name = rng.choice([*POOL, "Date", "Date"])
    values = rng.sample(POOL[name], rng.randrange(1, min(4, len(POOL[name]) + 1)))
    kind = rng.random()
    if kind < 0.15:
        return [rng.choice(["IS_NULL", "IS_NOT_NULL"]), [name]]
    if kind < 0.4:
        return ["IN", [name, *(literal(name, value) for value in [*values, *([None] if rng.random() < 0.2 else [])])]]
    if kind < 0.5 and isinstance(values[0], str):
        part = values[0][: rng.randrange(0, 9)]
        return [rng.choice(["STARTS_WITH", "ENDS_WITH", "CONTAINS"]), [name, literal(name, part)]]
    value = None if rng.random() < 0.1 else values[0]
    sides = [name, literal(name, value)]
    return [rng.choice(COMPARISONS), sides if rng.random() < 0.8 else sides[::-1]]


def literal(name: str, value: Any) -> dict[str, str | None]:
    """A literal of a column's type."""
    return of_type(value, TYPES.get(name, "string"))


def order(value: Any) -> Any:
    """NaN is above all, both zeros are one, as in Spark."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def parsed(told: dict[str, str | None]) -> Any:
    text, kind = told["value"], told["type"]
    if text is None or kind is None or kind == "string":
        return text
    if kind == "timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text))
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=int(text))
    if kind.startswith("decimal"):
        return Decimal(text)
    if kind == "boolean":
        return text == "true"
    return float(text.replace("Infinity", "inf")) if kind in ("double", "float") else int(text)


def outcome(tree: Tree, row: Row) -> bool | None:
    """What Spark says of a condition; an unknown one is true."""
    name, children = tree
    match name:
        case "AND" | "OR":
            one, other = (outcome(child, row) for child in children)
            decisive = name == "OR"
            return decisive if decisive in (one, other) else None if None in (one, other) else not decisive
        case "NOT":
            inner = outcome(children[0], row)
            return None if inner is None else not inner
        case "ALWAYS_TRUE" | "UNHEARD_OF":
            return True
        case "ALWAYS_FALSE":
            return False
        case "IS_NULL" | "IS_NOT_NULL":
            return bool((row[children[0]] is None) == (name == "IS_NULL"))
    if isinstance(children[0], dict):
        name, children = TURNED.get(name, name), children[::-1]
    value, literals = row[children[0]], [parsed(child) for child in children[1:]]
    if name == "<=>":
        if value is None or literals[0] is None:
            return value is literals[0]
        return bool(order(value) == order(literals[0]))
    if name == "IN":
        if value is None:
            return None
        hit = any(other is not None and order(value) == order(other) for other in literals)
        return True if hit else None if None in literals else False
    if value is None or literals[0] is None:
        return None
    one, other = order(value), order(literals[0])
    return bool(
        {
            "=": lambda: one == other,
            "<>": lambda: one != other,
            "<": lambda: one < other,
            "<=": lambda: one <= other,
            ">": lambda: one > other,
            ">=": lambda: one >= other,
            "STARTS_WITH": lambda: one.startswith(other),
            "ENDS_WITH": lambda: one.endswith(other),
            "CONTAINS": lambda: other in one,
        }[name]()
    )


def has_unknown(tree: Tree) -> bool:
    return tree[0] == "UNHEARD_OF" or any(has_unknown(child) for child in tree[1] if isinstance(child, list))


def columns_of(tree: Tree) -> set[str]:
    named = {child for child in tree[1] if isinstance(child, str)}
    return named.union(*(columns_of(child) for child in tree[1] if isinstance(child, list)))


def matching(planned: Planned, conditions: list[Tree]) -> list[Row]:
    """The rows for which all conditions are true."""
    return [row for row in planned.every() if all(outcome(tree, row) is True for tree in conditions)]


SHOWN = ["L", "Sym", "Note", "Date", "Flag", "I"]


def texts_of(row: Row) -> tuple[str | None, ...]:
    return tuple(shown(row[name]) for name in SHOWN)


def aggregated(rows: list[Row], functions: list[list[str]]) -> list[str | None]:
    results: list[Any] = []
    for kind, *names in functions:
        values = [row[names[0]] for row in rows if row[names[0]] is not None] if names else rows
        if kind in ("rows", "count"):
            results.append(len(values))
        else:
            results.append((min if kind == "min" else max)(values, key=order, default=None))
    return [shown(result) for result in results]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_row_is_missing(seed: int, java: Java, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = random.Random(seed)
    planned = Planned(random_table(rng, tmp_path_factory.mktemp("root")).root, java)
    for _ in range(25):
        conditions = [random_condition(rng) for _ in range(rng.randrange(1, 3))]
        answer = java.ask(predicates=conditions, columns=SHOWN)
        assert answer == java.ask(predicates=conditions, columns=SHOWN)
        read = planned.read(answer)
        spark = [row for row in read if all(outcome(tree, row) is True for tree in conditions)]
        assert repr(spark) == repr(matching(planned, conditions)), conditions
        texts = Counter(map(tuple, answer["values"]))
        assert texts >= Counter(map(texts_of, spark)), conditions
        assert texts <= Counter(map(texts_of, read)), conditions
        exact = [tree for tree in conditions if not has_unknown(tree) and columns_of(tree) <= {"Date"}]
        assert answer["left"] <= len(conditions) - len(exact), conditions
        if not answer["left"]:
            assert repr(read) == repr(spark), conditions


def put_together(rows: list[list[Any]], functions: list[list[str]], keys: int) -> list[list[Any]]:
    """What Spark makes of the rows of tasks."""
    groups: dict[Any, list[list[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[:keys]), []).append(row[keys:])
    return [
        [*key, *(_put_together(kind, [row[number] for row in parts]) for number, (kind, *_) in enumerate(functions))]
        for key, parts in sorted(groups.items())
    ]


def _put_together(kind: str, values: list[Any]) -> str | None:
    if kind in ("rows", "count"):
        return str(sum(map(int, values)))
    texts: list[str] = [value for value in values if value is not None]
    return (min if kind == "min" else max)(texts, default=None)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_aggregates_of_plan_and_tasks_are_those_of_the_rows(
    seed: int, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_aggregates(seed, java, tmp_path_factory.mktemp("root"))


def test_the_plan_answers_counts_and_tasks_answer_extremes_of_texts(java: Java, tmp_path: Path) -> None:
    assert check_aggregates(0, java, tmp_path) == {"plan", "tasks"}


def check_aggregates(seed: int, java: Java, root: Path) -> set[str]:
    """Compares aggregates of a random table with those of its rows; who has answered."""
    rng = random.Random(seed)
    planned, answered = Planned(random_table(rng, root).root, java), set()
    for number in range(25):
        conditions = [random_condition(rng)] if number > 1 and rng.random() < 0.3 else []
        if number > 1 and rng.random() < 0.3:
            conditions.append(["=", ["Date", literal("Date", rng.choice(DATES))]])
        functions = [["rows"]] * rng.randrange(2) if number > 1 else [["rows"]]
        names = ["Sym"] if number == 1 else rng.choice([list(POOL), ["Sym", "Note"]])
        kinds = ["min", "max"] if number == 1 else ["min", "max", "count"]
        count = number if number < 2 else rng.randrange(3)
        functions += [[rng.choice(kinds), rng.choice(names)] for _ in range(count)]
        groups = ["Date"] * (rng.random() < 0.4)
        answer = java.ask(predicates=conditions, aggregates=functions, groups=groups)
        assert answer == java.ask(predicates=conditions, aggregates=functions, groups=groups)
        assert answer["limited"] is (answer["left"] == 0 and answer["aggregates"] is None)
        if answer["aggregates"] is None:
            continue
        answered.add(answer["by"])
        if answer["by"] == "tasks":
            answer["aggregates"] = put_together(answer["aggregates"], functions, len(groups))
        rows = matching(planned, conditions)
        if groups:
            values = sorted({row["Date"] for row in rows})
            expected = [
                [value, *aggregated([row for row in rows if row["Date"] == value], functions)] for value in values
            ]
        else:
            expected = [aggregated(rows, functions)]
        assert answer["aggregates"] == expected, (conditions, functions)
    return answered


def test_locations_without_a_symbol_are_passed_over(java: Java, tmp_path: Path) -> None:
    small = SmallTable(tmp_path, SCHEMA)
    large = 10_000
    small.add("a", DATES[0], {"Sym": ["b"] * large + ["a"], "L": [1] * (large + 1)})
    small.add("b", DATES[0], {"Sym": ["b", "c", None, "a" * 80], "L": [1, 2, 3, 4]})
    planned = Planned(small.root, java)

    def read(*conditions: Tree) -> list[list[str | None]]:
        answer = java.ask(predicates=list(conditions), columns=["L", "Sym"])
        assert answer["left"] == len(conditions)
        values: list[list[str | None]] = answer["values"]
        return values

    assert len(planned.rows) == 2
    assert len(read(["=", ["Sym", literal("Sym", "a")]])) == large + 1 - 2 * 4096  # the last batch alone
    assert len(read(["=", ["Sym", literal("Sym", "c")]])) == 4
    assert read(["=", ["Sym", literal("Sym", "d")]]) == []
    assert len(read(["IS_NULL", ["Sym"]])) == 4
    assert len(read(["STARTS_WITH", ["Sym", literal("Sym", "aaa")]])) == 4
    assert len(read(["=", ["Sym", literal("Sym", "b")]], ["=", ["Sym", literal("Sym", "c")]])) == 0


def test_limits_take_the_first_rows(java: Java, tmp_path: Path) -> None:
    planned = Planned(random_table(random.Random(3), tmp_path).root, java)
    total = sum(len(rows) for rows in planned.rows.values())
    for limit in (0, 1, 2, 3, total - 1, total, total + 1):
        answer = java.ask(limit=limit)
        assert len(planned.read(answer)) == min(limit, total)
        assert answer["limited"]
