"""Plans and conditions by themselves: what must not be pushed down, whatever DuckDB makes of a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from sparkhaven.readers.sql.conditions import FILTER, SCAN, ScannedTable, conjuncts, pushed
from sparkhaven.readers.sql.engine import Tree, connected, syntax_tree
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.tables.small_tables import SCHEMA


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with connected() as made:
        yield made


def table(prefix: str = "t0") -> ScannedTable:
    schema = parse_schema(SCHEMA.encode(), "NS.T.schema").schema
    return ScannedTable(prefix, {f"{prefix}_{column.name}": column for column in schema.columns})


def tree(connection: duckdb.DuckDBPyConnection, text: str) -> Tree:
    found: Tree = syntax_tree(connection, f"select {text}")[0]["node"]["select_list"][0]
    return found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t0_Size > 3", ["Size > 3"]),
        ("3 < t0_Size AND t0_Live", ["Size > 3", "Live == true"]),
        ("NOT (t0_Size IN (1, 2))", ["!(Size in (1, 2))"]),
        ("NOT (t0_Size BETWEEN 1 AND 2)", []),
        ("NOT (t0_Px = 1.5)", []),
        ("NOT (t0_Size = 1 AND abs(t0_Size) = 1)", []),
        ("t0_Size = 1 OR abs(t0_Size) = 1", []),
        ("t0_Px != 1.5", []),
        ("t0_Px > 1e1000", []),
        ("t0_Size > 3.5", []),
        ("Size > 3", []),
        ("t0_At > '2026-11-20 00:00:00'::TIMESTAMP", []),
        ("t0_At > 'infinity'::TIMESTAMPTZ_NS", []),
        ("t0_Note ~~ 'a_c'", []),
    ],
)
def test_conditions_become_ours_or_nothing(
    connection: duckdb.DuckDBPyConnection, condition: str, expected: list[str]
) -> None:
    found = [part.where for part in conjuncts(tree(connection, condition), table().columns)]
    assert [where.text for where in found] == expected
    assert found == [parse_predicate(text, table().columns.values()) for text in expected]


def scan(*filters: str, names: list[str] | None = None) -> dict[str, Any]:
    return {"name": SCAN, "children": [], "extra_info": {"Filters": list(filters), "Projections": names or ["t0_Size"]}}


def above(name: str, *children: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    return {"name": name, "children": list(children), "extra_info": {"Expression": text} if text else {}}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (above(FILTER, scan("t0_Size > 3"), text="t0_Live"), "(Size > 3) && (Live == true)"),
        (above(FILTER, above("STREAMING_LIMIT", scan()), text="t0_Size > 3"), None),
        (above(FILTER, above("PROJECTION", scan()), text="t0_Size > 3"), None),
        (above("HASH_JOIN", scan("t0_Size > 3"), scan("t0_Size < 1")), "(Size > 3) || (Size < 1)"),
        (above("HASH_JOIN", scan("t0_Size > 3"), scan()), None),
        (above("HASH_JOIN", scan("t0_Size > 3"), scan(names=["unknown"])), None),
        (above("HASH_JOIN", scan("t0_Size > 3"), above("NEW_SCAN", text="t0_Size")), None),
        (above("EMPTY_RESULT"), None),
    ],
)
def test_only_what_every_scan_needs_is_pushed_down(
    connection: duckdb.DuckDBPyConnection, plan: dict[str, Any], expected: str | None
) -> None:
    (found,) = pushed(plan, [table()], lambda text: tree(connection, text))
    assert found == (parse_predicate(expected, table().columns.values()) if expected else None)
