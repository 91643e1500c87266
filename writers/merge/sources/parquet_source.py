"""A column of a location of history in Parquet format, as the merge and validations read it.

The same entries that a column file has: sentinels for null, ids of a sorted symbol table, encoded texts. So a date
is merged again, and validated, whatever the format of its locations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_parquet
from sparkhaven.store.types.codings.string_set import assign_bits, sorted_texts
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.sources.decoded_source import DecodedSource, widened_source
from sparkhaven.writers.merge.sources.merge_source import ALL, ColumnSource, MergeSource, Pick
from sparkhaven.writers.merge.sources.picked_source import PickedSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, look_up, rank_lut, sorted_symbols


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
    sizes = {NAME: source.files[NAME].size}
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
        super().__init__(fs, source, column, rows.column(column), NAME)
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
