"""Values of columns that the directories of a tree give, ``<Column>=<value>`` below or above those of the date.

Spark writes such levels with ``partitionBy``: the values as texts, with ``%XX`` for what a path cannot have, and
``__HIVE_DEFAULT_PARTITION__`` for null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.parquet.trees import HIVE_NULL
from sparkhaven.store.instants import parse_instant
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions, mapped, takes

_WHOLE = re.compile(r"-?[0-9]{1,20}\Z", re.ASCII)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:[.][0-9]*)?(?:[eE][+-]?[0-9]+)?|Infinity|inf)\Z|NaN\Z|nan\Z", re.ASCII)
_TRUTHS = {"true": True, "false": False}


def directory_value(text: str, column: Column, where: object, options: AllowedConversions = STRICT) -> pa.Array:
    """One row with the value of a column that a directory names. SchemaMismatchError: it is none of the column."""
    if text == HIVE_NULL:
        return pa.nulls(1, column.type.arrow)
    try:
        array = _of_text(text, column)
    except (ValueError, OverflowError):
        array = None
    if array is None or not takes(array.type, column, options):
        raise SchemaMismatchError(
            f"the directory names no value of column {column.name}",
            where=where,
            expected=f"a value of type {column.type.name}, or {HIVE_NULL} for null",
            found=repr(text),
            hint="have the tree written again, with the column in the files",
        )
    return mapped(array, column, lambda row: f"{where}, column {column.name}", options)


def directory_values(
    texts: Iterable[tuple[str, str]], schema: TableSchema, where: object, options: AllowedConversions
) -> dict[str, pa.Array]:
    """The same of all columns that directories give, by name."""
    stored = {column.name: column for column in schema.stored}
    return {name: directory_value(text, stored[name], where, options) for name, text in texts}


def _of_text(text: str, column: Column) -> pa.Array | None:
    """In the type of Arrow that has such values; None: a directory cannot name one of this column."""
    name, kind = column.type.name, column.type.arrow
    if column.type.coding is not None:
        if pa.types.is_binary(kind):
            return pa.array([text.encode()])  # as Spark casts a text to bytes
        return None if pa.types.is_nested(kind) else pa.array([text])
    if name in INTEGER_BITS:
        return pa.array([int(text)], pa.int64()) if _WHOLE.match(text) else None
    if name in ("float", "double"):
        return pa.array([float(text)]).cast(kind) if _NUMBER.match(text) else None
    if name == "Boolean":
        return pa.array([_TRUTHS[text.lower()]]) if text.lower() in _TRUTHS else None
    if name == "Instant":
        return pa.array([parse_instant(text)], pa.timestamp("ns", "UTC"))
    return pa.array([text])
