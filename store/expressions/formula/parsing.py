"""Key formulas as trees: tokens, grammar and static types. Nothing outside the grammar is accepted.

::

    formula  = "${autobalance_single}" | "__PARTITION_AUTOBALANCE_SINGLE__"
             | "${autobalance_by_first_grouping_column}" | sum
    sum      = product { ("+" | "-") product }
    product  = unary { ("*" | "/" | "%") unary }
    unary    = ("+" | "-") unary | postfix
    postfix  = primary { ".hashCode()" | "[" sum "]" }
    primary  = integer | "text" | `text` | column | token | "(" sum ")" | ("abs" | "Math.abs") "(" sum ")"

Types are those of Java: int, long, char, boolean, text, and objects: dates, times of day, decimals of one width. ``+``
with a text joins; a text and an object have a hash; the array can only be indexed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from sparkhaven.store.errors import meant
from sparkhaven.store.types.codings.coding import JavaValues
from sparkhaven.store.types.model import Column, Kind, TableSchema

MAX_DEPTH = 50
SINGLE = ("${autobalance_single}", "__PARTITION_AUTOBALANCE_SINGLE__")
BY_GROUP = "${autobalance_by_first_grouping_column}"
_ARRAY, _COUNT, _TABLE, _DAY = "__WRITABLE_PARTITIONS__", "__NUM_WRITABLE_PARTITIONS__", "__NS_TN__", "__DAY_OF_YEAR__"
_TOKENS = (_ARRAY, _COUNT, _TABLE, _DAY, *SINGLE, BY_GROUP)
_LEXER = re.compile(
    r"""(?P<space>\s+)|(?P<number>\d+)(?![\w.])|(?P<text>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<macro>\$\{\w*\})"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-+*/%()\[\].])"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)


class Token(NamedTuple):
    """``kind`` is the group of the lexer that matched, or "end"; ``character`` is its first, counted from 1."""

    kind: str
    text: str
    character: int


class Type(Enum):
    INT = "int"
    LONG = "long"
    CHAR = "char"
    BOOLEAN = "boolean"
    TEXT = "text"
    OBJECT = "an object"
    ARRAY = "the partition array"

    @property
    def number(self) -> bool:
        """Whether arithmetic takes it."""
        return self in (Type.INT, Type.LONG, Type.CHAR)


COLUMN_TYPES = {
    "Boolean": Type.BOOLEAN,
    "byte": Type.INT,
    "short": Type.INT,
    "int": Type.INT,
    "long": Type.LONG,
    "char": Type.CHAR,
    "String": Type.TEXT,
}


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """One operation on its parts. ``value`` is the constant, or the name of a column."""

    op: str  # int text column table day count array index neg + - * / % join abs hash
    type: Type
    parts: tuple[FormulaNode, ...] = field(default=())
    value: int | str = 0


