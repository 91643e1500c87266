"""Reading a Locations table, which is a splayed table of column files."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.locations import LocationEntry, decode_locations, locations_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.model import TableSchema


def read_locations(fs: Fs, directory: Path, partitioning: str, schema: TableSchema) -> list[LocationEntry]:
    """The leaves that a Locations table names. Raises what ``decode_locations`` and reading columns raise."""
    record = table_size.load(fs, directory)
    if record is None:
        raise CorruptFileError(
            "the Locations table has no table.size", where=directory, expected="a record of its rows"
        )
    own = locations_schema(partitioning, schema)
    sizes, rows = record.data_file_sizes, record.size
    columns = {c.name: read_column(fs, directory, c, sizes, rows).to_pylist() for c in own.columns}
    return decode_locations(columns, partitioning, directory)
