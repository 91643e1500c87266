"""Nodes of where-expressions, and the type rules of operators. PredicateError: operand types do not fit."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from sparkhaven.store.expressions.tokens import Token
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column

SYNTAX, UNKNOWN_COLUMN, TYPES = "syntax", "unknown column", "types"
Literal = int | float | str | bool
MIRROR = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # the same with sides exchanged
COMPARISONS = tuple(MIRROR)
_INTEGERS = ("byte", "short", "int", "long")


class Sort(Enum):
    INTEGER = "a whole number"
    FLOAT = "a floating-point number"
    TEXT = "a text"
    BOOLEAN = "true or false"
    INSTANT = "an Instant"
    CHAR = "a char"

    @property
    def number(self) -> bool:
        return self in (Sort.INTEGER, Sort.FLOAT)


SORTS = {
    **dict.fromkeys(_INTEGERS, Sort.INTEGER),
    "float": Sort.FLOAT,
    "double": Sort.FLOAT,
    "String": Sort.TEXT,
    "Boolean": Sort.BOOLEAN,
    "Instant": Sort.INSTANT,
    "char": Sort.CHAR,
}


_LITERALS = {bool: Sort.BOOLEAN, int: Sort.INTEGER, float: Sort.FLOAT, str: Sort.TEXT}


@frozen
class PredicateNode:
    """One operation. ``value`` is a literal, the name of a column, or the set of an ``in``."""

    op: str  # literal column == != < <= > >= && || ! in isnull isnan + - * / % neg
    sort: Sort
    parts: tuple[PredicateNode, ...] = field(default=())
    value: Literal | tuple[Literal, ...] = False


_FORMS = {
    Sort.INSTANT: 'an Instant compares with a text like "2026-11-20T14:30:00Z", or with nanoseconds',
    Sort.BOOLEAN: "a Boolean compares with true or false",
    Sort.TEXT: "a text compares with a text in quotes, or with a column of texts",
    Sort.CHAR: "a char compares with a text of one character",
}


class PredicateError(Exception):
    """What is wrong in an expression and at which character (from 1); ``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES."""

    def __init__(self, kind: str, character: int, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(found)
        self.kind, self.character, self.expected, self.found, self.hint = kind, character, expected, found, hint


def column_node(column: Column, character: int = 1) -> PredicateNode:
    sort = SORTS.get(column.type.name)
    if sort is None:
        shown = f"{column.name} of type {column.type.name}"
        raise PredicateError(TYPES, character, "a column of a basic type", shown, "only basic types can be compared")
    return PredicateNode("column", sort, (), column.name)


def literal_node(value: Literal) -> PredicateNode:
    """A literal as it is written; ``comparable`` gives it the sort of what it is beside."""
    return PredicateNode("literal", _LITERALS[type(value)], (), value)


def asked(token: Token, node: PredicateNode) -> PredicateNode:
    if token.text == "isNaN" and not node.sort.number:
        raise PredicateError(TYPES, token.character, "a number for isNaN", node.sort.value)
    return PredicateNode(token.text.lower(), Sort.BOOLEAN, (node,))


def arithmetic(token: Token, *parts: PredicateNode) -> PredicateNode:
    for part in parts:
        if not part.sort.number:
            raise PredicateError(TYPES, token.character, f"numbers for {token.text}", part.sort.value)
        if part.op == "literal" and isinstance(part.value, int) and not -(2**63) <= part.value < 2**63:
            raise PredicateError(TYPES, token.character, "a number that a long can hold", str(part.value))
    real = token.text == "/" or any(part.sort is Sort.FLOAT for part in parts)
    return PredicateNode(token.text if len(parts) == 2 else "neg", Sort.FLOAT if real else Sort.INTEGER, parts)


def comparable(left: PredicateNode, right: PredicateNode, token: Token) -> tuple[PredicateNode, PredicateNode]:
    """Both sides in one sort; texts beside an Instant or a char become numbers."""
    if Sort.INSTANT in (left.sort, right.sort):
        left, right = (_as_instant(n, token) for n in (left, right))
    elif Sort.CHAR in (left.sort, right.sort):
        left, right = (_as_char(n, token) for n in (left, right))
    same = left.sort is right.sort or (left.sort.number and right.sort.number)
    if not same:
        sorts = f"{left.sort.value} and {right.sort.value}"
        hint = next((text for sort, text in _FORMS.items() if sort in (left.sort, right.sort)), None)
        raise PredicateError(TYPES, token.character, f"two of a kind for {token.text}", sorts, hint)
    if left.sort is Sort.BOOLEAN and token.text not in ("==", "!=", "in"):
        raise PredicateError(TYPES, token.character, "== or != for true and false", token.text)
    return left, right


def _as_instant(node: PredicateNode, token: Token) -> PredicateNode:
    if node.op == "literal" and isinstance(node.value, str):
        try:
            return PredicateNode("literal", Sort.INSTANT, (), parse_instant(node.value))
        except ValueError as error:
            raise PredicateError(TYPES, token.character, str(error), repr(node.value)) from None
    if node.op == "literal" and node.sort is Sort.INTEGER:
        return PredicateNode("literal", Sort.INSTANT, (), node.value)
    return node


def _as_char(node: PredicateNode, token: Token) -> PredicateNode:
    if node.op != "literal":
        return node
    if isinstance(node.value, str):
        if len(node.value) != 1 or ord(node.value) > 0xFFFF:
            raise PredicateError(TYPES, token.character, "a text of one character beside a char", repr(node.value))
        return PredicateNode("literal", Sort.CHAR, (), ord(node.value))
    if node.sort is Sort.INTEGER:
        return PredicateNode("literal", Sort.CHAR, (), node.value)
    return node
