"""What of a condition an index answers: columns that equal one of some values.

Every row that the expression keeps fulfils these conditions; others may too. Parts that no index answers are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkhaven.store.expressions.predicate.nodes import Literal, PredicateNode, Sort

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
