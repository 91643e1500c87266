"""Value expressions as typed trees: what a column is set to.

::

    value      = condition [ "?" value ":" value ]
    condition  = as in ``store.expressions.predicate.syntax``, with values in place of its literals and columns
    primary    = … | "null" | function "(" value { "," value } ")"
    function   = "abs" | "round" | "floor" | "ceil" | "coalesce" | "upper" | "lower" | "trim" | "replace"

``+`` joins texts, and moves an Instant by nanoseconds or a date by days, as ``-`` does. The difference of two Instants
or dates is a whole number. Decimals are added, subtracted and multiplied exactly. ``/`` gives a double. ``round``,
``floor`` and ``ceil`` give whole numbers. A condition that is null chooses the value behind ``:``.

A literal takes the form of what it stands beside, or of the column that is set: a text becomes an Instant, a date, a
time or a char, a number becomes a decimal exactly as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from sparkhaven.store.errors import meant
from sparkhaven.store.expressions.predicate.comparisons import comparable
from sparkhaven.store.expressions.predicate.nodes import (
    SYNTAX,
    TYPES,
    PredicateError,
    PredicateNode,
    Sort,
    arithmetic,
    column_node,
)
from sparkhaven.store.expressions.predicate.syntax import PredicateParser, worded
from sparkhaven.store.expressions.tokens import Token, tokens
from sparkhaven.store.types.codings.decimals import MOST_DIGITS
from sparkhaven.store.types.model import Column

FUNCTIONS = ("abs", "round", "floor", "ceil", "coalesce", "upper", "lower", "trim", "replace")
_LEXER = re.compile(
    r"""(?P<space>\s+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<sign>==|!=|<=|>=|&&|\|\||[=<>!+\-*/%(),.\[\]?:])""",
    re.DOTALL,
)
_MOVED = (Sort.INSTANT, Sort.DATE)
_LONG_DIGITS = 19


def parse_tree(text: str, columns: Iterable[Column], target: Column) -> PredicateNode:
    """The typed tree of an expression that ``target`` is set to. Raises PredicateError."""
    parser = ValueParser([worded(token) for token in tokens(text, _LEXER, _refused)], {c.name: c for c in columns})
    node = parser.expression(0)
    if parser.here.kind != "end":
        raise PredicateError(SYNTAX, parser.here.character, "an operator or the end", repr(parser.here.text))
    return shaped(node, target, parser.tokens[0])


def _refused(character: int, sign: str) -> PredicateError:
    expected = "a column, a literal or one of == != < <= > >= && || ! + - * / % ? : ( ) ,"
    return PredicateError(SYNTAX, character, expected, repr(sign))


class ValueParser(PredicateParser):
    """The parser of conditions, with choices, functions and more arithmetic."""

    def expression(self, depth: int) -> PredicateNode:
        token = self.here
        node = super().expression(depth)
        if self.take("?") is None:
            return node
        if node.sort is not Sort.BOOLEAN:
            raise PredicateError(TYPES, token.character, "a condition before ?", node.sort.value)
        sign = self.here
        left = self.expression(self.deeper(depth))
        self.need(":")
        right = self.expression(self.deeper(depth))
        return _alike("?:", sign, [left, right], (node,))

    def sum(self, depth: int) -> PredicateNode:
        node = self.product(depth)
        while token := self.take("+", "-"):
            node = _combined(token, node, self.product(depth))
        return node

    def product(self, depth: int) -> PredicateNode:
        node = self.unary(depth)
        while token := self.take("*", "/", "%"):
            node = _combined(token, node, self.unary(depth))
        return node

    def name(self, token: Token, depth: int) -> PredicateNode:
        call = self.here.kind == "sign" and self.here.text == "("
        if call and token.text in FUNCTIONS:
            return self.function(token, depth)
        if token.text == "null" and "null" not in self.columns:
            return PredicateNode("null", Sort.OTHER, (), "null")
        if call and token.text not in ("isNull", "isNaN", "in"):
            names = (*FUNCTIONS, "isNull", "isNaN", "in")
            raise PredicateError(SYNTAX, token.character, "a function", token.text, meant(token.text, names))
        return super().name(token, depth)

    def function(self, token: Token, depth: int) -> PredicateNode:
        self.need("(")
        parts = [self.expression(self.deeper(depth))]
        while self.take(","):
            parts.append(self.expression(self.deeper(depth)))
        self.need(")")
        if token.text == "coalesce":
            return _alike("coalesce", token, parts)
        wanted = {"replace": 3}.get(token.text, 1)
        if len(parts) != wanted:
            words = f"{wanted} value{'s' if wanted > 1 else ''} for {token.text}"
            raise PredicateError(SYNTAX, token.character, words, str(len(parts)))
        text = token.text in ("upper", "lower", "trim", "replace")
        for part in parts:
            fits = part.sort is Sort.TEXT if text else part.sort.number
            if not fits and part.op != "null":
                kind = "a text" if text else "a number"
                raise PredicateError(TYPES, token.character, f"{kind} for {token.text}", part.sort.value)
        if token.text == "replace" and any(part.op != "literal" for part in parts[1:]):
            raise PredicateError(TYPES, token.character, "two texts in quotes for replace", "an expression")
        sort = Sort.TEXT if text else parts[0].sort if token.text == "abs" else Sort.INTEGER
        return PredicateNode(token.text, sort, tuple(parts))


def _alike(op: str, token: Token, values: list[PredicateNode], before: tuple[PredicateNode, ...] = ()) -> PredicateNode:
    """A node that gives one of several values: all in one sort. PredicateError: they have none in common."""
    given = [value for value in values if value.op != "null"]
    if not given:
        return PredicateNode(op, Sort.OTHER, (*before, *values), "null")
    lead = next((value for value in given if value.op != "literal"), given[0])
    taken = []
    for value in values:
        if value.op != "null":
            value = _beside(value, lead, token)
        taken.append(value)
    sorts = {value.sort for value in taken if value.op != "null"}
    if len(sorts) > 1 and sorts != {Sort.INTEGER, Sort.FLOAT} and sorts != {Sort.INTEGER, Sort.DECIMAL}:
        kinds = " and ".join(sorted(sort.value for sort in sorts))
        raise PredicateError(TYPES, token.character, "values of one kind", kinds)
    order = (Sort.DECIMAL, Sort.FLOAT)
    sort = next((sort for sort in order if sort in sorts), lead.sort)
    digits = (
        [value.digits or (_LONG_DIGITS, 0) for value in taken if value.op != "null"] if sort is Sort.DECIMAL else []
    )
    both = _widest(digits, token) if digits else None
    return PredicateNode(op, sort, (*before, *taken), "null" if sort is Sort.OTHER else False, both)


def _beside(value: PredicateNode, lead: PredicateNode, token: Token) -> PredicateNode:
    """A literal in the form of the value that it stands beside; another value as it is."""
    if value.op != "literal" or value.sort is lead.sort:
        return value
    if lead.sort is Sort.DECIMAL:
        return decimal_literal(value, token)
    if lead.sort in (Sort.INSTANT, Sort.CHAR, Sort.DATE, Sort.TIME, Sort.BYTES):
        return comparable(lead, value, token)[1]
    return value


def decimal_literal(value: PredicateNode, token: Token) -> PredicateNode:
    """A literal number as the decimal that it writes."""
    written = str(value.value) if value.exact is None else value.exact
    try:
        number = Decimal(written)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite() or number.adjusted() > MOST_DIGITS or number.as_tuple().exponent < -MOST_DIGITS:  # type: ignore[operator]
        raise PredicateError(TYPES, token.character, "a number like 12.34 beside a decimal", repr(value.value))
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    return PredicateNode("literal", Sort.DECIMAL, (), number, (precision, scale))


def _widest(forms: list[tuple[int, int]], token: Token) -> tuple[int, int]:
    scale = max(form[1] for form in forms)
    return _fitting(max(form[0] - form[1] for form in forms) + scale, scale, token)


def _fitting(precision: int, scale: int, token: Token) -> tuple[int, int]:
    if precision > MOST_DIGITS:
        raise PredicateError(TYPES, token.character, f"at most {MOST_DIGITS} digits", f"{precision} digits")
    return precision, scale


def _combined(token: Token, left: PredicateNode, right: PredicateNode) -> PredicateNode:
    """``left token right`` by the rules of this language; the others are those of conditions."""
    sign = token.text
    if sign == "+" and (left.sort, right.sort) == (Sort.TEXT, Sort.TEXT):
        return PredicateNode("join", Sort.TEXT, (left, right))
    for kind in _MOVED:
        if left.sort is kind and right.sort is Sort.INTEGER and sign in "+-":
            return PredicateNode(f"move{sign}", kind, (left, right))
        if sign == "-" and kind in (left.sort, right.sort):
            one, other = _beside(left, right, token), _beside(right, left, token)
            if one.sort is other.sort:
                return PredicateNode("between", Sort.INTEGER, (one, other))
    if Sort.DECIMAL in (left.sort, right.sort):
        return _decimal(token, left, right)
    return arithmetic(token, left, right)


def _decimal(token: Token, left: PredicateNode, right: PredicateNode) -> PredicateNode:
    sides = []
    for side in (left, right):
        if side.op == "literal" and side.sort.number:
            side = decimal_literal(side, token)
        if side.sort not in (Sort.DECIMAL, Sort.INTEGER):
            raise PredicateError(TYPES, token.character, f"decimals or whole numbers for {token.text}", side.sort.value)
        sides.append(side)
    if token.text not in ("+", "-", "*"):
        hint = "multiply by a literal, like Price * 0.1, which is exact"
        raise PredicateError(TYPES, token.character, "+, - or * for decimals", token.text, hint)
    one, other = (side.digits or (_LONG_DIGITS, 0) for side in sides)
    if token.text == "*":
        digits = _fitting(one[0] + other[0] + 1, one[1] + other[1], token)
    else:
        precision, scale = _widest([one, other], token)
        digits = _fitting(precision + 1, scale, token)
    return PredicateNode(token.text, Sort.DECIMAL, tuple(sides), digits=digits)


def shaped(node: PredicateNode, target: Column, token: Token) -> PredicateNode:
    """The tree with its literals in the form of the column that is set, and computed numbers rounded to a float."""
    if node.op in ("?:", "coalesce"):
        first = 1 if node.op == "?:" else 0
        return _alike(node.op, token, [shaped(part, target, token) for part in node.parts[first:]], node.parts[:first])
    if node.op == "literal":
        node = _beside(node, column_node(target), token)
    if target.type.name == "float" and node.sort is Sort.FLOAT and node.op != "column":
        return PredicateNode("tofloat", Sort.FLOAT, (node,))
    return node
