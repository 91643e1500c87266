"""A column of a location of history in Parquet format, as the merge and validations read it.

The same entries that a column file has: sentinels for null, ids of a sorted symbol table, encoded texts. So a date
is merged again, and validated, whatever the format of its locations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.format.column.blobs import encode_blobs
from sparkhaven.store.format.column.coded import encode_coded_blobs
from sparkhaven.store.format.column.fixed import encode_entries
from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.format.column.string_ends import WIDTH
from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import pc
from sparkhaven.store.scan.column_file import open_parquet
from sparkhaven.store.types.codings.string_set import assign_bits, sorted_texts
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.block_sizes import SIZES
from sparkhaven.writers.merge.plan.merge_source import ALL, ColumnSource, MergeSource, Pick
from sparkhaven.writers.merge.plan.sort_keys import INT_NULL, look_up, rank_lut, sorted_symbols


def open_source(fs: Fs, source: MergeSource, column: Column) -> ColumnSource:
    """A column of a source, by the format of its location. Raises as ``ColumnSource``."""
    return ParquetSource(fs, source, column) if in_parquet(source.files) else ColumnSource(fs, source, column)


def text_bytes(fs: Fs, source: MergeSource, columns: tuple[Column, ...]) -> dict[str, int]:
    """About how many bytes the texts of each text column take; empty for a location of column files."""
    if not in_parquet(source.files):
        return {}
    sizes = {NAME: source.files[NAME].size}
    parquet = open_parquet(fs, source.directory, sizes, source.rows).found
    return {column.name: parquet.uncompressed(column) for column in columns if column.storage is not Storage.FIXED}


class ParquetSource(ColumnSource):
    """One column of one ``table.parquet``. Raises CorruptFileError, SchemaMismatchError at opening."""

    def __init__(self, fs: Fs, source: MergeSource, column: Column) -> None:
        self.fs, self.source, self.column = fs, source, column
        sizes = {name: state.size for name, state in source.files.items()}
        self._rows = open_parquet(fs, source.directory, sizes, source.rows)
        self._file = self._rows.column(column)
        self._table: pa.Array | None = None

    @property
    def absent(self) -> bool:
        """Whether the file has no such column, so that every row is null."""
        return not self._rows.found.has(self.column)

    @property
    def encoding(self) -> str | None:
        """The charset of encoded texts: that which the schema declares."""
        return None if self.absent or self.column.storage is Storage.FIXED else charset_of(self.column)

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        """Raw entries of absolute rows ``[first, stop)``: numbers, symbol ids, or the ends of blobs in these rows."""
        if self.column.storage is Storage.SYMBOL:
            return self._ids(first, stop)
        if self.column.storage is Storage.SET:
            known = {text: bit for bit, text in enumerate(self.symbols().to_pylist())}
            return assign_bits(self._file.read(first, stop), known)[0]
        if self.column.storage is Storage.BLOB:
            return self.ends(first, stop)[1:]
        return encode_entries(self._file.read(first, stop), self.column.type)

    def symbols(self) -> pa.Array:
        """The distinct texts, sorted: the symbol table that a column file would have."""
        if self._table is None:
            parquet = self._rows.found
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
        coded = self._file.read(first, stop)
        local = pc.fill_null(coded.indices, int(INT_NULL)).to_numpy(zero_copy_only=False)
        return look_up(rank_lut(coded.dictionary, self.symbols()), np.ascontiguousarray(local, np.int32))

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
        prefix = f"{self._rows.found.path}, row "
        values, coding = self._file.read(first, stop), self.column.type.blob

        def locate(index: int) -> str:
            return prefix + str(first + index)

        if coding is not None:
            ends, data = encode_coded_blobs(values, coding, 0, locate=locate)
        else:
            ends, data = encode_blobs(values, charset_of(self.column), 0, locate=locate)
        return np.concatenate((np.zeros(1, np.int64), np.frombuffer(ends, f"<i{WIDTH}"))), data

    def texts(self, first: int, stop: int) -> pa.Array:
        return self._file.read(first, stop)
