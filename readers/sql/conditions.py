"""What of a query's conditions each table can be read by, from the plan that DuckDB has optimised.

A plan tells, for each scan, the conditions that it gives to the scan and those that stand right above it: rows that
do not match them cannot change the result. A table that is scanned more than once is read by what any scan needs.

DuckDB applies its conditions itself: a condition here may keep more rows, never fewer. What is not understood is left
out.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal

import numpy as np

from sparkhaven.store.expressions.duckdb_engine import Tree, quoted
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.expressions.predicate.nodes import (
    COMPARISONS,
    Literal,
    PredicateError,
    PredicateNode,
    Sort,
    literal_node,
)
from sparkhaven.store.expressions.predicate.parsing import ConditionParser, joined, one_expression, parts_of
from sparkhaven.store.instants import day_text
from sparkhaven.store.types.codings.local_date import FIRST_DAY, LAST_DAY
from sparkhaven.store.types.model import Column

_EXACT = Context(prec=200)
UNKNOWN = PredicateNode("sql", Sort.BOOLEAN, (), "")  # may be true, false or null


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
    return [_any([_pushed(scan, table) for scan in scans[table.prefix]]) for table in tables]


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


def _any(conditions: Sequence[Predicate | None]) -> Predicate | None:
    """What one of the conditions allows; None where one of them allows every row."""
    distinct = list(dict.fromkeys(where for where in conditions if where is not None))
    return _together("or", distinct) if None not in conditions else None


def _pushed(scan: _Scan, table: ScannedTable) -> Predicate | None:
    parts = [implied(text, table.columns) for text in scan.conditions]
    return _together("and", list(dict.fromkeys(part for part in parts if part is not None)))


def implied(text: str, columns: Mapping[str, Column]) -> Predicate | None:
    """What follows from a condition of a plan; None: nothing that is understood.

    ``columns``: by their names in the plan.
    """
    try:
        statement, tree = one_expression(text)
    except PredicateError:
        return None
    node = _weaker(PlanParser(text, columns, statement).condition(tree))
    return None if node is None else Predicate(written(node), node)


def _together(op: str, parts: list[Predicate]) -> Predicate | None:
    if not parts:
        return None
    node = joined(op, [part.node for part in parts])
    return Predicate(written(node), node)


class PlanParser(ConditionParser):
    """Understands a condition as far as it can; the rest is ``UNKNOWN``."""

    def condition(self, tree: Tree) -> PredicateNode:
        try:
            return super().condition(tree)
        except PredicateError:
            return UNKNOWN

    def sql(self, tree: Tree) -> PredicateNode:
        return UNKNOWN

    def operand(self, tree: Tree) -> PredicateNode | None:
        """Decimals of more than 38 digits are texts in a plan."""
        node = super().operand(tree)
        wide = node is not None and node.op == "column" and node.digits is not None and node.digits[0] > 38
        return None if wide else node

    def comparison(self, tree: Tree, sign: str, left: Tree, right: Tree) -> PredicateNode:
        node = super().comparison(tree, sign, left, right)
        if node.op in COMPARISONS and _beyond(node.parts[1]):
            return UNKNOWN
        if node.op not in COMPARISONS or node.parts[0].sort is not Sort.FLOAT:
            return node
        return self._rounded(node)

    def between(self, tree: Tree) -> PredicateNode | None:
        """A plan writes BETWEEN for exclusive bounds too."""
        node = super().between(tree)
        return None if node is None else joined("and", [node, UNKNOWN])

    def member(self, tree: Tree) -> PredicateNode | None:
        node = super().member(tree)
        return UNKNOWN if node is None or node.parts[0].sort is Sort.FLOAT else node

    def _rounded(self, node: PredicateNode) -> PredicateNode:
        """A comparison with a number, which the plan may have rounded: one step wider on each side."""
        column, literal = node.parts
        if literal.op != "literal" or node.op == "<>":
            return UNKNOWN
        kind = np.float32 if self._by_name(str(column.value)).type.name == "float" else np.float64
        with np.errstate(over="ignore"):
            value = kind(float(literal.value))  # type: ignore[arg-type]  # a number
            low, high = float(np.nextafter(value, kind(-math.inf))), float(np.nextafter(value, kind(math.inf)))
        if not (math.isfinite(low) and math.isfinite(high)):
            return UNKNOWN
        bounds = [(">=", low)] if node.op in (">", ">=", "=") else []
        bounds += [("<=", high)] if node.op in ("<", "<=", "=") else []
        parts = [PredicateNode(sign, Sort.BOOLEAN, (column, literal_node(bound))) for sign, bound in bounds]
        return joined("and", [*parts, UNKNOWN])


def _beyond(node: PredicateNode) -> bool:
    """Whether a node is a date that no column of dates has."""
    return node.op == "literal" and node.sort is Sort.DATE and node.value not in range(FIRST_DAY, LAST_DAY + 1)


def _weaker(node: PredicateNode) -> PredicateNode | None:
    """What holds wherever the condition does, without the parts that are not understood."""
    if UNKNOWN not in parts_of(node):
        return node
    if node.op not in ("and", "or"):
        return None
    parts = [_weaker(part) for part in node.parts]
    understood = [part for part in parts if part is not None]
    complete = len(understood) == len(parts)
    return joined(node.op, understood) if understood and (complete or node.op == "and") else None


def written(node: PredicateNode) -> str:
    """A condition as SQL."""
    if node.op in ("and", "or"):
        inner = [written(part) if part.op not in ("and", "or") else f"({written(part)})" for part in node.parts]
        return f" {node.op.upper()} ".join(inner)
    if node.op == "not":
        (part,) = node.parts
        if part.op == "isnull":
            return f"{_name(part.parts[0])} IS NOT NULL"
        return f"NOT {_name(part) if part.op == 'column' else f'({written(part)})'}"
    if node.op == "isnull":
        return f"{_name(node.parts[0])} IS NULL"
    if node.op == "isnan":
        return f"isnan({_name(node.parts[0])})"
    if node.op == "column":
        return _name(node)
    if node.op == "literal":
        return _literal(node, node.value)
    if node.op == "in":
        assert isinstance(node.value, tuple)  # noqa: S101 - of this operation
        return f"{_name(node.parts[0])} IN ({', '.join(_literal(node.parts[0], value) for value in node.value)})"
    left, right = node.parts
    other = _literal(left, right.value) if right.op == "literal" else _name(right)
    return f"{_name(left)} {node.op} {other}"


def _name(node: PredicateNode) -> str:
    return f'"{node.value!s}"'


def _literal(column: PredicateNode, value: Literal | tuple[Literal, ...] | None) -> str:
    """A literal beside a column, as a comparison takes it back."""
    if value is None:
        return "NULL"
    if column.sort is Sort.DECIMAL:
        assert column.digits is not None and isinstance(value, int | Decimal)  # noqa: S101 - of its sort
        return f"{Decimal(value).scaleb(-column.digits[1], _EXACT):f}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"from_base64('{base64.b64encode(value).decode()}')"
    if isinstance(value, str):
        return quoted(value)
    assert isinstance(value, int | float | Decimal)  # noqa: S101 - a number of its sort
    if column.sort is Sort.CHAR:
        return str(value)
    if column.sort is Sort.DATE:
        return quoted(day_text(int(value)))
    if column.sort in (Sort.INSTANT, Sort.TIME):
        seconds, nanos = divmod(int(value), 10**9)
        clock = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        form = "%H:%M:%S" if column.sort is Sort.TIME else "%Y-%m-%dT%H:%M:%S"
        return f"'{clock.strftime(form)}.{nanos:09}{'Z' if column.sort is Sort.INSTANT else ''}'"
    return f"{value:f}" if isinstance(value, Decimal) else repr(value)
