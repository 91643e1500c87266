"""Rows of ours as DuckDB sees them, and the values that it gives of an expression over them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.expressions.duckdb_engine import engine, engine_error
from sparkhaven.store.types.codings.decimals import decimal_texts
from sparkhaven.store.types.model import Column

ROWS = "rows"  # the name that a batch has in DuckDB


def no_rows(columns: Iterable[Column]) -> pa.RecordBatch:
    """The columns as DuckDB gets them, without rows. Decimals of more than 38 digits, which it has not, are texts."""
    kinds = {column.name: _given(column.type.arrow) for column in columns} or {"": pa.int8()}
    return pa.record_batch([pa.nulls(0, kind) for kind in kinds.values()], names=list(kinds))


def _given(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_decimal256(kind) else kind


def evaluated(text: str, rows: pa.RecordBatch, where: str = "row ", first: int = 0) -> pa.Array:
    """The values of an expression of these columns, one a row.

    SchemaMismatchError: it has no value in a row, which is named: at ``where`` and its number, the first being
    ``first``.
    """
    try:
        return _evaluated(text, rows)
    except engine_error() as error:
        message = str(error).strip().partition("\n")[0]
        raise SchemaMismatchError(
            "an expression has no value in a row",
            where=f"{where}{first + _first_failing(text, rows)}",
            expected=f"a value of: {text}",
            found=message[:160],
            hint="leave such rows as they are, by CASE WHEN … THEN … ELSE … END",
        ) from None


def _evaluated(text: str, rows: pa.RecordBatch) -> pa.Array:
    arrays = [decimal_texts(array) if pa.types.is_decimal256(array.type) else array for array in rows.columns]
    connection = engine()
    connection.register(ROWS, pa.record_batch(arrays, names=rows.schema.names))
    try:
        values = connection.sql(f"select {text} from {ROWS}").to_arrow_table().column(0)
    finally:
        connection.unregister(ROWS)
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks or [pa.array([], values.type)])


def _first_failing(text: str, rows: pa.RecordBatch) -> int:
    """The first row that has no value."""
    low, high = 0, rows.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _evaluated(text, rows.slice(low, middle - low))
        except engine_error():
            high = middle
        else:
            low = middle
    return low
