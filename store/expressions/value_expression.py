"""What ``rewrite-column --set`` sets a column to: a SQL expression over one row, which DuckDB evaluates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from sparkhaven.store.expressions.duckdb_engine import evaluated
from sparkhaven.store.expressions.predicate.expression import unusable
from sparkhaven.store.expressions.predicate.nodes import PredicateError
from sparkhaven.store.expressions.predicate.parsing import ExpressionParser, one_expression, refuse_other_signs
from sparkhaven.store.expressions.predicate.spelling import with_sql_hint
from sparkhaven.store.types.model import Column

_NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT")


@dataclass(frozen=True, slots=True)
class ValueExpression:
    """What a column is set to. Its values are not yet those of the column's type.

    ``sql``: the text that DuckDB is given; None: the values of a column. ``kind``: the type of the values.
    ``columns``: the names that it uses.
    """

    text: str
    sql: str | None
    columns: tuple[str, ...]
    kind: pa.DataType = field(compare=False)

    def evaluate(self, rows: pa.RecordBatch, where: str = "row ", first: int = 0) -> pa.Array:
        """One value for each row. SchemaMismatchError: a row that has none, at ``where`` and its number."""
        if self.sql is None:
            values = rows.column(self.columns[0])
            return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
        return evaluated(self.sql, rows, where, first)


def parse_value(text: str, columns: Iterable[Column], target: Column) -> ValueExpression:
    """Parses what ``target`` is set to, over these columns.

    Raises SchemaParseError (``kind`` as of ``parse_predicate``) that names the character where parsing failed.
    """
    columns = tuple(columns)
    try:
        return _parsed(text, columns, target)
    except PredicateError as error:
        hint = with_sql_hint(text, error, lambda again: _parsed(again, columns, target), columns)
        raise unusable(text, error, hint) from None


def _parsed(text: str, columns: tuple[Column, ...], target: Column) -> ValueExpression:
    refuse_other_signs(text, {"==": "=", "&&": "AND", "!": "NOT"})
    statement, tree = one_expression(text)
    parser = ExpressionParser(text, {column.name: column for column in columns}, statement)
    if tree.get("type") == "COLUMN_REF":
        column = parser.column_of(tree)
        return ValueExpression(text, None, (column.name,), column.type.arrow)
    node = parser.sql(tree)
    names = tuple(str(part.value) for part in node.parts)
    kind, sql = parser.bound_type(tree), str(node.value)
    if target.type.name == "float" and kind.partition("(")[0] in _NUMBERS:
        sql = f"cast({sql} as float)"  # the nearest one
    elif target.type.name == "Instant" and kind in ("TIMESTAMP", "TIMESTAMP_NS"):  # of UTC, as in a query
        sql = f"cast({sql} as timestamptz_ns)"
    elif kind == "HUGEINT":
        sql = f"cast({sql} as bigint)"
    return ValueExpression(text, sql, names, parser.arrow_type(tree, sql))
