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
text that is an ISO instant with zone, or with a whole number of nanoseconds; a char with a text of one character; a
date or a time of the day with an ISO text; a decimal with numbers, and with texts that write one. ``isNull`` takes any
column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from sparkhaven.store.errors import meant
from sparkhaven.store.expressions.predicate.comparisons import comparable
from sparkhaven.store.expressions.predicate.nodes import (
    COMPARISONS,
    SYNTAX,
    TYPES,
    UNKNOWN_COLUMN,
    Literal,
    PredicateError,
    PredicateNode,
    Sort,
    arithmetic,
    asked,
    column_node,
    literal_node,
)
from sparkhaven.store.expressions.tokens import Cursor, Token, tokens
from sparkhaven.store.types.model import Column

MAX_DEPTH = 50
MAX_LITERALS = 10_000
_LEXER = re.compile(
    r"""(?P<space>\s+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>==|!=|<=|>=|&&|\|\||[=<>!+\-*/%(),.\[\]])""",
    re.DOTALL,
)
_WORDS = {"and": "&&", "or": "||", "=": "=="}
_OTHER_SPELLINGS = {  # of other languages
    "&": "write &&",
    "|": "write ||",
    '"': "close the text",
    "'": "close the text",
    ";": "leave it out",
    "is": "write isNull(column), !isNull(column)",
    "like": "texts are compared whole, by == != < <= > >= in",
    "between": "write column >= low && column <= high",
}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse(text: str, columns: Iterable[Column]) -> PredicateNode:
    """The typed tree of an expression over these columns. Raises PredicateError."""
    parser = PredicateParser([worded(token) for token in tokens(text, _LEXER, _refused)], {c.name: c for c in columns})
    node = parser.expression(0)
    if parser.here.kind != "end":
        unexpected = parser.here.text
        hint = _OTHER_SPELLINGS.get(unexpected.lower())
        raise PredicateError(SYNTAX, parser.here.character, "an operator or the end", repr(unexpected), hint)
    if node.sort is not Sort.BOOLEAN:
        raise PredicateError(TYPES, 1, "a condition", node.sort.value, "compare it with something")
    return node


def _refused(character: int, sign: str) -> PredicateError:
    hint = _OTHER_SPELLINGS.get(sign)
    expected = "a column, a literal or one of == != < <= > >= && || ! + - * / % ( ) , in"
    return PredicateError(SYNTAX, character, expected, repr(sign), hint)


def worded(token: Token) -> Token:
    sign = _WORDS.get(token.text)
    return token if sign is None else Token("sign", sign, token.character)


