"""What may be saved as a user table, as a stream of Arrow batches; and its values as those of the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.model import Column, Kind
from sparkhaven.writers.imports.foreign_values import mapped, partition_values

KINDS = "a pyarrow Table, RecordBatch or RecordBatchReader, pandas or polars data frame, Arrow stream, or Spark frame"
BATCH_ROWS = 1 << 17


def arrow_stream(data: Any) -> pa.RecordBatchReader:
    """The rows of anything that gives Arrow; SettingsError for what does not.

    An index of pandas is kept if it has a name.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        package = type(data).__module__.partition(".")[0]
        if package == "pandas" and hasattr(data, "index"):
            kept = any(name is not None for name in data.index.names)
            data = pa.Table.from_pandas(data, preserve_index=kept)
        elif package == "pyspark" and hasattr(data, "toArrow"):
            data = data.toArrow()
        elif hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        else:
            raise SettingsError("the data cannot be read as Arrow", expected=KINDS, found=type(data).__name__)
    return data.to_reader(BATCH_ROWS)


class IncomingRows:
    """Batches with the columns of a table, in their types; columns are found by name. They are read once.

    SchemaMismatchError while they are read: a value that its column does not hold exactly, by its row.
    """

    def __init__(self, batches: pa.RecordBatchReader, columns: Sequence[Column], table: str) -> None:
        self._batches, self._columns, self._table = batches, columns, table
        self._source = SourceRows(0)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names, first = [column.name for column in self._columns], 0
        for batch in self._batches:
            self._source.count(batch.num_rows)
            if batch.num_rows:
                arrays = [_values(batch, column, first) for column in self._columns]
                yield pa.RecordBatch.from_arrays(arrays, names)
                first += batch.num_rows

    def require(self, written: int) -> None:
        """FeedError unless all rows that were given were written."""
        self._source.require(written, 0, self._table)


def _values(batch: pa.RecordBatch, column: Column, first: int) -> pa.Array:
    array = batch.column(batch.schema.get_field_index(column.name))

    def place(row: int) -> str:
        return f"column {column.name}, row {first + row}"

    if column.kind is not Kind.PARTITIONING:
        return mapped(array, column, place)
    return partition_values(array, column, place)
