"""Evaluates conditions on statistics only: may return outcomes that do not occur, never omits one."""

from __future__ import annotations

from collections.abc import Mapping

from sparkhaven.store.expressions.predicate.nodes import COMPARISONS, MIRROR, Literal, PredicateNode
from sparkhaven.store.types.committed_columns import RangeStats

TRUE, FALSE, NULL = 1, 2, 4  # outcomes that a range may have, as bits
ANY = TRUE | FALSE | NULL


def outcomes(node: PredicateNode, stats: Mapping[str, RangeStats | None]) -> int:
    """Every outcome that some row of the range may have; may name too many, never too few."""
    if node.op == "literal":
        return TRUE if node.value else FALSE
    if node.op == "not":
        inner = outcomes(node.parts[0], stats)
        return (inner & NULL) | (FALSE if inner & TRUE else 0) | (TRUE if inner & FALSE else 0)
    if node.op in ("and", "or"):
        absorbing, neutral = (FALSE, TRUE) if node.op == "and" else (TRUE, FALSE)
        parts = [outcomes(part, stats) for part in node.parts]
        united = absorbing if any(o & absorbing for o in parts) else 0
        free = [o & ~absorbing for o in parts]
        if all(free):
            united |= NULL if any(o & NULL for o in free) else 0
            united |= neutral if all(o & neutral for o in free) else 0
        return united
    if node.op == "isnull":
        return _null_outcomes(node.parts[0], stats)
    if node.op == "column":
        return _column_outcomes("=", node, True, stats)
    if node.op == "in":
        assert isinstance(node.value, tuple)  # noqa: S101 - made by the parser
        members = [_column_outcomes("=", node.parts[0], value, stats) for value in node.value]
        return ANY if any(o & TRUE for o in members) else FALSE | (members[0] & NULL)
    if node.op in COMPARISONS:
        left, right = node.parts
        if right.op == "literal" and not isinstance(right.value, tuple):
            return _column_outcomes(node.op, left, right.value, stats)
        if left.op == "literal" and not isinstance(left.value, tuple):
            return _column_outcomes(MIRROR[node.op], right, left.value, stats)
    return ANY


def _null_outcomes(node: PredicateNode, stats: Mapping[str, RangeStats | None]) -> int:
    column_stats = stats.get(str(node.value)) if node.op == "column" else None
    if column_stats is None:
        return ANY
    rows = column_stats.stop - column_stats.start
    return (TRUE if column_stats.nulls > 0 else 0) | (FALSE if column_stats.nulls < rows else 0)


def _column_outcomes(op: str, node: PredicateNode, value: Literal, stats: Mapping[str, RangeStats | None]) -> int:
    """Outcomes of ``column op value``."""
    column_stats = stats.get(str(node.value)) if node.op == "column" else None
    if column_stats is None:
        return ANY
    rows = column_stats.stop - column_stats.start
    possible = NULL if column_stats.nulls else 0
    if column_stats.nans:  # NaN is above every literal
        possible |= TRUE if op in (">", ">=", "<>") else FALSE
    if column_stats.nulls + column_stats.nans >= rows:
        return possible
    low, high = column_stats.low, column_stats.high
    if low is None or high is None or isinstance(low, str) != isinstance(value, str):
        return possible | TRUE | FALSE
    return possible | _range_outcomes(op, low, high, value)


def _range_outcomes(op: str, low: Literal, high: Literal, value: Literal) -> int:
    """Outcomes of ``x op value`` for some x in the closed range; Python compares numbers exactly."""
    below, above = low < value, high > value  # type: ignore[operator]
    inside = low <= value <= high  # type: ignore[operator]
    if op == "=":
        return (TRUE if inside else 0) | (FALSE if low != high or not inside else 0)
    if op == "<>":
        return (FALSE if inside else 0) | (TRUE if low != high or not inside else 0)
    if op == "<":
        return (TRUE if below else 0) | (FALSE if high >= value else 0)  # type: ignore[operator]
    if op == "<=":
        return (TRUE if low <= value else 0) | (FALSE if above else 0)  # type: ignore[operator]
    if op == ">":
        return (TRUE if above else 0) | (FALSE if low <= value else 0)  # type: ignore[operator]
    return (TRUE if high >= value else 0) | (FALSE if below else 0)  # type: ignore[operator]
