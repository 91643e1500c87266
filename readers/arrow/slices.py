"""Rows of one slice of a scan as Arrow arrays: columns are opened on demand, filters run first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.epochs.pins import Pin, left
from sparkhaven.store.errors import FormatError, OtherColumnError, SchemaMismatchError, SnapshotMovedError
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.layout import in_parquet, table_of
from sparkhaven.store.scan.column_file import ColumnFile, ParquetColumns
from sparkhaven.store.scan.history_pins import history_left
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.store.types.null_char import has_other_null
from sparkhaven.store.types.row_ranges import RowRanges

FILTER_ROWS = 1 << 20  # rows that a filter evaluates at once: bounds its temporary memory


def arrow_type(column: Column, *, dictionaries: bool = True) -> pa.DataType:
    """Arrow type of a column in results: default: symbols and the partitioning column are dictionaries."""
    if dictionaries and (column.kind is Kind.PARTITIONING or column.storage is Storage.SYMBOL):
        return pa.dictionary(pa.int32(), pa.string())
    return column.type.arrow


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """The dictionary of partition values that all slices of a read share, and the number of each value in it."""

    array: pa.Array
    numbers: dict[str, int]

    @classmethod
    def of(cls, values: Iterable[str]) -> PartitionValues:
        listed = sorted(set(values))
        return cls(pa.array(listed, pa.string()), {value: number for number, value in enumerate(listed)})


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """What a read takes of each slice: the columns that it shows, and those of its condition.

    ``later``: all slices are checked at once after they were read.
    """

    shown: Sequence[Column]
    filtered: Sequence[Column]
    values: PartitionValues
    later: bool = False


class SliceReader:
    """Reads ranges of one slice.

    Columns are opened on demand. After that ``pin`` checks that the files were still those of the snapshot: before a
    row of them is used or, where all slices are checked ``later``, only if they cannot be read. Files that were moved
    aside since are read there. History needs no pin, because its names are never reused.
    """

    def __init__(self, files: LocationFiles, slice_: Slice, wanted: ReadColumns, pin: Pin | None = None) -> None:
        self._files = files
        self._slice = slice_
        self._wanted = wanted
        self._pin = pin
        self._sizes = slice_.sizes
        self._open: dict[str, ColumnFile] = {}
        self._has_nulls: dict[str, bool | None] = {}  # asked once: statistics are unpacked for it
        self._parquet: ParquetColumns | None = None

    def read(self, rows: RowRanges, predicate: Predicate | None = None) -> Iterator[list[pa.Array]]:
        """The shown columns of those rows that match the predicate, in parts of equal lengths.

        SnapshotMovedError where the rows were removed since the table was opened.
        """
        if predicate is None:
            yield self._columns(self._wanted.shown, rows)
            return
        for part in rows.steps(FILTER_ROWS):
            yield from self._matching(part, predicate)

    def open(self) -> None:
        """Opens all columns, of whose files nothing is lost to the reader when their names lead to others."""
        for column in (*self._wanted.shown, *self._wanted.filtered):
            if column.kind is not Kind.PARTITIONING and column.name not in self._open:
                self._hold(column)

    def _matching(self, rows: RowRanges, predicate: Predicate) -> Iterator[list[pa.Array]]:
        total = rows.rows
        filtered = self._columns(self._wanted.filtered, rows)
        by_name = {column.name: array for column, array in zip(self._wanted.filtered, filtered, strict=True)}
        columns = by_name or {"": pa.nulls(total)}  # a predicate without columns still has one result a row
        matches = predicate.evaluate(pa.record_batch(list(columns.values()), names=list(columns)))
        count = pc.sum(matches).as_py() or 0
        if not count:
            return
        rest = [column for column in self._wanted.shown if column.name not in by_name]
        by_name |= {c.name: array for c, array in zip(rest, self._columns(rest, rows), strict=True)}
        arrays = [by_name[column.name] for column in self._wanted.shown]
        yield arrays if count == total else [array.filter(matches) for array in arrays]

    def _columns(self, columns: Sequence[Column], rows: RowRanges) -> list[pa.Array]:
        try:
            return self._columns_there(columns, rows)
        except SnapshotMovedError:
            if not self._follow():
                raise
        return self._columns_there(columns, rows)

    def _follow(self) -> bool:
        """Goes on reading where the files of the location were moved to since; False where they are not there."""
        slice_ = self._slice
        aside = None if self._pin is None else self._pin.aside(slice_.key, slice_.directory)
        if aside is None:
            return False
        self._slice = replace(slice_, path=str(aside))
        self._open, self._parquet, self._pin = {}, None, None
        return True

    def _columns_there(self, columns: Sequence[Column], rows: RowRanges) -> list[pa.Array]:
        missing = [c for c in columns if c.kind is not Kind.PARTITIONING and c.name not in self._open]
        try:
            for column in missing:
                self._hold(column)
            if missing and not self._wanted.later:
                self._require_pinned()
            return [self._column(column, rows) for column in columns]
        except (FileNotFoundError, FormatError) as error:
            self._require_pinned(error)
            raise

    def _hold(self, column: Column) -> None:
        self._open[column.name] = self._opened(column)
        self._has_nulls[column.name] = None if has_other_null(column) else self._slice.has_nulls(column.name)

    def _opened(self, column: Column) -> ColumnFile:
        slice_ = self._slice
        try:
            opened = self._open_file(column)
        except (SchemaMismatchError, OtherColumnError) as error:
            if not slice_.newer:
                raise
            what = "type" if isinstance(error, SchemaMismatchError) else "name"
            raise schema_moved(slice_.directory, column.name, f"has another {what} now") from error
        if slice_.newer and opened.absent:  # not null: it was renamed or dropped
            raise schema_moved(slice_.directory, column.name, "is no longer stored")
        return opened

    def _open_file(self, column: Column) -> ColumnFile:
        if not in_parquet(self._sizes):
            return self._files.column(self._slice, column, self._sizes)
        if self._parquet is None:
            self._parquet = self._files.parquet(self._slice)
        return self._parquet.column(column.at(self._slice.named_by))

    def _column(self, column: Column, rows: RowRanges) -> pa.Array:
        if column.kind is Kind.PARTITIONING:
            index = np.full(rows.rows, self._wanted.values.numbers[self._slice.key.value], np.int32)
            indices = pa.Array.from_buffers(pa.int32(), len(index), [None, pa.py_buffer(index)])
            return pa.DictionaryArray.from_arrays(indices, self._wanted.values.array)
        return self._open[column.name].take(rows, has_nulls=self._has_nulls[column.name])

    def _require_pinned(self, error: Exception | None = None) -> None:
        """Raises if the location is not that of the snapshot; ``error``: the error of reading it, if any."""
        slice_ = self._slice
        if self._pin is not None:
            self._pin.require([(slice_.key, slice_.directory)], error)
        if error is not None and self._files.fs.stat(slice_.directory) is None:
            if slice_.stream is None:
                raise history_left(slice_.directory, f"{slice_.rows} rows") from error
            raise left(slice_.directory, slice_.rows) from error


def schema_moved(directory: Path, column: str, what: str) -> SnapshotMovedError:
    """The error for files of a later version of the schema, which a table that was opened before cannot read."""
    return SnapshotMovedError(
        f"the schema has changed since the table was opened. Column {column} {what}",
        where=directory,
        expected=f"files of column {column} as it was then",
        found="files of a later version of the schema",
        hint="open the table again, or restart the query."
        f" `sparkhaven schema history {table_of(directory)}` lists the changes",
    )
