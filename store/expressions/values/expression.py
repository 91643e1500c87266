"""Value expressions: parsed against the columns of a table and the column that is set, evaluated over Arrow.

``rewrite-column --set`` shares the columns, literals and conditions of where-expressions; ``syntax`` says what it adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError
from sparkhaven.store.expressions.predicate.nodes import PredicateError, PredicateNode
from sparkhaven.store.expressions.tokens import columns_of
from sparkhaven.store.expressions.values.evaluation import value_of
from sparkhaven.store.expressions.values.syntax import parse_tree
from sparkhaven.store.types.model import Column


@dataclass(frozen=True, slots=True)
class ValueExpression:
    """What a column is set to; its values are not yet those of the column's type."""

    text: str
    node: PredicateNode

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of(self.node)

    def evaluate(self, rows: pa.RecordBatch, where: str = "row ", first: int = 0) -> pa.Array:
        """One value for each row. SchemaMismatchError: a result that its type does not hold, at ``where`` and row."""
        try:
            return value_of(self.node, rows)
        except (pa.ArrowInvalid, ValueError) as error:
            low, why = self._first_failing(rows), str(error)
            raise SchemaMismatchError(
                "an expression has no value in a row",
                where=f"{where}{first + low}",
                expected=f"a value of: {self.text}",
                found=why[:120],
                hint="leave such rows as they are, by a condition with ? and :",
            ) from None

    def _first_failing(self, rows: pa.RecordBatch) -> int:
        """The first row that has no value."""
        low, high = 0, rows.num_rows
        while high - low > 1:
            middle = (low + high) // 2
            try:
                value_of(self.node, rows.slice(low, middle - low))
            except (pa.ArrowInvalid, ValueError):
                high = middle
            else:
                low = middle
        return low


def parse_value(text: str, columns: Iterable[Column], target: Column) -> ValueExpression:
    """Parses what ``target`` is set to, over these columns.

    Raises SchemaParseError (``kind`` as of ``parse_predicate``) that names the character where parsing failed.
    """
    try:
        return ValueExpression(text, parse_tree(text, tuple(columns), target))
    except PredicateError as error:
        raise SchemaParseError(
            "expression cannot be used",
            where=f"character {error.character} of: {text}",
            expected=error.expected,
            found=f"{error.found} at character {error.character}",
            hint=error.hint,
            kind=error.kind,
        ) from None
