"""Nodes of conditions, and what their columns and literals are to a comparison. PredicateError: they do not fit.

What of a condition an index answers: columns that equal one of some values.

Every row that the expression keeps fulfils these conditions; others may too. Parts that no index answers are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

import pyarrow as pa

from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column

SYNTAX, UNKNOWN_COLUMN, TYPES = "syntax", "unknown column", "types"
Literal = int | float | str | bool | Decimal | bytes
MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # the same with sides exchanged
COMPARISONS = tuple(MIRROR)
_INTEGERS = ("byte", "short", "int", "long")


class Sort(Enum):
    INTEGER = "a whole number"
    FLOAT = "a number with a point"
    TEXT = "a text"
    BOOLEAN = "true or false"
    INSTANT = "an Instant"
    CHAR = "a char"
    DATE = "a date"
    TIME = "a time of the day"
    DECIMAL = "a decimal"
    BYTES = "bytes"
    OTHER = "a value that is not compared"

    @property
    def number(self) -> bool:
        return self in (Sort.INTEGER, Sort.FLOAT)


_SORTS = {
    **dict.fromkeys(_INTEGERS, Sort.INTEGER),
    "float": Sort.FLOAT,
    "double": Sort.FLOAT,
    "String": Sort.TEXT,
    "Boolean": Sort.BOOLEAN,
    "Instant": Sort.INSTANT,
    "char": Sort.CHAR,
}
_CODED = (
    (pa.types.is_date, Sort.DATE),
    (pa.types.is_time, Sort.TIME),
    (pa.types.is_decimal, Sort.DECIMAL),
    (pa.types.is_binary, Sort.BYTES),
)
_LITERALS = {
    bool: Sort.BOOLEAN,
    int: Sort.INTEGER,
    float: Sort.FLOAT,
    Decimal: Sort.FLOAT,
    str: Sort.TEXT,
    bytes: Sort.BYTES,
}


@dataclass(frozen=True, slots=True)
class PredicateNode:
    """One operation. ``value`` is a literal, the name of a column, the set of an ``in``, or the text of ``sql``.

    A literal without a value is NULL, neither true nor false.

    The parts of ``sql`` are the columns that DuckDB is given for it. ``digits``: precision and scale of a column of
    decimals.
    """

    op: str  # literal column = <> < <= > >= and or not in isnull isnan sql
    sort: Sort
    parts: tuple[PredicateNode, ...] = field(default=())
    value: Literal | tuple[Literal, ...] | None = False
    digits: tuple[int, int] | None = None


class PredicateError(Exception):
    """What is wrong in an expression and at which character (from 1); ``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES."""

    def __init__(self, kind: str, character: int, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(found)
        self.kind, self.character, self.expected, self.found, self.hint = kind, character, expected, found, hint


def sort_of(kind: DataType) -> Sort:
    """What the values of a column are to a comparison."""
    if kind.coding is None:
        return _SORTS[kind.name]
    return next((sort for of_sort, sort in _CODED if of_sort(kind.arrow)), Sort.OTHER)


def column_node(column: Column) -> PredicateNode:
    sort, arrow = sort_of(column.type), column.type.arrow
    digits = (arrow.precision, arrow.scale) if sort is Sort.DECIMAL else None
    return PredicateNode("column", sort, (), column.name, digits)


def literal_node(value: Literal, sort: Sort | None = None) -> PredicateNode:
    """A literal as it is written; ``comparable`` gives it the sort of what it is beside."""
    return PredicateNode("literal", sort or _LITERALS[type(value)], (), value)


Key = Literal | None  # None is null


@dataclass(frozen=True, slots=True)
class Lookup:
    """``column`` is one of ``keys``, or all (``and``) or any (``or``) of ``parts`` hold."""

    op: str  # in and or
    column: str = ""
    keys: tuple[Key, ...] = ()
    parts: tuple[Lookup, ...] = field(default=())


def lookup_of(node: PredicateNode) -> Lookup | None:
    """The conditions of an expression; None: it has none that an index answers."""
    if node.op == "and":
        parts = [part for part in map(lookup_of, node.parts) if part is not None]
        return _all_of(parts) if parts else None
    if node.op == "or":
        either = [lookup_of(part) for part in node.parts]
        return None if None in either else Lookup("or", parts=tuple(part for part in either if part is not None))
    if node.op == "isnull":
        return _equal(node.parts[0], (None,))
    if node.op == "in":
        return _equal(node.parts[0], node.value if isinstance(node.value, tuple) else ())
    if node.op == "=":
        left, right = node.parts
        column, literal = (left, right) if right.op == "literal" else (right, left)
        if literal.op == "literal" and not isinstance(literal.value, tuple):
            return _equal(column, (literal.value,))
    if node.op == "column":
        return _equal(node, (True,))
    if node.op == "not" and node.parts[0].op == "column" and node.parts[0].sort is Sort.BOOLEAN:
        return _equal(node.parts[0], (False,))
    return None


def _equal(column: PredicateNode, keys: tuple[Key, ...]) -> Lookup | None:
    return Lookup("in", str(column.value), keys) if column.op == "column" else None


def _all_of(parts: list[Lookup]) -> Lookup:
    """Without ``and`` inside of ``and``, so that conditions on several columns stand side by side."""
    flat = [inner for part in parts for inner in (part.parts if part.op == "and" else (part,))]
    return flat[0] if len(flat) == 1 else Lookup("and", parts=tuple(flat))
