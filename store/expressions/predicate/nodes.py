"""Nodes of conditions, and what their columns and literals are to a comparison. PredicateError: they do not fit.

A column and a literal are compared in one sort, the literal as a number of that sort. An Instant becomes nanoseconds, a
date days, a time nanoseconds of the day, a char its UTF-16 unit. A number beside a decimal becomes units of its last
digit, exactly as it is written: statistics hold the same numbers. A number beside a float or a double becomes the
nearest one, as DuckDB casts it.

A ``Lookup`` is what of a condition an index answers: columns that equal one of some values. Every row that the
expression keeps fulfils it; others may too. Parts that no index answers are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from sparkhaven.store.instants import parse_instant
from sparkhaven.store.types.codings.coding import UnfitError
from sparkhaven.store.types.codings.decimals import LONGEST, MOST_DIGITS
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column

SYNTAX, UNKNOWN_COLUMN, TYPES = "syntax", "unknown column", "types"
Literal = int | float | str | bool | Decimal | bytes
MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # the same with sides exchanged
COMPARISONS = tuple(MIRROR)
_INTEGERS = ("byte", "short", "int", "long")
Key = Literal | None  # None is null
_LONG_DIGITS = 19
_FAR = 1_000  # exponents beyond it are above or below every decimal
_WIDE = Context(prec=2 * LONGEST)
_EXACT = 1 << 53  # whole numbers below it are doubles


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


_FORMS = {
    Sort.INSTANT: "an Instant compares with a text like '2026-11-20T14:30:00Z'."
    " Nanoseconds since 1970 are epoch_ns(column)",
    Sort.DATE: "a date compares with a text like '2024-03-05'",
    Sort.TIME: "a time of the day compares with a text like '13:30:00.5'",
    Sort.DECIMAL: "a decimal compares with a decimal or a number like 12.34",
    Sort.BYTES: r"bytes compare with '\xAB\xCD'::BLOB or from_base64('q80=')",
    Sort.BOOLEAN: "a Boolean compares with true or false",
    Sort.TEXT: "a text compares with a text in single quotes, or with a column of texts",
    Sort.CHAR: "a char compares with a text of one character",
}


def same_kind(left: PredicateNode, right: PredicateNode, sign: str, character: int) -> None:
    """PredicateError: two columns of kinds that cannot be compared, or whose digits no type holds."""
    sorts = {left.sort, right.sort}
    numbers = (left.sort.number and right.sort.number) or sorts == {Sort.DECIMAL, Sort.INTEGER}
    if len(sorts) > 1 and not numbers:
        raise _other_kind(left, right, sign, character)
    if Sort.DECIMAL in sorts:
        forms = [node.digits or (_LONG_DIGITS, 0) for node in (left, right)]
        digits = max(precision - scale for precision, scale in forms) + max(scale for _, scale in forms)
        if digits > MOST_DIGITS:
            raise PredicateError(TYPES, character, f"at most {MOST_DIGITS} digits on both sides", f"{digits} digits")


def beside(column: Column, node: PredicateNode, literal: PredicateNode, sign: str, character: int) -> PredicateNode:
    """A literal in the sort of the column that it is compared with. PredicateError: it has no such form."""
    form = _BESIDE.get(node.sort)
    if form is not None:
        formed = form(column, node, literal, character)
        if formed is not None:
            return formed
    if literal.sort is node.sort:
        return literal
    raise _other_kind(node, literal, sign, character)


def exact_beside(column: Column, literal: PredicateNode) -> bool:
    """Whether a comparison of numbers is the same in 64 bits as in the type that DuckDB casts both sides to.

    It is not for a NaN, which Arrow and statistics do not order.
    """
    if isinstance(literal.value, float) and math.isnan(literal.value):
        return False
    whole = column.type.name not in ("float", "double")
    return not (whole and isinstance(literal.value, float) and abs(literal.value) >= _EXACT)


def _other_kind(left: PredicateNode, right: PredicateNode, sign: str, character: int) -> PredicateError:
    both = f"{left.sort.value} and {right.sort.value}"
    hint = next((text for sort, text in _FORMS.items() if sort in (left.sort, right.sort)), None)
    return PredicateError(TYPES, character, f"two of a kind for {sign}", both, hint)


def _literal(sort: Sort, value: Literal) -> PredicateNode:
    return PredicateNode("literal", sort, (), value)


def _integer(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    return literal if literal.sort.number else None


def _float(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not literal.sort.number:
        return None
    written = str(literal.value)
    if column.type.name != "float" or isinstance(literal.value, float):
        return _literal(Sort.FLOAT, float(written))
    with np.errstate(over="ignore"):
        return _literal(Sort.FLOAT, float(np.float32(written)))


def _instant(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not isinstance(literal.value, str):
        return None
    try:
        return _literal(Sort.INSTANT, parse_instant(literal.value))
    except ValueError as error:
        raise PredicateError(TYPES, character, str(error), repr(literal.value)) from None


def _char(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if isinstance(literal.value, str):
        if len(literal.value) != 1 or ord(literal.value) > 0xFFFF:
            raise PredicateError(TYPES, character, "a text of one character beside a char", repr(literal.value))
        return _literal(Sort.CHAR, ord(literal.value))
    if literal.sort is Sort.INTEGER:
        return _literal(Sort.CHAR, literal.value)  # type: ignore[arg-type]  # an int
    return None


def _date(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not isinstance(literal.value, str):
        return None
    try:
        return _literal(Sort.DATE, LocalDateCoding(compact=False).parse(literal.value))
    except UnfitError as error:
        raise PredicateError(TYPES, character, error.expected, repr(literal.value)) from None


def _time(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    if not isinstance(literal.value, str):
        return None
    try:
        return _literal(Sort.TIME, LocalTimeCoding(9).parse(literal.value))
    except UnfitError as error:
        raise PredicateError(TYPES, character, error.expected, repr(literal.value)) from None


def _decimal(column: Column, node: PredicateNode, literal: PredicateNode, character: int) -> PredicateNode | None:
    """A number in units of the last digit of the column."""
    assert node.digits is not None  # noqa: S101 - of every column of decimals
    if isinstance(literal.value, bool) or not isinstance(literal.value, int | Decimal | str):
        return None
    try:
        number = Decimal(literal.value, _WIDE)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite() or len(number.as_tuple().digits) > LONGEST:
        raise PredicateError(TYPES, character, "a number like 12.34 beside a decimal", repr(literal.value))
    return _literal(Sort.DECIMAL, _units(number, node.digits[1]))


def _units(number: Decimal, scale: int) -> int | Decimal:
    """``number`` x 10^scale; what is beyond every decimal, and next to 0, as a number that is there too."""
    if number and abs(number.adjusted()) > _FAR:
        number = Decimal(1).scaleb(_FAR if number.adjusted() > 0 else -_FAR).copy_sign(number)
    units = number.scaleb(scale, _WIDE)
    return int(units) if units == units.to_integral_value(context=_WIDE) else units


_Form = Callable[[Column, PredicateNode, PredicateNode, int], PredicateNode | None]
_BESIDE: dict[Sort, _Form] = {
    Sort.INTEGER: _integer,
    Sort.FLOAT: _float,
    Sort.INSTANT: _instant,
    Sort.CHAR: _char,
    Sort.DATE: _date,
    Sort.TIME: _time,
    Sort.DECIMAL: _decimal,
}


class Tree(Protocol):
    """A node of either language; ``value`` of the operation ``column`` is its name."""

    @property
    def op(self) -> str: ...
    @property
    def parts(self) -> Sequence[Tree]: ...
    @property
    def value(self) -> object: ...


def columns_of(tree: Tree) -> tuple[str, ...]:
    names: set[str] = set()
    todo = [tree]
    while todo:
        node = todo.pop()
        if node.op == "column":
            names.add(str(node.value))
        todo.extend(node.parts)
    return tuple(sorted(names))
