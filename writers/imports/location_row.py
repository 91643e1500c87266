"""A row of a Locations table against the path that it names: both give the values of columns, and must agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.table.locations import LocationEntry
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.imports.directory_values import directory_value


def require_agreement(entry: LocationEntry, keys: Mapping[str, str], schema: TableSchema, path: Path) -> None:
    """CorruptFileError: the row has other columns, or other values, than directories ``keys`` of the leaf's path.

    SchemaMismatchError: a directory names no value of its column.
    """
    assert schema.partitioning is not None  # noqa: S101  the caller saw it
    date, row = schema.partitioning.name, dict(entry.columns)
    if keys.keys() != {date, *row}:
        raise _contradiction(path, f"levels of {', '.join((date, *row))}, the columns of the Locations table", keys)
    if keys[date] != entry.value:
        raise _contradiction(path, f"{date}={entry.value}, as its row of the Locations table says", keys)
    columns = {column.name: column for column in schema.stored}
    for name, value in row.items():
        if not _same(value, directory_value(keys[name], columns[name], path.parent)[0]):
            words = f"{name}={value.as_py()}" if value.is_valid else f"{name} null"
            raise _contradiction(path, f"{words}, as its row of the Locations table says", keys)


def _same(left: pa.Scalar, right: pa.Scalar) -> bool:
    """NaN is the same as NaN."""
    if left.is_valid and right.is_valid and pa.types.is_floating(left.type):
        return str(left) == str(right)
    return bool(left.equals(right))


def _contradiction(path: Path, expected: str, keys: Mapping[str, str]) -> CorruptFileError:
    return CorruptFileError(
        "path of a leaf contradicts the Locations table",
        where=path,
        expected=expected,
        found=", ".join(f"{name}={text}" for name, text in keys.items()) or "a leaf in the root",
        hint="have the Locations table written anew from the tree",
    )
