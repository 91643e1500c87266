"""Where-expressions that are built, not parsed: a node, and beside it the text that would be parsed to that node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.expressions.predicate.nodes import (
    Literal,
    PredicateNode,
    Sort,
    column_node,
    comparable,
    literal_node,
)
from sparkhaven.store.expressions.tokens import Token
from sparkhaven.store.types.model import Column

# Each function raises PredicateError where ``parse`` does: types do not fit, or the column is not of a basic type.


def comparison(column: Column, sign: str, value: Literal) -> Predicate:
    """``column sign value``."""
    sides = comparable(column_node(column), literal_node(value), Token("sign", sign, 1))
    return Predicate(f"{column.name} {sign} {_written(value)}", PredicateNode(sign, Sort.BOOLEAN, sides))


def member(column: Column, values: Sequence[Literal]) -> Predicate:
    """``column in (values)``."""
    node, token = column_node(column), Token("name", "in", 1)
    literals = tuple(comparable(node, literal_node(value), token)[1].value for value in values)
    text = f"{column.name} in ({', '.join(map(_written, values))})"
    return Predicate(text, PredicateNode("in", Sort.BOOLEAN, (node,), literals))  # type: ignore[arg-type]  # of one value each


def is_null(column: Column) -> Predicate:
    """``isNull(column)``."""
    return Predicate(f"isNull({column.name})", PredicateNode("isnull", Sort.BOOLEAN, (column_node(column),)))


def negated(part: Predicate) -> Predicate:
    """``!part``."""
    text = part.text if part.node.op == "isnull" else f"({part.text})"
    return Predicate(f"!{text}", PredicateNode("!", Sort.BOOLEAN, (part.node,)))


def joined(sign: str, parts: Iterable[Predicate], *, bracketed: bool = True) -> Predicate:
    """``(part) sign (part) …``; one part is left as it is."""
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    texts = (f"({part.text})" if bracketed else part.text for part in parts)
    return Predicate(f" {sign} ".join(texts), PredicateNode(sign, Sort.BOOLEAN, tuple(part.node for part in parts)))


def _written(value: Literal) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
