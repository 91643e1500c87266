"""Rows of a leaf of column files, as a hive tree may have: read by their own definition, stored by the table's.

A column that directories give is not in the leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import ColumnFile, open_column, written_column
from sparkhaven.store.scan.location_definition import location_schema
from sparkhaven.store.suggestions import meant
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.store.types.null_char import column_with_null
from sparkhaven.writers.imports.directory_values import directory_values
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions, mapped, storable
from sparkhaven.writers.imports.parquet_leaf import BATCH_ROWS, LeafReader, LeafRows
from sparkhaven.writers.imports.tree_walk import FoundLeaf
from sparkhaven.writers.merge.sources.merge_source import check_crc


class ColumnLeafReader:
    """One directory. CorruptFileError: it is damaged. SchemaMismatchError: other columns, or other types."""

    def __init__(self, fs: Fs, leaf: FoundLeaf, schema: TableSchema, options: AllowedConversions = STRICT) -> None:
        self._fs, self._leaf, self._schema = fs, leaf, schema
        self._null_char = options.null_char
        self._given = directory_values(leaf.columns, schema, leaf.path.parent, options)
        record = table_size.load(fs, leaf.path)
        if record is None or (leaf.rows is not None and record.size != leaf.rows):
            raise CorruptFileError(
                "leaf has another number of rows than the tree says",
                where=leaf.path / table_size.NAME,
                expected=leaf.rows,
                found="nothing" if record is None else record.size,
                hint="copy the tree again",
            )
        self._record, self.rows = record, record.size
        self._own = location_schema(fs, leaf.path)
        self.size = sum(record.data_file_sizes.values())
        names = [name.removesuffix(".dat") for name in record.data_file_sizes if name.endswith(".dat")]
        columns = [column.name for column in schema.stored if column.name not in self._given]
        odd = sorted((set(names) ^ set(columns)) - options.ignored)
        if odd:
            lacks = odd[0] in columns
            violation = "leaf lacks a column" if lacks else "leaf has a column that the table lacks"
            hint = meant(odd[0], names if lacks else columns) or "make the columns of leaf and table equal"
            if odd[0] in self._given:
                violation = "leaf has a column that its directories give too"
                hint = "have the leaves written without it, or move them out of those directories"
            raise SchemaMismatchError(
                violation,
                where=leaf.path,
                expected=odd[0] if lacks else ", ".join(columns),
                found=", ".join(sorted(names)) if lacks else odd[0],
                hint=hint,
            )

    def counts(self) -> dict[str, int]:
        return {self._leaf.value: self.rows} if self.rows and self._leaf.value is not None else {}

    def read(self, date: str) -> Iterator[LeafRows]:
        opened = {c.name: self._opened(c) for c in self._schema.stored if c.name not in self._given}
        for first in range(0, self.rows, BATCH_ROWS):
            stop = min(first + BATCH_ROWS, self.rows)
            arrays = tuple(
                self._values(column, opened[column.name], first, stop)
                if column.name in opened
                else pa.repeat(self._given[column.name][0], stop - first)
                for column in self._schema.stored
            )
            yield LeafRows(date, arrays, stop - first)

    def _values(self, column: Column, file: ColumnFile, first: int, stop: int) -> pa.Array:
        """Rows as the table has them: the codec of the leaf may be another one."""
        array = file.read(first, stop)
        if column.type.coding is not None and file.column.type.coding == column.type.coding:
            return array

        def place(row: int) -> str:
            return f"{self._leaf.path}, column {column.name}, row {first + row}"

        return storable(array, column, place) if column.type.coding is None else mapped(array, column, place)

    def _opened(self, column: Column) -> ColumnFile:
        """A column as its own prefix and definition describe it, its files compared with their checksums."""
        directory, sizes, sums = self._leaf.path, self._record.data_file_sizes, self._record.checksums
        own = written_column(self._fs, directory, column, sizes)
        declared = self._own.column(column.name) if self._own and column.type.coding is not None else None
        if declared is not None and declared.type.java == column.type.java:
            own = replace(own, type=declared.type, storage=declared.storage)
        for name in own.files:
            if name in sums and name in sizes:
                check_crc(self._fs, directory / name, FileState(sizes[name], sums[name]), stream="")
        return open_column(self._fs, directory, column_with_null(own, self._null_char), sizes, self.rows)


def open_leaf(
    fs: Fs, leaf: FoundLeaf, schema: TableSchema, value: str | None = None, options: AllowedConversions = STRICT
) -> LeafReader | ColumnLeafReader:
    """The reader of a leaf; ``value``: that of rows which have none."""
    if fs.is_dir(leaf.path):
        return ColumnLeafReader(fs, leaf, schema, options)
    return LeafReader(fs, leaf, schema, value, options)
