"""Conditions over the columns of a table: SQL, evaluated over Arrow, and used to skip ranges by their statistics.

``read --where``, ``where=``, the option ``where`` and the filters of rules share the language of DuckDB, which parses
it (``store.expressions.predicate.parsing``). Logic has three values: whatever compares with a null is neither true nor
false, NOT of it too, and a row is kept only where the whole is true. NaN is equal to itself and above every other
number. -0.0 equals 0.0. Texts are ordered by code point.

``may_match`` answers from statistics alone and may keep too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.predicate.comparisons import same_kind
from sparkhaven.store.expressions.predicate.evaluation import condition
from sparkhaven.store.expressions.predicate.nodes import (
    SYNTAX,
    TYPES,
    UNKNOWN_COLUMN,
    PredicateError,
    PredicateNode,
    Sort,
    column_node,
)
from sparkhaven.store.expressions.predicate.parsing import parse
from sparkhaven.store.expressions.predicate.pruning import TRUE, outcomes
from sparkhaven.store.expressions.predicate.spelling import with_sql_hint
from sparkhaven.store.expressions.tokens import columns_of
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, TableSchema

__all__ = ["SYNTAX", "TYPES", "UNKNOWN_COLUMN", "Predicate", "compare_columns", "parse_predicate", "unusable"]


def parse_predicate(text: str, schema: TableSchema | Iterable[Column]) -> Predicate:
    """Parses a condition over the columns of a table.

    Args:
        text: one SQL expression that is true or false.
        schema: the table, or its columns.

    Returns:
        The condition.

    Raises:
        SchemaParseError: it cannot be used. ``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES, ``where`` names the
            character, and ``hint`` has the condition in SQL where another language was written.
    """
    columns = tuple(schema.columns if isinstance(schema, TableSchema) else schema)
    try:
        return Predicate(text, parse(text, columns))
    except PredicateError as error:
        raise unusable(text, error, with_sql_hint(text, error, lambda again: parse(again, columns), columns)) from None


def compare_columns(sign: str, left: Column, right: Column) -> Predicate:
    """``left sign right``, whatever the columns are called. Raises SchemaParseError where they cannot be compared."""
    text = f"{left.name} {sign} {right.name}"
    sides = column_node(left), column_node(right)
    try:
        if Sort.OTHER in (sides[0].sort, sides[1].sort):
            raise PredicateError(TYPES, 1, "columns that can be compared", f"{left.type.name} and {right.type.name}")
        same_kind(*sides, sign, 1)
    except PredicateError as error:
        raise unusable(text, error, error.hint) from None
    return Predicate(text, PredicateNode(sign, Sort.BOOLEAN, sides))


def unusable(text: str, error: PredicateError, hint: str | None) -> SchemaParseError:
    """The error of an expression that cannot be used."""
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
