"""Which UTF-16 unit means null in column files of type char, and in arrays of them: 0xFFFF, or 0xFFFE in files from
before November 2021.

Writers write 0xFFFF, whatever readers take for null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.types.datatypes import BY_NAME, CHAR_NULL, DataType, data_type, with_null
from sparkhaven.store.types.model import Column, TableSchema

ENVIRONMENT = "SPARKHAVEN_NULL_CHAR"
OLD_NULL = 0xFFFE
_CHOICES = {"0xFFFF": CHAR_NULL, "0xFFFE": OLD_NULL}


def chosen_null_char(asked: str | int | None, environ: Mapping[str, str]) -> int:
    """The unit that a caller or the environment names. SettingsError: it is neither of the two."""
    where = "null_char" if asked is not None else ENVIRONMENT
    word = asked if asked is not None else environ.get(ENVIRONMENT) or "0xFFFF"
    for text, unit in _CHOICES.items():
        if word == unit or (isinstance(word, str) and word.lower() == text.lower()):
            return unit
    raise SettingsError("unknown null of char", where=where, expected=" or ".join(_CHOICES), found=repr(word))


def with_null_char(schema: TableSchema, unit: int) -> TableSchema:
    """The schema as a reader takes it that reads ``unit`` as null."""
    if unit == CHAR_NULL:
        return schema
    columns, retired = (tuple(column_with_null(c, unit) for c in part) for part in (schema.columns, schema.retired))
    return replace(schema, columns=columns, retired=retired)


def has_other_null(column: Column) -> bool:
    """Whether nulls of the column are not those that statistics count."""
    return other_null(column.type) is not None


def other_null(kind: DataType) -> int | None:
    """The unit that a reader takes for null, where it is not the one that writers write."""
    origin = kind.origin
    return None if origin is None else origin.null


def char_type(unit: int) -> DataType:
    """The type char with a null."""
    return _typed(BY_NAME["char"], unit)


def _typed(kind: DataType, unit: int) -> DataType:
    """A type of chars, or of arrays of them, with a null."""
    if unit == (CHAR_NULL if other_null(kind) is None else other_null(kind)):
        return kind
    if unit != CHAR_NULL:
        return with_null(kind, unit)
    origin = kind.origin
    return kind if origin is None else data_type(origin.spelling, origin.codec, origin.arguments, origin.width)


def exchanged(array: pa.Array, unit: int) -> pa.Array:
    """Chars, or lists of them, as a reader has them that reads ``unit`` as null: today's null is then a value."""
    if pa.types.is_list(array.type):
        elements = exchanged(array.values, unit)
        offsets = array.buffers()[:2]
        return pa.Array.from_buffers(array.type, len(array), offsets, array.null_count, array.offset, [elements])
    units = np.asarray(pc.fill_null(array, CHAR_NULL))
    return pa.array(units, array.type, mask=units == unit)


def as_written(column: Column) -> Column:
    """The column as writers write it, whatever null a reader takes."""
    return column_with_null(column, CHAR_NULL)


def column_with_null(column: Column, unit: int) -> Column:
    """The column as a reader takes it that reads ``unit`` as null."""
    chars = column.type.name == "char" or getattr(column.type.coding, "letter", "") == "C"  # in arrays
    return replace(column, type=_typed(column.type, unit)) if chars else column
