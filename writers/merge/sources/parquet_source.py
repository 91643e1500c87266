"""Columns of a merge's sources that are not plain column files: Parquet, earlier forms, and sources with rows left out.

A column of ``table.parquet`` gives the entries that a column file has: sentinels for null, ids of a sorted symbol
table, encoded texts. So a date is merged again, and validated, whatever the format of its locations.

An earlier form of a widened column is decoded and encoded anew. Of a source of which a merge leaves rows out, those
that are kept are numbered without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.format.column.charset import WIDTH, encode_blobs
from sparkhaven.store.format.column.codecs import encode_entries
from sparkhaven.store.format.column.coded import encode_coded_blobs
from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.scan.column_file import ColumnFile, open_column, open_parquet
from sparkhaven.store.types.codings.string_set import assign_bits, sorted_texts
from sparkhaven.store.types.model import Column, Storage, same_form
from sparkhaven.store.types.row_ranges import Positions, RowRanges
from sparkhaven.writers.merge.sources.merge_source import ALL, SIZES, ColumnSource, MergeSource, Pick
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, look_up, picked, rank_lut, sorted_symbols


class DecodedSource(ColumnSource):
    """One column of one source by its values: entries and bytes as a file of its newest form would have them."""

    def __init__(self, fs: Fs, source: MergeSource, column: Column, opened: ColumnFile, name: str) -> None:
        """``name``: the file that errors tell of."""
        self.fs, self.source, self.column, self._opened = fs, source, column, opened
        self._where = f"{source.directory / name}, row "

    @property
    def absent(self) -> bool:
        return self._opened.absent

    @property
    def as_stored(self) -> bool:
        return False

    @property
    def region(self) -> None:
        return None

    @property
    def encoding(self) -> str | None:
        """The charset of encoded texts: that which the schema declares."""
        return None if self.absent or self.column.storage is Storage.FIXED else charset_of(self.column)

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        """Raw entries of absolute rows ``[first, stop)``: numbers, or the ends of blobs in these rows."""
        if self.column.storage is Storage.BLOB:
            return self.ends(first, stop)[1:]
        return encode_entries(self._opened.read(first, stop), self.column.type)

    def ends(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Ends of the encoded values of rows ``[first, stop)``, counted from 0, with the 0 before the first."""
        return self._encoded(first, stop)[0]

    def blobs(self, first: int, stop: int) -> pa.Array:
        ends, data = self._encoded(first, stop)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), stop - first, buffers)

    def _encoded(self, first: int, stop: int) -> tuple[npt.NDArray[np.int64], memoryview]:
        if self.absent:
            return np.zeros(stop - first + 1, np.int64), memoryview(b"")
        values, coding = self._opened.read(first, stop), self.column.type.blob

        def locate(index: int) -> str:
            return self._where + str(first + index)

        if coding is not None:
            ends, data = encode_coded_blobs(values, coding, 0, locate=locate)
        else:
            ends, data = encode_blobs(values, charset_of(self.column), 0, locate=locate)
        return np.concatenate((np.zeros(1, np.int64), np.frombuffer(ends, f"<i{WIDTH}"))), data

    def texts(self, first: int, stop: int) -> pa.Array:
        return self._opened.read(first, stop)


def widened_source(fs: Fs, source: MergeSource, column: Column) -> ColumnSource:
    """A column of a location of column files, in its newest form. Raises as ``ColumnSource``."""
    plain = ColumnSource(fs, source, column)
    written = plain.column
    if plain.absent or same_form(written, column):
        return plain
    sizes = {name: source.files[name].size for name in written.files}
    opened = open_column(fs, source.directory, column, sizes, source.rows)
    return DecodedSource(fs, source, column, opened, written.files[0])


