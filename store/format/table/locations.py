"""The Locations table of an extended layout ``coreplus:hive``: which leaves there are, with their rows.

A splayed table of column files in ``.locations_table`` (or ``.location_table``) below the root. Where it is, it alone
decides which leaves exist; of two rows for one leaf the last counts.

=======================  ======  ==========================================================================
column                   type    content
=======================  ======  ==========================================================================
the partitioning column  String  value
``<Column>``             its     value, for each other column that directories give
``Filename``             String  leaf, relative to the root: a Parquet file, or a directory of column files
``Size``                 long    rows
``Format``               String  ``PARQUET`` or ``DEEPHAVEN``
``LastModifiedNanos``    long    time of the leaf's last change, nanoseconds since the epoch
``ColumnVersion``        int     of column files; null for Parquet
=======================  ======  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

PARQUET, DEEPHAVEN = "PARQUET", "DEEPHAVEN"
_NAMES = ("Filename", "Size", "Format", "LastModifiedNanos", "ColumnVersion")  # behind the partitioning column
FIXED_NAMES = frozenset((*_NAMES, "RowGroupSizes"))  # the latter is not looked at
FIXED_TYPES = {  # names of the types that each may have; RowGroupSizes may be missing
    "Filename": ("String",),
    "Size": ("long",),
    "Format": ("String",),
    "LastModifiedNanos": ("long", "Instant"),
    "ColumnVersion": ("int",),
    "RowGroupSizes": ("long[]",),
}
_FIXED = ("Size", "long"), ("LastModifiedNanos", "long"), ("ColumnVersion", "int")


@dataclass(frozen=True, slots=True)
class LocationEntry:
    """One leaf; ``modified``: nanoseconds since the epoch; ``version``: of column files, else None.

    ``columns``: values of columns that directories give beside ``value``, in the types of the table.
    """

    value: str
    filename: str
    rows: int
    format: str
    modified: int
    version: int | None = None
    columns: tuple[tuple[str, pa.Scalar], ...] = ()


def locations_schema(partitioning: str, table: TableSchema, given: Sequence[Column] = ()) -> TableSchema:
    """The definition of the Locations table of a table. ``given``: columns that directories give beside the date."""
    types = dict(_FIXED)
    columns = [
        Column(name, BY_NAME[types[name]], Kind.NORMAL, Storage.FIXED, number)
        if name in types
        else Column(name, BY_NAME["String"], Kind.NORMAL, Storage.BLOB, number, "UTF_8")
        for number, name in enumerate((partitioning, *_NAMES), 1)
    ]
    columns += [_given(column, number) for number, column in enumerate(given, len(columns) + 1)]
    return TableSchema(table.namespace, table.name, tuple(columns), nested=False)


def _given(column: Column, number: int) -> Column:
    """A column of the table as the Locations table has it: texts without a symbol table."""
    text = column.storage is not Storage.FIXED
    return replace(
        column,
        kind=Kind.NORMAL,
        storage=Storage.BLOB if text else Storage.FIXED,
        id=number,
        encoding="UTF_8" if text else None,
        stems=(),
    )


def encode_locations(entries: Sequence[LocationEntry], schema: TableSchema) -> pa.RecordBatch:
    """The rows of the table."""
    values = [
        [e.value for e in entries],
        [e.filename for e in entries],
        [e.rows for e in entries],
        [e.format for e in entries],
        [e.modified for e in entries],
        [e.version for e in entries],
    ]
    given = [dict(e.columns) for e in entries]
    values += [[row[column.name].as_py() for row in given] for column in schema.columns[len(values) :]]
    arrays = [pa.array(array, column.type.arrow) for array, column in zip(values, schema.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in schema.columns])


def decode_locations(
    columns: Mapping[str, Sequence[Any]], partitioning: str, where: object, given: Mapping[str, pa.Array] | None = None
) -> list[LocationEntry]:
    """The leaves, of each the last row, in the order of these. CorruptFileError: a row says what cannot be.

    ``given``: the columns that directories give beside the partitioning column.
    """
    names = (partitioning, *_NAMES)
    entries: dict[str, LocationEntry] = {}
    for number, row in enumerate(zip(*(columns[name] for name in names), strict=True)):
        value, filename, rows, kind, modified, version = row
        parts = filename.split("/") if isinstance(filename, str) else []
        if not value or not parts or not all(parts) or ".." in parts or "." in parts:
            raise _wrong(where, number, "a value, and a path below the root", f"{value!r}, {filename!r}")
        if rows is None or rows < 0 or kind not in (PARQUET, DEEPHAVEN):
            raise _wrong(where, number, f"rows, and {PARQUET} or {DEEPHAVEN}", f"{rows}, {kind!r}")
        entries.pop(filename, None)
        others = tuple((name, array[number]) for name, array in (given or {}).items())
        entries[filename] = LocationEntry(value, filename, rows, kind, modified or 0, version, others)
    return list(entries.values())


def _wrong(where: object, row: int, expected: str, found: str) -> CorruptFileError:
    return CorruptFileError(
        "Locations table has a row that names no leaf",
        where=f"{where}, row {row}",
        expected=expected,
        found=found,
        hint="have the table written anew from the tree",
    )
