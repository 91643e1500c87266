"""Rows of one slice of a scan as Arrow arrays: columns are opened when they are needed, filters run first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.columnfile import ColumnFile, open_column
from store.errors import CorruptFileError, SnapshotMovedError
from store.fs import Fs
from store.predicate import Predicate
from store.scan import Slice
from store.schema.model import Column, Kind, Storage

FILTER_ROWS = 1 << 20  # rows that a filter looks at in one go: bounds its temporary memory


def arrow_type(column: Column, *, dictionaries: bool = True) -> pa.DataType:
    """Arrow type of a column in results: symbols and the partitioning column are dictionaries unless told."""
    if dictionaries and (column.kind is Kind.PARTITIONING or column.storage is Storage.SYMBOL):
        return pa.dictionary(pa.int32(), pa.string())
    return column.type.arrow


class SliceReader:
    """Reads ranges of one slice. ``values`` is the dictionary of partition values that all slices of a read share."""

    def __init__(
        self, fs: Fs, slice_: Slice, shown: Sequence[Column], filtered: Sequence[Column], values: pa.Array
    ) -> None:
        self._fs = fs
        self._slice = slice_
        self._shown = tuple(shown)
        self._filtered = tuple(filtered)
        self._values = values
        self._sizes = slice_.sizes
        self._open: dict[str, ColumnFile] = {}

    def read(self, start: int, stop: int, predicate: Predicate | None = None) -> Iterator[list[pa.Array]]:
        """The shown columns of rows ``[start, stop)`` that the predicate takes, in parts of equal lengths."""
        if predicate is None:
            yield [self.column(column, start, stop) for column in self._shown]
            return
        for first in range(start, stop, FILTER_ROWS):
            yield from self._matching(first, min(first + FILTER_ROWS, stop), predicate)

    def _matching(self, start: int, stop: int, predicate: Predicate) -> Iterator[list[pa.Array]]:
        known = {column.name: self.column(column, start, stop) for column in self._filtered}
        columns = known or {"": pa.nulls(stop - start)}  # a predicate of no column still has one answer a row
        taken = predicate.evaluate(pa.record_batch(list(columns.values()), names=list(columns)))
        count = pc.sum(taken).as_py() or 0
        if not count:
            return
        arrays = [known[c.name] if c.name in known else self.column(c, start, stop) for c in self._shown]
        yield arrays if count == stop - start else [array.filter(taken) for array in arrays]

    def column(self, column: Column, start: int, stop: int) -> pa.Array:
        """One column of rows ``[start, stop)`` of the location."""
        if column.kind is Kind.PARTITIONING:
            index = self._values.index(self._slice.key.value).as_py()
            return pa.DictionaryArray.from_arrays(pa.array(np.full(stop - start, index, np.int32)), self._values)
        try:
            opened = self._open.get(column.name)
            if opened is None:
                at = self._slice
                opened = self._open[column.name] = open_column(self._fs, at.directory, column, self._sizes, at.rows)
            return opened.read(start, stop, has_nulls=self._slice.has_nulls(column.name))
        except (FileNotFoundError, CorruptFileError) as error:
            if self._fs.stat(self._slice.directory) is not None:
                raise
            raise SnapshotMovedError(
                "rows of this snapshot have left their place: merged, checked and deleted since it was opened",
                where=self._slice.directory,
                expected=f"{self._slice.rows} rows",
                found="no such directory",
                hint="open the table again",
                phase="read",
            ) from error
