"""Conditions of DuckDB's plan as where-expressions of ours, so that statistics can skip rows by them.

DuckDB applies its conditions itself: an expression here may keep more rows, never fewer. What is not understood is left
out. ``Condition.exact`` says that an expression keeps the very same rows; only such a one can be negated.

The plan that DuckDB has optimised tells, for each scan, the conditions that it gives to the scan and those that stand
right above it: rows that do not match them cannot change the result. A table that is scanned more than once is read by
what any scan needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkhaven.readers.sql.engine import Tree
from sparkhaven.store.expressions.predicate.expression import Predicate, comparison, is_null, joined, member, negated
from sparkhaven.store.expressions.predicate.nodes import MIRROR, Literal, PredicateError, Sort, sort_of
from sparkhaven.store.expressions.predicate.syntax import MAX_LITERALS
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.types.model import Column

Parse = Callable[[str], Tree | None]  # a condition as a syntax tree
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


def pushed(plan: Tree, tables: Sequence[ScannedTable], parse: Parse) -> list[Predicate | None]:
    """Of each table the condition that every row matches which the query needs; None: it may need them all."""
    scans: dict[str, list[_Scan]] = {table.prefix: [] for table in tables}
    for leaf, scan in _leaves(plan, ()):
        text = json.dumps([leaf.get("extra_info", {}), scan.columns])
        prefixes = [prefix for prefix in scans if prefix in text]
        if leaf["name"] == SCAN and len(prefixes) == 1:
            scans[prefixes[0]].append(scan)
        elif leaf["name"] == SCAN or prefixes:  # which table it reads is not known: nothing can be skipped
            return [None] * len(tables)
    return [_any_of([_pushed(scan, table, parse) for scan in scans[table.prefix]]) for table in tables]


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
    distinct = dict.fromkeys(where for where in conditions if where is not None)
    return joined("||", distinct) if distinct and None not in conditions else None


def _pushed(scan: _Scan, table: ScannedTable, parse: Parse) -> Predicate | None:
    trees = [tree for tree in map(parse, scan.conditions) if tree is not None]
    parts = dict.fromkeys(part.where for tree in trees for part in conjuncts(tree, table.columns))
    return joined("&&", parts) if parts else None


SIGNS = {
    "COMPARE_EQUAL": "==",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
WHOLE = ("byte", "short", "int", "long", "char")
CAST_TO = {Sort.DATE: "DATE", Sort.TIME: "TIME_NS", Sort.DECIMAL: "DECIMAL"}  # how a plan has constants of a sort
LAST_BEFORE_SURROGATES = 0xD7FE


@dataclass(frozen=True, slots=True)
class Condition:
    """A where-expression, and whether it keeps the very rows of the condition that it stands for."""

    where: Predicate
    exact: bool


def conjuncts(tree: Tree, columns: Mapping[str, Column]) -> list[Condition]:
    """What of a condition is understood; each part must hold. ``columns``: by their names in the plan."""
    if tree.get("type") == "CONJUNCTION_AND":
        return [condition for child in tree["children"] for condition in conjuncts(child, columns)]
    condition = _condition(tree, columns)
    return [] if condition is None else [condition]


def _condition(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    make = _MAKERS.get(str(tree.get("type")))
    if make is not None:
        return make(tree, columns)
    sign = SIGNS.get(str(tree.get("type")))
    if sign is None:
        return None
    left, right = tree["left"], tree["right"]
    if (column := _column(left, columns)) is not None:
        return _compared(column, sign, right)
    column = _column(right, columns)
    return None if column is None else _compared(column, MIRROR[sign], left)


def _both(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    """A conjunction inside of another condition; parts that are not understood make it inexact."""
    parts, complete = _understood(tree, columns)
    return Condition(_joined("&&", parts), complete and all(part.exact for part in parts)) if parts else None


def _either(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    parts, complete = _understood(tree, columns)
    return Condition(_joined("||", parts), all(part.exact for part in parts)) if complete else None


def _understood(tree: Tree, columns: Mapping[str, Column]) -> tuple[list[Condition], bool]:
    parts = [part for child in tree["children"] if (part := _condition(child, columns)) is not None]
    return parts, len(parts) == len(tree["children"])


def _not(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    inner = _condition(tree["children"][0], columns)
    return Condition(negated(inner.where), True) if inner is not None and inner.exact else None


def _flag(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    column = _column(tree, columns)
    return Condition(comparison(column, "==", True), True) if column and column.type.name == "Boolean" else None


def _null(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    column = _column(tree["children"][0], columns)
    if column is None:
        return None
    where = is_null(column)
    return Condition(negated(where) if tree["type"] == "OPERATOR_IS_NOT_NULL" else where, True)


def _between(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    """A plan writes BETWEEN for exclusive bounds too."""
    column = _column(tree["input"], columns)
    if column is None:
        return None
    bounds = [_compared(column, ">=", tree["lower"]), _compared(column, "<=", tree["upper"])]
    parts = [part for part in bounds if part is not None]
    return Condition(_joined("&&", parts), False) if parts else None


def _member(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    column, *listed = tree["children"]
    column = _column(column, columns)
    if column is None or column.type.name in ("float", "double", "Boolean") or len(listed) > MAX_LITERALS:
        return None
    values = [value for item in listed if (value := _literal(column, item)) is not None]
    try:
        return Condition(member(column, values), True) if len(values) == len(listed) else None
    except PredicateError:
        return None


def _function(tree: Tree, columns: Mapping[str, Column]) -> Condition | None:
    """LIKE 'text%', which a plan has as ``prefix``."""
    if tree.get("function_name") not in ("prefix", "starts_with") or len(tree["arguments"]) != 2:
        return None
    of, start = (argument["expression"] for argument in tree["arguments"])
    column, text = _column(of, columns), _string(start)
    if column is None or column.type.name != "String" or not text:
        return None
    bounds = [comparison(column, ">=", text)]
    if ord(text[-1]) <= LAST_BEFORE_SURROGATES:
        bounds.append(comparison(column, "<", text[:-1] + chr(ord(text[-1]) + 1)))
    return Condition(joined("&&", bounds, bracketed=False), False)


_MAKERS: dict[str, Callable[[Tree, Mapping[str, Column]], Condition | None]] = {
    "CONJUNCTION_AND": _both,
    "CONJUNCTION_OR": _either,
    "OPERATOR_NOT": _not,
    "OPERATOR_IS_NULL": _null,
    "OPERATOR_IS_NOT_NULL": _null,
    "COLUMN_REF": _flag,
    "COMPARE_BETWEEN": _between,
    "COMPARE_IN": _member,
    "FUNCTION": _function,
}


def _joined(sign: str, parts: Sequence[Condition]) -> Predicate:
    return joined(sign, (part.where for part in parts))


def _column(tree: Tree, columns: Mapping[str, Column]) -> Column | None:
    if tree.get("type") != "COLUMN_REF" or len(tree["column_names"]) != 1:
        return None
    return columns.get(tree["column_names"][0])


def _compared(column: Column, sign: str, tree: Tree) -> Condition | None:
    if column.type.name in ("float", "double"):
        return _bounded(column, sign, _number(tree))
    if column.type.name == "Boolean" and sign not in ("==", "!="):
        return None
    value = _literal(column, tree)
    try:
        return None if value is None else Condition(comparison(column, sign, value), True)
    except PredicateError:  # a date that Python has not, or 24:00
        return None


def _bounded(column: Column, sign: str, text: str | None) -> Condition | None:
    """A comparison with a decimal number, which may have been rounded: one step wider on each side."""
    if text is None or sign == "!=":
        return None
    kind = np.float32 if column.type.name == "float" else np.float64
    with np.errstate(over="ignore"):
        value = kind(float(text))
        low, high = float(np.nextafter(value, kind(-math.inf))), float(np.nextafter(value, kind(math.inf)))
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    bounds = [comparison(column, ">=", low)] if sign in (">", ">=", "==") else []
    bounds += [comparison(column, "<=", high)] if sign in ("<", "<=", "==") else []
    return Condition(joined("&&", bounds, bracketed=False), False)


def _literal(column: Column, tree: Tree) -> Literal | None:
    """A constant as a literal beside that column; None if it is of another kind."""
    if column.type.name in WHOLE:
        text = _number(tree)
        return int(text) if text is not None and text.lstrip("-").isdigit() else None
    if column.type.name == "Instant":
        return _instant(tree)
    if (type_name := CAST_TO.get(sort_of(column.type))) is not None:
        return None if pa.types.is_decimal256(column.type.arrow) else _cast_text(tree, type_name)
    constant = _constant(tree)
    if column.type.name == "String" and constant and constant["kind"] == "STRING":
        return str(constant["text"])
    if column.type.name == "Boolean" and constant and constant["kind"] == "BOOLEAN":
        return bool(constant["text"] == "true")
    return None


def _constant(tree: Tree) -> Tree | None:
    return tree["literal"] if tree.get("type") == "VALUE_CONSTANT" and "literal" in tree else None


def _string(tree: Tree) -> str | None:
    constant = _constant(tree)
    return str(constant["text"]) if constant and constant["kind"] == "STRING" else None


def _number(tree: Tree) -> str | None:
    """A number, with or without a sign and a cast to a type of numbers."""
    if tree.get("type") == "FUNCTION" and tree.get("function_name") == "-" and len(tree["arguments"]) == 1:
        inner = _number(tree["arguments"][0]["expression"])
        return None if inner is None or inner.startswith("-") else f"-{inner}"
    if tree.get("type") == "OPERATOR_CAST":
        return _number(tree["child"])
    constant = _constant(tree)
    return str(constant["text"]) if constant and constant["kind"] in ("INTEGER", "NUMERIC") else None


def _cast_text(tree: Tree, type_name: str) -> str | None:
    """The text of ``'2024-03-05'::DATE``, with this name of a type."""
    if tree.get("type") != "OPERATOR_CAST" or tree["type_expr"].get("type_name") != type_name:
        return None
    return _string(tree["child"])


def _instant(tree: Tree) -> int | None:
    """Nanoseconds of ``'2026-11-21 09:30:00+00'::TIMESTAMPTZ_NS``."""
    text = _cast_text(tree, "TIMESTAMPTZ_NS")
    if text is None or not text.endswith("+00"):
        return None
    try:
        return parse_instant(text.removesuffix("+00") + "Z")
    except ValueError:
        return None
