"""Reading a Locations table, which is a splayed table of column files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.locations import FIXED_NAMES, LocationEntry, decode_locations, locations_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import read_column, written_column
from sparkhaven.store.types.model import Column, TableSchema


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
        array = read_column(fs, directory, written_column(fs, directory, column, sizes), sizes, rows)
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array

    columns = {column.name: values(column).to_pylist() for column in locations_schema(partitioning, schema).columns}
    names = {column.name for column in schema.stored if f"{column.name}.dat" in sizes} - FIXED_NAMES
    given = {column.name: values(column) for column in schema.stored if column.name in names}
    return decode_locations(columns, partitioning, directory, given)
