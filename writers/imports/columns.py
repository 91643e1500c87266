"""Values of foreign Parquet columns as those of a column of ours: exactly, or not at all.

==============  ==================================================================================================
column          taken from, where every value is exactly representable
==============  ==================================================================================================
Boolean         BOOLEAN
byte … long     integers of any width and sign
char            integers; texts of one UTF-16 unit
float, double   floating point of any width
Instant         timestamps of any unit adjusted to UTC; INT96 that Spark has written
String          texts; a partitioning column also dates, as ``YYYY-MM-DD``
==============  ==================================================================================================

A value that is the null of its type in column files, or that the charset of the column does not have, cannot be
stored and is an error too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from store.errors import SchemaMismatchError
from store.format.column.charset import unencodable
from store.format.column.fixed import sentinels
from store.format.column.prefix import charset_of
from store.kernels import pc
from store.types.model import Column, Kind, Storage

Place = Callable[[int], str]


def takes(kind: pa.DataType, column: Column) -> bool:
    """Whether values of a type may be values of a column."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return True
    name = column.type.name
    if name == "Boolean":
        return bool(pa.types.is_boolean(kind))
    if name in ("byte", "short", "int", "long"):
        return bool(pa.types.is_integer(kind))
    if name == "char":
        return bool(pa.types.is_integer(kind)) or _is_text(kind)
    if name in ("float", "double"):
        return bool(pa.types.is_floating(kind))
    if name == "Instant":
        return bool(pa.types.is_timestamp(kind)) and kind.tz is not None
    return _is_text(kind) or (column.kind is Kind.PARTITIONING and bool(pa.types.is_date(kind)))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def mapped(array: pa.Array, column: Column, place: Place) -> pa.Array:
    """Values in the Arrow type of the column; ``place(index)`` names a row.

    SchemaMismatchError: the type is another one, or a value is not exactly representable.
    """
    if not takes(array.type, column):
        raise refused_type(column, array.type, place(0))
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    wanted = column.type.arrow
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.string())
    if column.type.name == "char" and not pa.types.is_integer(array.type):
        array = _units(array, column, place)
    elif pa.types.is_date(array.type):
        array = array.cast(pa.string())
    elif pa.types.is_floating(wanted):
        array = _floats(array, column, place)
    elif array.type != wanted:
        array = _cast(array, column, place)
    _check(array, column, place)
    return array


def _cast(array: pa.Array, column: Column, place: Place) -> pa.Array:
    wanted = column.type.arrow
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        row = next((i for i in range(len(array)) if not _fits(array[i], wanted)), 0)
        raise _inexact(column, place(row), array[row], error) from error


def _fits(value: pa.Scalar, wanted: pa.DataType) -> bool:
    try:
        value.cast(wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _floats(array: pa.Array, column: Column, place: Place) -> pa.Array:
    found = array.cast(column.type.arrow, safe=False)
    if found.type.bit_width < array.type.bit_width:
        lost = pc.and_(pc.invert(pc.is_nan(array)), pc.not_equal(found.cast(array.type, safe=False), array))
        _refuse_first(lost, array, column, place)
    return found


def _units(array: pa.Array, column: Column, place: Place) -> pa.Array:
    """Texts of one character as UTF-16 units."""
    lengths = pc.utf8_length(array)
    wide = pc.greater(pc.binary_length(array), 3)
    _refuse_first(pc.or_(pc.not_equal(lengths, 1), wide), array, column, place)
    return pa.array([None if text is None else ord(text) for text in array.to_pylist()], pa.uint16())


def _check(array: pa.Array, column: Column, place: Place) -> None:
    """Refuses what a column file could not hold."""
    if column.storage is Storage.FIXED:
        bad = sentinels(array, column.type)
        if bad.any():
            row = int(np.argmax(bad))
            raise _inexact(column, place(row), array[row], "it is the null of its type")
        return
    if column.kind is Kind.PARTITIONING:
        return  # its values are names of directories
    coded = array.dictionary_encode()
    bad = unencodable(coded.dictionary, charset_of(column))
    if bad.any():
        number = int(np.argmax(bad))
        row = int(np.argmax(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number))
        raise _inexact(column, place(row), array[row], f"the charset of the column, {charset_of(column)}, has it not")


def _refuse_first(bad: pa.Array, array: pa.Array, column: Column, place: Place) -> None:
    row = pc.index(bad, True).as_py()
    if row >= 0:
        raise _inexact(column, place(row), array[row], "it is not exactly representable")


def _inexact(column: Column, where: str, value: pa.Scalar, why: object) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"value cannot be stored exactly in column {column.name}",
        where=where,
        expected=f"a value of type {column.type.name}",
        found=f"{_shown(value)[:80]}: {why}",
        hint="have the value written otherwise, or declare the column with a type that has it",
    )


def _shown(value: pa.Scalar) -> str:
    """A value as text; an instant that no datetime reaches as its number."""
    return f"{value.value} {value.type.unit}" if pa.types.is_timestamp(value.type) else str(value)


def refused_type(column: Column, kind: pa.DataType, where: object) -> SchemaMismatchError:
    """The error for a column whose values can never be stored."""
    hint = "have the column written with another type, or declare it with one that has these values"
    if column.type.name == "Instant" and pa.types.is_timestamp(kind):
        hint = "a timestamp without zone names no instant: have it written adjusted to UTC"
    return SchemaMismatchError(
        f"column {column.name} has another type",
        where=where,
        expected=f"what {column.type.name} takes exactly, like {column.type.arrow}",
        found=kind,
        hint=hint,
    )
