"""Plans and conditions by themselves: what must not be pushed down, whatever DuckDB makes of a query."""

from __future__ import annotations

from typing import Any

import pytest

from sparkhaven.readers.sql.conditions import FILTER, SCAN, ScannedTable, implied, pushed
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from sparkhaven.store.schema.document.schema_file import parse_schema
from tests.support.tables.small_tables import SCHEMA


def table(prefix: str = "t0") -> ScannedTable:
    schema = parse_schema(SCHEMA.encode(), "NS.T.schema").schema
    return ScannedTable(prefix, {f"{prefix}_{column.name}": column for column in schema.columns})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("t0_Size > 3", '"Size" > 3'),
        ("3 < t0_Size AND t0_Live", '"Size" > 3 AND "Live"'),
        ("NOT (t0_Size IN (1, 2))", 'NOT ("Size" IN (1, 2))'),
        ("t0_Size IS NOT NULL", '"Size" IS NOT NULL'),
        ("t0_Size BETWEEN 1 AND 2", '"Size" >= 1 AND "Size" <= 2'),
        ("NOT (t0_Size BETWEEN 1 AND 2)", None),
        ("t0_Px = 1.5", '"Px" >= 1.4999999999999998 AND "Px" <= 1.5000000000000002'),
        ("NOT (t0_Px = 1.5)", None),
        ("t0_Px IN (1.5)", None),
        ("NOT (t0_Size = 1 AND abs(t0_Size) = 1)", None),
        ("t0_Size = 1 AND abs(t0_Size) = 1", '"Size" = 1'),
        ("t0_Size = 1 OR abs(t0_Size) = 1", None),
        ("t0_Px != 1.5", None),
        ("t0_Px > 1e1000", None),
        ("t0_Size > 3.5", '"Size" > 3.5'),
        ("Size > 3", None),
        ("no SQL", None),
        ("t0_At > '2026-11-20 00:00:00.5+00'::TIMESTAMPTZ_NS", "\"At\" > '2026-11-20T00:00:00.500000000Z'"),
        ("t0_At > 'infinity'::TIMESTAMPTZ_NS", None),
        ("t0_Note ~~ 'a_c'", "\"Note\" >= 'a' AND \"Note\" < 'b'"),
        ("prefix(t0_Note, 'a''c')", "\"Note\" >= 'a''c' AND \"Note\" < 'a''d'"),
    ],
)
def test_conditions_become_ours_or_nothing(condition: str, expected: str | None) -> None:
    found = implied(condition, table().columns)
    assert (None if found is None else found.text) == expected
    if found is not None and expected is not None:
        assert found == parse_predicate(expected, table().columns.values())


def scan(*filters: str, names: list[str] | None = None) -> dict[str, Any]:
    return {"name": SCAN, "children": [], "extra_info": {"Filters": list(filters), "Projections": names or ["t0_Size"]}}


def above(name: str, *children: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    return {"name": name, "children": list(children), "extra_info": {"Expression": text} if text else {}}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (above(FILTER, scan("t0_Size > 3"), text="t0_Live"), '"Size" > 3 AND "Live"'),
        (above(FILTER, above("STREAMING_LIMIT", scan()), text="t0_Size > 3"), None),
        (above(FILTER, above("PROJECTION", scan()), text="t0_Size > 3"), None),
        (above("HASH_JOIN", scan("t0_Size > 3"), scan("t0_Size < 1")), '"Size" > 3 OR "Size" < 1'),
        (above("HASH_JOIN", scan("t0_Size > 3"), scan()), None),
        (above("HASH_JOIN", scan("t0_Size > 3"), scan(names=["unknown"])), None),
        (above("HASH_JOIN", scan("t0_Size > 3"), above("NEW_SCAN", text="t0_Size")), None),
        (above("EMPTY_RESULT"), None),
    ],
)
def test_only_what_every_scan_needs_is_pushed_down(plan: dict[str, Any], expected: str | None) -> None:
    (found,) = pushed(plan, [table()])
    assert found == (parse_predicate(expected, table().columns.values()) if expected else None)
