"""Where-expressions: parsed against a schema, evaluated over Arrow, and used to skip ranges by their statistics.

``read --where``, ``where=`` and the filters of rules share the language of ``store.expressions.predicate.syntax``.

Logic has three values as in SQL: whatever compares with a null is neither true nor false, ``!`` of it too, and a row
is kept only where the whole is true. NaN is equal to itself and above every other number, as in SQL and in Spark.
-0.0 equals 0.0. Texts are ordered by code point. Whole numbers are exact among themselves, and against a literal;
arithmetic wraps at 64 bits; ``/`` gives a double, ``%`` has the sign of the dividend and is null for a divisor of 0.

``may_match`` answers from statistics alone and may keep too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.predicate.comparisons import comparable
from sparkhaven.store.expressions.predicate.evaluation import condition
from sparkhaven.store.expressions.predicate.nodes import (
    SYNTAX,
    TYPES,
    UNKNOWN_COLUMN,
    Literal,
    PredicateError,
    PredicateNode,
    Sort,
    column_node,
    literal_node,
)
from sparkhaven.store.expressions.predicate.pruning import TRUE, outcomes
from sparkhaven.store.expressions.predicate.repair import repaired
from sparkhaven.store.expressions.predicate.syntax import parse
from sparkhaven.store.expressions.tokens import Token, columns_of
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, TableSchema

__all__ = ["SYNTAX", "TYPES", "UNKNOWN_COLUMN", "Predicate", "compare_columns", "parse_predicate"]


def parse_predicate(text: str, schema: TableSchema | Iterable[Column]) -> Predicate:
    """Parses an expression over the columns of a table.

    Raises SchemaParseError (``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES) that names the character where parsing failed.
    """
    columns = tuple(schema.columns if isinstance(schema, TableSchema) else schema)
    try:
        node = parse(text, columns)
    except PredicateError as error:
        raise _unusable(text, error, _hint(text, error, columns)) from None
    return Predicate(text, node)


def _hint(text: str, error: PredicateError, columns: tuple[Column, ...]) -> str | None:
    meant = repaired(text, error, lambda again: parse(again, columns), {column.name for column in columns})
    hints = [error.hint, None if meant is None else f"{meant[0]}: {meant[1]}"]
    return "; ".join(filter(None, hints)) or None


def compare_columns(sign: str, left: Column, right: Column) -> Predicate:
    """``left sign right``, whatever the columns are called. Raises SchemaParseError where they cannot be compared."""
    text = f"{left.name} {sign} {right.name}"
    try:
        sides = comparable(column_node(left), column_node(right), Token("sign", sign, 1))
        return Predicate(text, PredicateNode(sign, Sort.BOOLEAN, sides))
    except PredicateError as error:
        raise _unusable(text, error, error.hint) from None


def _unusable(text: str, error: PredicateError, hint: str | None) -> SchemaParseError:
    return SchemaParseError(
        "expression cannot be used",
        where=f"character {error.character} of: {text}",
        expected=error.expected,
        found=f"{error.found} at character {error.character}",
        hint=hint,
        kind=error.kind,
    )


@dataclass(frozen=True, slots=True)
class Predicate:
    text: str
    node: PredicateNode

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of(self.node)

    def evaluate(self, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """True where a row is kept, false where it is not or where it is not known; never null."""
        if isinstance(rows, pa.Table):
            parts = [self.evaluate(batch) for batch in rows.select(list(self.columns)).to_batches()]
            if not self.columns:
                return pa.array([], pa.bool_()) if not rows.num_rows else self._constant(rows.num_rows)
            return pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())
        if not self.columns:
            return self._constant(rows.num_rows)
        return pc.fill_null(condition(self.node, rows), False)

    def _constant(self, rows: int) -> pa.BooleanArray:
        value = pc.fill_null(condition(self.node, pa.record_batch({"": pa.array([0])})), False)[0].as_py()
        return pa.array(np.full(rows, value))

    def filter(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        return rows.filter(self.evaluate(rows))

    def may_match(self, stats: Mapping[str, RangeStats | None]) -> bool:
        """Whether a row of a range may be kept; False = the range need not be read.

        ``stats`` has the statistics of the same range by column; a column without any may hold anything. The value
        of the partitioning column goes in as a range whose ``low`` and ``high`` are that value.
        """
        return bool(outcomes(self.node, stats) & TRUE)


# Each function raises PredicateError where ``parse`` does: types do not fit.


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