class FormulaError(Exception):
    """What is wrong in a formula, and at which character (from 1)."""

    def __init__(self, code: str, character: int, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(found)
        self.code, self.character, self.expected, self.found, self.hint = code, character, expected, found, hint


def parse(text: str, schema: TableSchema) -> tuple[FormulaNode, bool]:
    """The tree of a formula, and whether it is by-group without a grouping column. Raises FormulaError."""
    bare = text.strip()
    if bare in SINGLE:
        return _balanced(None), False
    if bare == BY_GROUP:
        if not schema.grouping:
            return _balanced(None), True
        return _balanced(_column(schema.grouping[0], 1)), False
    parser = _Parser(_tokens(text), {c.name: c for c in schema.columns})
    node = parser.sum(0)
    if parser.here.kind != "end":
        raise FormulaError("E121", parser.here.character, "an operator or the end", repr(parser.here.text))
    if node.type is not Type.TEXT:
        hint = f"write {_ARRAY}[abs(...) % {_COUNT}]"
        raise FormulaError("E123", 1, "the name of a partition", f"a result of type {node.type.value}", hint)
    return node, False


def _tokens(text: str) -> list[Token]:
    """All tokens but spaces, and an end."""
    matched: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _LEXER.match(text, offset)
        if match is None:
            expected = "a number, text, column, token or one of + - * / % ( ) [ ]"
            raise FormulaError("E121", offset + 1, expected, repr(text[offset]))
        if match.lastgroup != "space":
            matched.append(Token(str(match.lastgroup), match[0], offset + 1))
        offset = match.end()
    return [*matched, Token("end", "the end", len(text) + 1)]


def _balanced(group: FormulaNode | None) -> FormulaNode:
    """``array[abs((table + text(group)).hashCode() + day) % count]``."""
    table = FormulaNode("table", Type.TEXT)
    key = table if group is None else FormulaNode("join", Type.TEXT, (table, group))
    total = FormulaNode("+", Type.INT, (FormulaNode("hash", Type.INT, (key,)), FormulaNode("day", Type.INT)))
    index = FormulaNode("%", Type.INT, (FormulaNode("abs", Type.INT, (total,)), FormulaNode("count", Type.INT)))
    return FormulaNode("index", Type.TEXT, (index,))


def _column(column: Column, character: int) -> FormulaNode:
    key_type = Type.OBJECT if isinstance(column.type.coding, JavaValues) else COLUMN_TYPES.get(column.type.name)
    if column.kind is Kind.PARTITIONING or key_type is None:
        kind = "the partitioning column" if column.kind is Kind.PARTITIONING else f"of type {column.type.name}"
        raise FormulaError(
            "E122",
            character,
            "a column that is not partitioning, of type String, Boolean, char, byte, short, int, long, LocalDate, "
            "LocalTime, or a BigDecimal or BigInteger with precision",
            f"{column.name}, {kind}",
            "use another column, or __DAY_OF_YEAR__ for the day of the year",
        )
    return FormulaNode("column", key_type, (), column.name)


class _Parser:
    """Recursive descent; the depth is limited, so no input can exhaust the stack."""

    def __init__(self, parsed: list[Token], columns: Mapping[str, Column]) -> None:
        self.tokens, self.position = parsed, 0
        self.columns = columns

    @property
    def here(self) -> Token:
        return self.tokens[self.position]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def take(self, *texts: str) -> Token | None:
        token = self.here
        if token.kind in ("sign", "name") and token.text in texts:
            self.position += 1
            return token
        return None

    def need(self, text: str) -> None:
        if self.take(text) is None:
            raise FormulaError("E121", self.here.character, repr(text), repr(self.here.text))

    def sum(self, depth: int) -> FormulaNode:
        if depth > MAX_DEPTH:
            raise FormulaError("E121", self.here.character, f"at most {MAX_DEPTH} levels", "a deeper formula")
        node = self.product(depth)
        while token := self.take("+", "-"):
            right = self.product(depth)
            if token.text == "+" and Type.TEXT in (node.type, right.type):
                if Type.ARRAY in (node.type, right.type):
                    raise FormulaError("E121", token.character, "texts, numbers, columns", Type.ARRAY.value, "index it")
                node = FormulaNode("join", Type.TEXT, (node, right))
            else:
                node = self.arithmetic(token, node, right)
        return node

    def product(self, depth: int) -> FormulaNode:
        node = self.unary(depth)
        while token := self.take("*", "/", "%"):
            node = self.arithmetic(token, node, self.unary(depth))
        return node

    def arithmetic(self, token: Token, *parts: FormulaNode) -> FormulaNode:
        for part in parts:
            if not part.type.number:
                raise FormulaError("E121", token.character, f"numbers for {token.text}", part.type.value)
        wide = any(part.type is Type.LONG for part in parts)
        op = token.text if len(parts) == 2 else "neg"
        return FormulaNode(op, Type.LONG if wide else Type.INT, parts)

    def unary(self, depth: int) -> FormulaNode:
        signs: list[Token] = []
        while token := self.take("+", "-"):
            signs.append(token)
        smallest = self.here.kind == "number" and int(self.here.text) == 2**31
        if smallest and signs and signs[-1].text == "-":
            self.position += 1
            signs.pop()
            node = FormulaNode("int", Type.INT, (), -(2**31))
        else:
            node = self.postfix(depth)
        for token in reversed(signs):
            checked = self.arithmetic(token, node)
            node = (
                checked if token.text == "-" else FormulaNode("+", checked.type, (node, FormulaNode("int", Type.INT)))
            )
        return node

    def postfix(self, depth: int) -> FormulaNode:
        node = self.primary(depth)
        while True:
            start = self.here.character
            if self.take("."):
                self.need("hashCode")
                self.need("(")
                self.need(")")
                if node.type not in (Type.TEXT, Type.OBJECT):
                    expected = "a text or an object before .hashCode()"
                    raise FormulaError("E121", start, expected, node.type.value, 'join it with ""')
                node = FormulaNode("hash", Type.INT, (node,))
            elif self.take("["):
                index = self.sum(depth + 1)
                self.need("]")
                if node.type is not Type.ARRAY or index.type not in (Type.INT, Type.CHAR):
                    types = f"{node.type.value} indexed by {index.type.value}"
                    raise FormulaError("E121", start, f"{_ARRAY}[int]", types)
                node = FormulaNode("index", Type.TEXT, (index,))
            else:
                return node

    def primary(self, depth: int) -> FormulaNode:
        token = self.here
        if token.kind == "end":
            raise FormulaError("E121", token.character, "a number, text, column or token", "the end")
        self.position += 1
        if token.kind == "number":
            if len(token.text) > 10 or int(token.text) >= 2**31:
                raise FormulaError("E121", token.character, "an int, at most 2147483647", token.text)
            return FormulaNode("int", Type.INT, (), int(token.text))
        if token.kind == "text":
            return FormulaNode("text", Type.TEXT, (), _unquote(token))
        if token.kind == "sign" and token.text == "(":
            node = self.sum(depth + 1)
            self.need(")")
            return node
        if token.kind in ("name", "macro"):
            return self.name(token, depth)
        raise FormulaError("E121", token.character, "a number, text, column or token", repr(token.text))

    def name(self, token: Token, depth: int) -> FormulaNode:
        special = {
            _ARRAY: FormulaNode("array", Type.ARRAY),
            _COUNT: FormulaNode("count", Type.INT),
            _TABLE: FormulaNode("table", Type.TEXT),
            _DAY: FormulaNode("day", Type.INT),
        }
        if token.text in special:
            return special[token.text]
        if token.text in (*SINGLE, BY_GROUP):
            hint = "write the token alone, or a formula of your own"
            raise FormulaError("E121", token.character, f"{token.text} as the whole formula", "it inside another", hint)
        if token.text in self.columns:
            return _column(self.columns[token.text], token.character)
        dotted = token.text == "Math" and self.take(".")
        if (dotted and self.take("abs")) or (token.text == "abs" and self.here.text == "("):
            self.need("(")
            inner = self.sum(depth + 1)
            self.need(")")
            wide = self.arithmetic(Token("name", "abs", token.character), inner)
            return FormulaNode("abs", wide.type, (inner,))
        names = (*self.columns, *_TOKENS, "abs")
        unknown = f"Math.{self.here.text}" if dotted else token.text
        raise FormulaError("E121", token.character, "a column or token that exists", unknown, meant(token.text, names))


def _unquote(token: Token) -> str:
    if token.text.startswith("`"):
        return token.text[1:-1]

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        character = token.character + 1 + match.start()
        raise FormulaError("E121", character, r"\n \t \r \b \f \" \' \\ or \uXXXX", repr(match[0]))

    return _ESCAPE.sub(replace, token.text[1:-1])