class PickedSource(ColumnSource):
    """Reads the kept rows from ``whole``, which has all of them, a window of rows at a time."""

    def __init__(self, whole: ColumnSource, source: MergeSource, kept: RowRanges) -> None:
        self.fs, self.source, self.column = whole.fs, source, whole.column
        self._whole, self._kept = whole, kept
        self._ends = np.cumsum(kept.stops - kept.starts)

    @property
    def absent(self) -> bool:
        return self._whole.absent

    @property
    def as_stored(self) -> bool:
        return False

    @property
    def region(self) -> None:
        return None

    @property
    def encoding(self) -> str | None:
        return self._whole.encoding

    def symbols(self) -> pa.Array:
        return self._whole.symbols()

    def symbol_parts(self, size: int, most: int = SIZES.symbols) -> Iterator[tuple[int, pa.Array]]:
        return self._whole.symbol_parts(size, most)

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        return self._joined(self._whole.entries, first, stop)

    def ids(self, first: int, stop: int, symbols: int, pick: Pick = ALL) -> npt.NDArray[np.int32]:
        ids: npt.NDArray[np.int32] = self._joined(lambda low, high: self._whole.ids(low, high, symbols), first, stop)
        return ids[pick]

    def ends(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Ends of the encoded values of rows ``[first, stop)``, counted from 0, with the 0 before the first."""
        values = self.blobs(first, stop)
        return np.frombuffer(values.buffers()[1], np.int64, values.offset + len(values) + 1)[values.offset :]

    def blobs(self, first: int, stop: int) -> pa.Array:
        parts = [picked(self._whole.blobs(low, high), rows) for low, high, rows in self._windows(first, stop)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())

    def texts(self, first: int, stop: int) -> pa.Array:
        parts = [picked(self._whole.texts(low, high), rows) for low, high, rows in self._windows(first, stop)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())

    def _joined(self, read: Callable[[int, int], npt.NDArray[Any]], first: int, stop: int) -> npt.NDArray[Any]:
        parts = [read(low, high)[rows] for low, high, rows in self._windows(first, stop)]
        return np.concatenate(parts) if parts else read(self.source.start, self.source.start)

    def _windows(self, first: int, stop: int) -> Iterator[tuple[int, int, Positions]]:
        """The kept rows numbered ``[first, stop)``: rows ``[low, high)`` of the location, and the kept ones of them."""
        if first >= stop:
            return
        start = self.source.start
        part = self._kept.within(self._row(first - start), self._row(stop - 1 - start) + 1)
        while len(part):
            low = part.start
            window = part.within(low, low + SIZES.rows)
            yield low, window.stop, window.positions - low
            part = part.within(window.stop, part.stop)

    def _row(self, number: int) -> int:
        """The row of the location that is the ``number``-th of those that are kept."""
        index = int(np.searchsorted(self._ends, number, side="right"))
        return int(self._kept.stops[index] - (self._ends[index] - number))


def open_source(fs: Fs, source: MergeSource, column: Column) -> ColumnSource:
    """A column of a source, by the format of its location. Raises as ``ColumnSource``."""
    if source.kept is not None:
        return PickedSource(open_source(fs, replace(source, kept=None), column), source, source.kept)
    source = source.of(column)
    column = column.at(source.named_by)
    return ParquetSource(fs, source, column) if in_parquet(source.files) else widened_source(fs, source, column)


def text_bytes(fs: Fs, source: MergeSource, columns: tuple[Column, ...]) -> dict[str, int]:
    """About how many bytes the texts of each text column take; empty for a location of column files."""
    if not in_parquet(source.files):
        return {}
    sizes = {PARQUET: source.files[PARQUET].size}
    parquet = open_parquet(fs, source.directory, sizes, source.rows).found
    return {
        column.name: parquet.uncompressed(column.at(source.named_by))
        for column in columns
        if column.storage is not Storage.FIXED
    }


class ParquetSource(DecodedSource):
    """One column of one ``table.parquet``. Raises CorruptFileError, SchemaMismatchError at opening."""

    def __init__(self, fs: Fs, source: MergeSource, column: Column) -> None:
        sizes = {name: state.size for name, state in source.files.items()}
        rows = open_parquet(fs, source.directory, sizes, source.rows)
        super().__init__(fs, source, column, rows.column(column), PARQUET)
        self._parquet = rows.found
        self._table: pa.Array | None = None

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        """Raw entries of absolute rows ``[first, stop)``: numbers, symbol ids, or the ends of blobs in these rows."""
        if self.column.storage is Storage.SYMBOL:
            return self._ids(first, stop)
        if self.column.storage is Storage.SET:
            known = {text: bit for bit, text in enumerate(self.symbols().to_pylist())}
            return assign_bits(self._opened.read(first, stop), known)[0]
        return super().entries(first, stop)

    def symbols(self) -> pa.Array:
        """The distinct texts, sorted: the symbol table that a column file would have."""
        if self._table is None:
            parquet = self._parquet
            groups = range(len(parquet.firsts) - 1) if parquet.has(self.column) else ()
            rows = (parquet.group(group, self.column) for group in groups)
            if self.column.storage is Storage.SET:
                self._table = pa.array(sorted_texts(sets.flatten() for sets in rows), pa.string())
                return self._table
            # texts that rows have; the dictionary of a row group may have more
            parts = [sorted_symbols([c.dictionary.take(c.indices.unique().drop_null())]) for c in rows]
            self._table = sorted_symbols(parts or [pa.array([], pa.string())])
        return self._table

    def symbol_parts(self, size: int, most: int = SIZES.symbols) -> Iterator[tuple[int, pa.Array]]:
        table = self.symbols()
        step = max(1, size * len(table) // max(table.nbytes, 1)) if len(table) else 1
        for first in range(0, len(table), step):
            yield first, table.slice(first, step)

    def ids(self, first: int, stop: int, symbols: int, pick: Pick = ALL) -> npt.NDArray[np.int32]:
        return self._ids(first, stop)[pick]

    def _ids(self, first: int, stop: int) -> npt.NDArray[np.int32]:
        coded = self._opened.read(first, stop)
        local = pc.fill_null(coded.indices, int(INT_NULL)).to_numpy(zero_copy_only=False)
        return look_up(rank_lut(coded.dictionary, self.symbols()), np.ascontiguousarray(local, np.int32))
