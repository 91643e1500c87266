"""Where-expressions as typed trees.

::

    expression = and { ("||" | "or") and }
    and        = not { ("&&" | "and") not }
    not        = ("!" | "not") not | comparison
    comparison = sum [ ("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") sum | ["not"] "in" list ]
    list       = "(" literal { "," literal } ")"          with or without brackets [ ]
    sum        = product { ("+" | "-") product }
    product    = unary { ("*" | "/" | "%") unary }
    unary      = "-" unary | primary [ ".isNull()" | ".isNaN()" ]
    primary    = number | "text" | 'text' | `text` | true | false | column | "(" expression ")"
               | ("isNull" | "isNaN") "(" sum ")" | "in" "(" sum "," literal { "," literal } ")"

Numbers compare with numbers, texts with texts, Booleans with Booleans; an Instant compares with another one, with a
text that is an ISO instant with zone, or with a whole number of nanoseconds; a char with a text of one character.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from store.instants import parse_instant
from store.nearest import meant
from store.tokens import Cursor, Token, tokens
from store.types.model import Column

MAX_DEPTH = 50
MAX_LITERALS = 10_000
SYNTAX, UNKNOWN_COLUMN, TYPES = "syntax", "unknown column", "types"
Literal = int | float | str | bool
MIRROR = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}  # the same with sides exchanged
COMPARISONS = tuple(MIRROR)
_LEXER = re.compile(
    r"""(?P<space>\s+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>==|!=|<=|>=|&&|\|\||[=<>!+\-*/%(),.\[\]])""",
    re.DOTALL,
)
_WORDS = {"and": "&&", "or": "||", "=": "=="}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_INTEGERS = ("byte", "short", "int", "long")


class Sort(Enum):
    """What a node is, as far as operators care."""

    INTEGER = "a whole number"
    FLOAT = "a floating-point number"
    TEXT = "a text"
    BOOLEAN = "true or false"
    INSTANT = "an Instant"
    CHAR = "a char"

    @property
    def number(self) -> bool:
        """Whether arithmetic takes it."""
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


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. ``value`` is a literal, the name of a column, or the set of an ``in``."""

    op: str  # literal column == != < <= > >= && || ! in isnull isnan + - * / % neg
    sort: Sort
    parts: tuple[Node, ...] = field(default=())
    value: Literal | tuple[Literal, ...] = False


