"""Random conditions: their text for ``--where`` and for a query, and what they are of a row, worked out plainly."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.crash.histories.columns import Col

Row = Mapping[str, Any]
SQL_KINDS = ("byte", "short", "int", "long", "double", "symbol", "text")  # whose values SQL writes as filters do


@dataclass(frozen=True)
class Predicate:
    """``op`` is a comparison, ``in``, ``isnull``, ``isnan``, ``and``, ``or`` or ``not``."""

    op: str
    column: Col | None = None
    values: tuple[Any, ...] = ()
    parts: tuple[Predicate, ...] = ()

    def holds(self, row: Row) -> bool | None:
        """Whether a row matches; None: it compares with a null."""
        if self.op in ("and", "or"):
            ends = self.op == "or"
            found = [part.holds(row) for part in self.parts]
            return ends if ends in found else None if None in found else not ends
        if self.op == "not":
            held = self.parts[0].holds(row)
            return None if held is None else not held
        assert self.column is not None
        value = row.get(self.column.key)
        value = self.column.kind.empty if value is None else value
        if self.op == "isnull":
            return value is None
        if value is None:
            return None
        if self.op == "isnan":
            return isinstance(value, float) and math.isnan(value)
        return _compares(self.op, value, self.values)

    def text(self, *, sql: bool = False) -> str:
        """As a condition; ``sql``: of a query, which writes some literals otherwise."""
        if self.op in ("and", "or"):
            return f" {self.op} ".join(f"({part.text(sql=sql)})" for part in self.parts)
        if self.op == "not":
            return f"not ({self.parts[0].text(sql=sql)})"
        assert self.column is not None
        name = f'"{self.column.name}"'
        if self.op == "isnull":
            return f"{name} is null"
        if self.op == "isnan":
            return f"isnan({name})"
        listed = ", ".join(_sql(value) if sql else str(self.column.kind.literal(value)) for value in self.values)
        if self.op == "in":
            return f"{name} in ({listed})"
        return f"{name} {self.op} {listed}"

    def is_sql(self) -> bool:
        """Whether it can be asked in SQL."""
        return all(part.is_sql() for part in self.parts) and (
            self.column is None or self.op == "isnull" or self.column.kind.name in SQL_KINDS
        )


def _sql(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"{value!r}::double" if isinstance(value, float) else repr(value)


def _compares(op: str, value: Any, wanted: Sequence[Any]) -> bool:
    """NaN equals itself and is above all other numbers; texts are compared by code point, as Python does."""
    if op == "in":
        return any(_order(value, each) == 0 for each in wanted)
    side = _order(value, wanted[0])
    return {"=": side == 0, "<>": side != 0, "<": side < 0, "<=": side <= 0, ">": side > 0, ">=": side >= 0}[op]


def _order(one: Any, other: Any) -> int:
    if isinstance(one, float) and math.isnan(one):
        return 1
    return int(one > other) - int(one < other)


def draw_predicate(
    rng: random.Random, columns: Sequence[Col], rows: Sequence[Row], indexes: Sequence[Sequence[Col]], depth: int = 1
) -> Predicate:
    """A filter over columns; often one that an index can answer: equal to values that a row has in all its columns."""
    if indexes and rows and rng.random() < 0.4:
        keys = rng.choice(indexes)
        zeros = [row for row in rows if isinstance(value := row.get(keys[0].key), float) and not value]
        row = rng.choice(zeros if zeros and rng.random() < 0.5 else rows)
        if rng.random() < 0.4:
            values = [other[keys[0].key] for other in rng.sample(rows, min(3, len(rows)))]
            listed = tuple(value for value in values if value is not None and keys[0].kind.literal(value) is not None)
            if listed:
                return Predicate("in", keys[0], listed)
        parts = tuple(
            Predicate("=", column, (row[column.key],))
            for column in keys
            if row.get(column.key) is not None and column.kind.literal(row[column.key]) is not None
        )
        if parts:
            return parts[0] if len(parts) == 1 else Predicate("and", parts=parts)
    kind = rng.choice(("leaf", "leaf", "and", "and", "or", "not")) if depth else "leaf"
    if kind != "leaf":
        count = 1 if kind == "not" else 2
        parts = tuple(draw_predicate(rng, columns, rows, indexes, depth - 1) for _ in range(count))
        return Predicate(kind, parts=parts)
    return _leaf(rng, rng.choice(columns), rows)


def _leaf(rng: random.Random, column: Col, rows: Sequence[Row]) -> Predicate:
    kind = column.kind
    held = [row[column.key] for row in rng.sample(rows, min(len(rows), 6)) if row.get(column.key) is not None]
    values = [value for value in (*held, *kind.pool) if kind.literal(value) is not None]
    if not values or rng.random() < 0.1:
        return Predicate("isnull", column)
    if kind.name in ("float", "double") and rng.random() < 0.1:
        return Predicate("isnan", column)
    op = rng.choice(("=", "=", "=", "in", "<>", "<", "<=", ">", ">="))
    if kind.name == "Boolean" and op not in ("=", "<>", "in"):
        op = "="
    return Predicate(op, column, tuple(rng.choice(values) for _ in range(rng.randint(1, 3) if op == "in" else 1)))
