"""What may be saved as a user table, as a stream of Arrow batches; and its values as those of the columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.source_rows import SourceRows
from sparkhaven.store.types.model import Column, Kind
from sparkhaven.writers.foreign_values import mapped, partition_values

KINDS = "a pyarrow Table, RecordBatch or RecordBatchReader, pandas or polars data frame, Arrow stream, or Spark frame"
BATCH_ROWS = 1 << 17
_FRAMES = ("pandas", "polars")
_FRAMES_OF = {"Series": "data.to_frame()", "LazyFrame": "data.collect()"}


def arrow_stream(data: Any) -> pa.RecordBatchReader:
    """The rows of anything that gives Arrow; SettingsError for what does not.

    An index of pandas is kept if it has a name; one without is refused, unless it counts the rows.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        package, name = type(data).__module__.partition(".")[0], type(data).__name__
        if package in _FRAMES and name in _FRAMES_OF:
            raise SettingsError(
                "the data are no table", expected=KINDS, found=f"a {name} of {package}", hint=f"pass {_FRAMES_OF[name]}"
            )
        try:
            if package == "pandas" and name == "DataFrame":
                data = pa.Table.from_pandas(data, preserve_index=_keeps_index(data))
            elif package == "pyspark" and hasattr(data, "toArrow"):
                data = data.toArrow()
            elif hasattr(data, "__arrow_c_stream__"):
                if package == "polars":
                    _refuse_objects(data)
                return pa.RecordBatchReader.from_stream(data)
            else:
                raise SettingsError("the data cannot be read as Arrow", expected=KINDS, found=type(data).__name__)
        except (pa.ArrowException, TypeError, ValueError) as error:
            if isinstance(error, SettingsError):
                raise
            raise SettingsError(
                "the data have a column that Arrow cannot hold",
                expected=KINDS,
                found=" ".join(map(str, error.args))[:300],
                hint="give the column one type that Arrow has, or leave it out",
            ) from error
    return data.to_reader(BATCH_ROWS)


def _keeps_index(frame: Any) -> bool:
    """Whether the index of a pandas frame becomes columns. SettingsError: it has values, and no name of its own."""
    index, names = frame.index, list(frame.index.names)
    if names == [None] and type(index).__name__ == "RangeIndex":
        return False
    bad = [name for name in names if not isinstance(name, str) or name in frame.columns]
    if bad:
        raise SettingsError(
            "the index of the data frame lacks a name of its own",
            expected="a name for each level of the index, which no column has",
            found=", ".join("no name" if name is None else repr(name) for name in bad),
            hint='frame.rename_axis(["Name"]) names it, and it is saved as a column.'
            " frame.reset_index(drop=True) leaves it out",
        )
    return True


def _refuse_objects(frame: Any) -> None:
    """SettingsError for a column of Python objects: polars gives their addresses."""
    objects = [name for name, kind in getattr(frame, "schema", {}).items() if str(kind).startswith("Object")]
    if objects:
        raise SettingsError(
            f"column {objects[0]} has Python objects, which Arrow cannot hold",
            expected=KINDS,
            found="Object",
            hint="give the column one type that Arrow has, or leave it out",
        )


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
