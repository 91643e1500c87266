"""What of a query's conditions each table can be read by, from the plan that DuckDB has optimised.

A plan tells, for each scan, the conditions that it gives to the scan and those that stand right above it: rows that
do not match them cannot change the result. A table that is scanned more than once is read by what any scan needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkhaven.readers.sql.conditions import all_of, any_of, implied
from sparkhaven.store.expressions.duckdb_engine import Tree
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.types.model import Column

SCAN, FILTER = "PYTHON_ARROW_SCAN", "FILTER"


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """A table as a plan shows it: all names of its columns there begin with ``prefix``, and no other name does."""

    prefix: str
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class _Scan:
    columns: tuple[str, ...]
    conditions: tuple[str, ...]


def pushed(plan: Tree, tables: Sequence[ScannedTable]) -> list[Predicate | None]:
    """Of each table the condition that every row matches which the query needs; None: it may need them all."""
    scans: dict[str, list[_Scan]] = {table.prefix: [] for table in tables}
    for leaf, scan in _leaves(plan, ()):
        text = json.dumps([leaf.get("extra_info", {}), scan.columns])
        prefixes = [prefix for prefix in scans if prefix in text]
        if leaf["name"] == SCAN and len(prefixes) == 1:
            scans[prefixes[0]].append(scan)
        elif leaf["name"] == SCAN or prefixes:  # which table it reads is not known: nothing can be skipped
            return [None] * len(tables)
    return [_any_of([_condition(scan, table) for scan in scans[table.prefix]]) for table in tables]


def _leaves(node: Tree, above: tuple[str, ...]) -> Iterator[tuple[Tree, _Scan]]:
    info = node.get("extra_info", {})
    children = node.get("children", ())
    if not children:
        yield node, _Scan(_listed(info.get("Projections")), (*_listed(info.get("Filters")), *above))
    passed = (*above, *_listed(info.get("Expression"))) if node["name"] == FILTER else ()
    for child in children:
        yield from _leaves(child, passed)


def _listed(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(map(str, value))
    return () if value is None else (str(value),)


def _any_of(conditions: Sequence[Predicate | None]) -> Predicate | None:
    """What one of the conditions allows; None where one of them allows every row."""
    distinct = list(dict.fromkeys(where for where in conditions if where is not None))
    return any_of(distinct) if None not in conditions else None


def _condition(scan: _Scan, table: ScannedTable) -> Predicate | None:
    parts = [implied(text, table.columns) for text in scan.conditions]
    return all_of(list(dict.fromkeys(part for part in parts if part is not None)))
