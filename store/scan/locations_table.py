"""Reading a Locations table, which is a splayed table of column files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.locations import FIXED_NAMES, LocationEntry, decode_locations, locations_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import column_header, read_column
from sparkhaven.store.types.model import Column, Storage, TableSchema


def read_locations(fs: Fs, directory: Path, partitioning: str, schema: TableSchema) -> list[LocationEntry]:
    """The leaves that a Locations table names. Raises what ``decode_locations`` and reading columns raise.

    Each column of the table that the Locations table has too is one that directories give.
    """
    record = table_size.load(fs, directory)
    if record is None:
        raise CorruptFileError(
            "the Locations table has no table.size", where=directory, expected="a record of its rows"
        )
    sizes, rows = record.data_file_sizes, record.size

    def values(column: Column) -> pa.Array:
        array = read_column(fs, directory, _as_written(fs, directory, column, sizes), sizes, rows)
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array

    columns = {column.name: values(column).to_pylist() for column in locations_schema(partitioning, schema).columns}
    names = {column.name for column in schema.stored if f"{column.name}.dat" in sizes} - FIXED_NAMES
    given = {column.name: values(column) for column in schema.stored if column.name in names}
    return decode_locations(columns, partitioning, directory, given)


def _as_written(fs: Fs, directory: Path, column: Column, sizes: Mapping[str, int]) -> Column:
    """The column with number, charset and storage of its files, which another program may have chosen."""
    name = f"{column.name}.dat"
    if name not in sizes:
        return column
    header = column_header(fs, directory / name)
    column = replace(column, id=header.column_id or column.id, encoding=header.encoding)
    if column.storage in (Storage.SYMBOL, Storage.BLOB) and column.type.coding is None:
        column = replace(column, storage=Storage.SYMBOL if f"{column.name}.sym" in sizes else Storage.BLOB)
    return column