class PredicateParser(Cursor):
    """Recursive descent with limited depth."""

    def __init__(self, parsed: list[Token], columns: dict[str, Column]) -> None:
        super().__init__(parsed, lambda *parts: PredicateError(SYNTAX, *parts))
        self.columns = columns

    def deeper(self, depth: int) -> int:
        if depth >= MAX_DEPTH:
            raise PredicateError(SYNTAX, self.here.character, f"at most {MAX_DEPTH} levels", "a deeper expression")
        return depth + 1

    def expression(self, depth: int) -> PredicateNode:
        depth = self.deeper(depth)
        return self.joined("||", depth, lambda: self.joined("&&", depth, lambda: self.inverted(depth)))

    def joined(self, sign: str, depth: int, part: Callable[[], PredicateNode]) -> PredicateNode:
        character = self.here.character
        parts = [part()]
        while self.take(sign):
            if parts[-1].sort is not Sort.BOOLEAN:
                raise PredicateError(TYPES, character, f"a condition before {sign}", parts[-1].sort.value)
            character = self.here.character
            parts.append(part())
            if parts[-1].sort is not Sort.BOOLEAN:
                raise PredicateError(TYPES, character, f"a condition after {sign}", parts[-1].sort.value)
        return parts[0] if len(parts) == 1 else PredicateNode(sign, Sort.BOOLEAN, tuple(parts))

    def inverted(self, depth: int) -> PredicateNode:
        token = self.take("!", "not")
        if token is None:
            return self.comparison(depth)
        node = self.inverted(self.deeper(depth))
        if node.sort is not Sort.BOOLEAN:
            raise PredicateError(TYPES, token.character, "a condition after !", node.sort.value, "use parentheses")
        return PredicateNode("!", Sort.BOOLEAN, (node,))

    def comparison(self, depth: int) -> PredicateNode:
        left = self.sum(depth)
        token = self.here
        if token.kind == "sign" and token.text in COMPARISONS:
            self.position += 1
            left, right = comparable(left, self.sum(depth), token)
            return PredicateNode(token.text, Sort.BOOLEAN, (left, right))
        if token.text == "not" and self.following.text == "in":
            self.position += 2
            return PredicateNode("!", Sort.BOOLEAN, (self.membership(left, Token("name", "in", token.character)),))
        if self.take("in"):
            return self.membership(left, token)
        return left

    def membership(self, left: PredicateNode, token: Token) -> PredicateNode:
        close = ")" if self.take("(") else "]"
        if close == "]":
            self.need("[")
        return self.literals(left, token, close)

    def literals(self, left: PredicateNode, token: Token, close: str) -> PredicateNode:
        values: list[Literal] = []
        while True:
            literal = self.unary(MAX_DEPTH - 2)
            if literal.op != "literal":
                raise PredicateError(SYNTAX, self.here.character, "literals in the list", "an expression")
            _, literal = comparable(left, literal, token)
            assert not isinstance(literal.value, tuple)  # noqa: S101 - a literal has one value
            values.append(literal.value)
            if len(values) > MAX_LITERALS:
                raise PredicateError(SYNTAX, self.here.character, f"at most {MAX_LITERALS} values", "more")
            if self.take(close):
                return PredicateNode("in", Sort.BOOLEAN, (left,), tuple(values))
            self.need(",")

    def sum(self, depth: int) -> PredicateNode:
        node = self.product(depth)
        while token := self.take("+", "-"):
            node = arithmetic(token, node, self.product(depth))
        return node

    def product(self, depth: int) -> PredicateNode:
        node = self.unary(depth)
        while token := self.take("*", "/", "%"):
            node = arithmetic(token, node, self.unary(depth))
        return node

    def unary(self, depth: int) -> PredicateNode:
        token = self.take("-")
        if token is None:
            return self.suffixed(depth)
        node = self.unary(self.deeper(depth))
        if node.op == "literal" and isinstance(node.value, int | float) and node.sort.number:
            return literal_node(-node.value, node.exact and _negated(node.exact))
        return arithmetic(token, node)

    def suffixed(self, depth: int) -> PredicateNode:
        node = self.primary(depth)
        while token := self.take("."):
            word = self.take("isNull", "isNaN")
            if word is None:
                raise PredicateError(SYNTAX, token.character, "isNull() or isNaN() after the dot", repr(self.here.text))
            self.need("(")
            self.need(")")
            node = asked(word, node)
        return node

    def primary(self, depth: int) -> PredicateNode:
        token = self.here
        if token.kind == "end":
            raise PredicateError(SYNTAX, token.character, "a column or a literal", "the end")
        self.position += 1
        if token.kind == "number":
            return _number(token)
        if token.kind == "text":
            return literal_node(_unquote(token))
        if token.kind == "sign" and token.text == "(":
            node = self.expression(depth)
            self.need(")")
            return node
        if token.kind == "name":
            return self.name(token, depth)
        hint = "write != for <>" if token.text == ">" else None
        raise PredicateError(SYNTAX, token.character, "a column or a literal", repr(token.text), hint)

    def name(self, token: Token, depth: int) -> PredicateNode:
        call = self.here.kind == "sign" and self.here.text == "("
        if call and token.text in ("isNull", "isNaN", "in"):
            self.need("(")
            inner = self.expression(depth)
            if token.text == "in":
                self.need(",")
                return self.literals(inner, token, ")")
            self.need(")")
            return asked(token, inner)
        column = self.columns.get(token.text)
        if column is None and token.text in ("true", "false"):
            return literal_node(token.text == "true")
        if column is None and token.text == "null":
            raise PredicateError(
                SYNTAX, token.character, "isNull(column)", "null", "a comparison with null is never true"
            )
        if column is None:
            names = (*self.columns, "isNull", "isNaN", "in", "true", "false")
            kind = SYNTAX if call else UNKNOWN_COLUMN
            expected = "isNull, isNaN or in" if call else "a column of the table"
            raise PredicateError(kind, token.character, expected, token.text, meant(token.text, names))
        return column_node(column)


def _negated(number: str) -> str:
    return number[1:] if number.startswith("-") else f"-{number}"


def _number(token: Token) -> PredicateNode:
    if token.text.isdigit():
        if len(token.text) > 40:
            raise PredicateError(SYNTAX, token.character, "a number of at most 40 digits", f"{len(token.text)} digits")
        return literal_node(int(token.text))
    value = float(token.text)
    if math.isinf(value):
        raise PredicateError(SYNTAX, token.character, "a number that a double can hold", token.text)
    return literal_node(value, token.text)


def _unquote(token: Token) -> str:
    body = token.text[1:-1]
    if token.text[0] == "`":
        return body

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replace, body)
