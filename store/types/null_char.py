"""Which UTF-16 unit means null in column files of type char: 0xFFFF, or 0xFFFE in files from before November 2021.

Writers write 0xFFFF, whatever readers take for null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.types.datatypes import BY_NAME, CHAR_NULL, DataType, Origin
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
    columns, retired = (tuple(_with(c, unit) for c in part) for part in (schema.columns, schema.retired))
    return replace(schema, columns=columns, retired=retired)


def has_other_null(column: Column) -> bool:
    """Whether nulls of the column are not those that statistics count."""
    return column.type.name == "char" and column.type.null != CHAR_NULL


def char_type(unit: int) -> DataType:
    """The type char with a null."""
    known = BY_NAME["char"]
    return known if unit == CHAR_NULL else replace(known, null=unit, origin=Origin("char", null=unit))


def as_written(column: Column) -> Column:
    """The column as writers write it, whatever null a reader takes."""
    return _with(column, CHAR_NULL)


def _with(column: Column, unit: int) -> Column:
    return replace(column, type=char_type(unit)) if column.type.name == "char" else column