class PredicateSlip(Exception):
    """What is wrong in an expression and at which character (from 1); ``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES."""

    def __init__(self, kind: str, at: int, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(found)
        self.kind, self.at, self.expected, self.found, self.hint = kind, at, expected, found, hint


def parse(text: str, columns: Iterable[Column]) -> Node:
    """The typed tree of an expression over these columns. Raises PredicateSlip."""
    parser = _Parser([_worded(token) for token in tokens(text, _LEXER, _refused)], {c.name: c for c in columns})
    node = parser.expression(0)
    if parser.here.kind != "end":
        slip = parser.here.text
        hint = {"&": "write &&", "|": "write ||"}.get(slip)
        raise PredicateSlip(SYNTAX, parser.here.at, "an operator or the end", repr(slip), hint)
    if node.sort is not Sort.BOOLEAN:
        raise PredicateSlip(TYPES, 1, "a condition", node.sort.value, "compare it with something")
    return node


def compared(sign: str, left: Column, right: Column) -> Node:
    """The comparison of two columns. Raises PredicateSlip where their types cannot be compared."""
    sides = []
    for column in (left, right):
        sort = _SORTS.get(column.type.name)
        if sort is None:
            found = f"{column.name} of type {column.type.name}"
            raise PredicateSlip(TYPES, 1, "a column of a basic type", found, "only basic types can be compared")
        sides.append(Node("column", sort, (), column.name))
    return Node(sign, Sort.BOOLEAN, _comparable(sides[0], sides[1], Token("sign", sign, 1)))


def _refused(at: int, character: str) -> PredicateSlip:
    hint = {"&": "write &&", "|": "write ||", '"': "close the text", "'": "close the text"}.get(character)
    expected = "a column, a literal or one of == != < <= > >= && || ! + - * / % ( ) , in"
    return PredicateSlip(SYNTAX, at, expected, repr(character), hint)


def _worded(token: Token) -> Token:
    """``and``, ``or`` and the like as the signs that they stand for."""
    sign = _WORDS.get(token.text)
    return token if sign is None else Token("sign", sign, token.at)


class _Parser(Cursor):
    """Recursive descent with limited depth."""

    def __init__(self, found: list[Token], columns: dict[str, Column]) -> None:
        super().__init__(found, lambda *slip: PredicateSlip(SYNTAX, *slip))
        self.columns = columns

    def deeper(self, depth: int) -> int:
        if depth >= MAX_DEPTH:
            raise PredicateSlip(SYNTAX, self.here.at, f"at most {MAX_DEPTH} levels", "a deeper expression")
        return depth + 1

    def expression(self, depth: int) -> Node:
        depth = self.deeper(depth)
        return self.joined("||", depth, lambda: self.joined("&&", depth, lambda: self.inverted(depth)))

    def joined(self, sign: str, depth: int, part: Callable[[], Node]) -> Node:
        at = self.here.at
        parts = [part()]
        while self.take(sign):
            if parts[-1].sort is not Sort.BOOLEAN:
                raise PredicateSlip(TYPES, at, f"a condition before {sign}", parts[-1].sort.value)
            at = self.here.at
            parts.append(part())
            if parts[-1].sort is not Sort.BOOLEAN:
                raise PredicateSlip(TYPES, at, f"a condition after {sign}", parts[-1].sort.value)
        return parts[0] if len(parts) == 1 else Node(sign, Sort.BOOLEAN, tuple(parts))

    def inverted(self, depth: int) -> Node:
        token = self.take("!", "not")
        if token is None:
            return self.comparison(depth)
        node = self.inverted(self.deeper(depth))
        if node.sort is not Sort.BOOLEAN:
            raise PredicateSlip(TYPES, token.at, "a condition after !", node.sort.value, "use parentheses")
        return Node("!", Sort.BOOLEAN, (node,))

    def comparison(self, depth: int) -> Node:
        left = self.sum(depth)
        token = self.here
        if token.kind == "sign" and token.text in COMPARISONS:
            self.position += 1
            left, right = _comparable(left, self.sum(depth), token)
            return Node(token.text, Sort.BOOLEAN, (left, right))
        if token.text == "not" and self.following.text == "in":
            self.position += 2
            return Node("!", Sort.BOOLEAN, (self.membership(left, token),))
        if self.take("in"):
            return self.membership(left, token)
        return left

    def membership(self, left: Node, token: Token) -> Node:
        close = ")" if self.take("(") else "]"
        if close == "]":
            self.need("[")
        return self.literals(left, token, close)

    def literals(self, left: Node, token: Token, close: str) -> Node:
        values: list[Literal] = []
        while True:
            item = self.unary(MAX_DEPTH - 2)
            if item.op != "literal":
                raise PredicateSlip(SYNTAX, self.here.at, "literals in the list", "an expression")
            _, item = _comparable(left, item, token)
            assert not isinstance(item.value, tuple)  # noqa: S101 - a literal has one value
            values.append(item.value)
            if len(values) > MAX_LITERALS:
                raise PredicateSlip(SYNTAX, self.here.at, f"at most {MAX_LITERALS} values", "more")
            if self.take(close):
                return Node("in", Sort.BOOLEAN, (left,), tuple(values))
            self.need(",")

    def sum(self, depth: int) -> Node:
        node = self.product(depth)
        while token := self.take("+", "-"):
            node = _arithmetic(token, node, self.product(depth))
        return node

    def product(self, depth: int) -> Node:
        node = self.unary(depth)
        while token := self.take("*", "/", "%"):
            node = _arithmetic(token, node, self.unary(depth))
        return node

    def unary(self, depth: int) -> Node:
        token = self.take("-")
        if token is None:
            return self.suffixed(depth)
        node = self.unary(self.deeper(depth))
        if node.op == "literal" and isinstance(node.value, int | float) and node.sort.number:
            return Node("literal", node.sort, (), -node.value)
        return _arithmetic(token, node)

    def suffixed(self, depth: int) -> Node:
        node = self.primary(depth)
        while token := self.take("."):
            word = self.take("isNull", "isNaN")
            if word is None:
                raise PredicateSlip(SYNTAX, token.at, "isNull() or isNaN() after the dot", repr(self.here.text))
            self.need("(")
            self.need(")")
            node = _asked(word, node)
        return node

    def primary(self, depth: int) -> Node:
        token = self.here
        if token.kind == "end":
            raise PredicateSlip(SYNTAX, token.at, "a column or a literal", "the end")
        self.position += 1
        if token.kind == "number":
            return _number(token)
        if token.kind == "text":
            return Node("literal", Sort.TEXT, (), _unquote(token))
        if token.kind == "sign" and token.text == "(":
            node = self.expression(depth)
            self.need(")")
            return node
        if token.kind == "name":
            return self.name(token, depth)
        raise PredicateSlip(SYNTAX, token.at, "a column or a literal", repr(token.text))

    def name(self, token: Token, depth: int) -> Node:
        call = self.here.kind == "sign" and self.here.text == "("
        if call and token.text in ("isNull", "isNaN", "in"):
            self.need("(")
            inner = self.expression(depth)
            if token.text == "in":
                self.need(",")
                return self.literals(inner, token, ")")
            self.need(")")
            return _asked(token, inner)
        column = self.columns.get(token.text)
        if column is None and token.text in ("true", "false"):
            return Node("literal", Sort.BOOLEAN, (), token.text == "true")
        if column is None and token.text == "null":
            raise PredicateSlip(SYNTAX, token.at, "isNull(column)", "null", "a comparison with null is never true")
        if column is None:
            known = (*self.columns, "isNull", "isNaN", "in", "true", "false")
            kind = SYNTAX if call else UNKNOWN_COLUMN
            expected = "isNull, isNaN or in" if call else "a column of the table"
            raise PredicateSlip(kind, token.at, expected, token.text, meant(token.text, known))
        sort = _SORTS.get(column.type.name)
        if sort is None:
            found = f"{column.name} of type {column.type.name}"
            raise PredicateSlip(TYPES, token.at, "a column of a basic type", found, "only basic types can be compared")
        return Node("column", sort, (), column.name)


def _number(token: Token) -> Node:
    if token.text.isdigit():
        if len(token.text) > 40:
            raise PredicateSlip(SYNTAX, token.at, "a number of at most 40 digits", f"{len(token.text)} digits")
        return Node("literal", Sort.INTEGER, (), int(token.text))
    value = float(token.text)
    if math.isinf(value):
        raise PredicateSlip(SYNTAX, token.at, "a number that a double can hold", token.text)
    return Node("literal", Sort.FLOAT, (), value)


def _asked(token: Token, node: Node) -> Node:
    if token.text == "isNaN" and not node.sort.number:
        raise PredicateSlip(TYPES, token.at, "a number for isNaN", node.sort.value)
    return Node(token.text.lower(), Sort.BOOLEAN, (node,))


def _arithmetic(token: Token, *parts: Node) -> Node:
    for part in parts:
        if not part.sort.number:
            raise PredicateSlip(TYPES, token.at, f"numbers for {token.text}", part.sort.value)
        if part.op == "literal" and isinstance(part.value, int) and not -(2**63) <= part.value < 2**63:
            raise PredicateSlip(TYPES, token.at, "a number that a long can hold", str(part.value))
    real = token.text == "/" or any(part.sort is Sort.FLOAT for part in parts)
    return Node(token.text if len(parts) == 2 else "neg", Sort.FLOAT if real else Sort.INTEGER, parts)


def _comparable(left: Node, right: Node, token: Token) -> tuple[Node, Node]:
    """Both sides in one sort; texts beside an Instant or a char become numbers."""
    if Sort.INSTANT in (left.sort, right.sort):
        left, right = (_as_instant(n, token) for n in (left, right))
    elif Sort.CHAR in (left.sort, right.sort):
        left, right = (_as_char(n, token) for n in (left, right))
    same = left.sort is right.sort or (left.sort.number and right.sort.number)
    if not same:
        found = f"{left.sort.value} and {right.sort.value}"
        raise PredicateSlip(TYPES, token.at, f"two of a kind for {token.text}", found, "texts stand in quotes")
    if left.sort is Sort.BOOLEAN and token.text not in ("==", "!=", "in"):
        raise PredicateSlip(TYPES, token.at, "== or != for true and false", token.text)
    return left, right


def _as_instant(node: Node, token: Token) -> Node:
    if node.op == "literal" and isinstance(node.value, str):
        try:
            return Node("literal", Sort.INSTANT, (), parse_instant(node.value))
        except ValueError as error:
            raise PredicateSlip(TYPES, token.at, str(error), repr(node.value)) from None
    if node.op == "literal" and node.sort is Sort.INTEGER:
        return Node("literal", Sort.INSTANT, (), node.value)
    return node


def _as_char(node: Node, token: Token) -> Node:
    if node.op != "literal":
        return node
    if isinstance(node.value, str):
        if len(node.value) != 1 or ord(node.value) > 0xFFFF:
            raise PredicateSlip(TYPES, token.at, "a text of one character beside a char", repr(node.value))
        return Node("literal", Sort.CHAR, (), ord(node.value))
    if node.sort is Sort.INTEGER:
        return Node("literal", Sort.CHAR, (), node.value)
    return node


def _unquote(token: Token) -> str:
    body = token.text[1:-1]
    if token.text[0] == "`":
        return body

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replace, body)
