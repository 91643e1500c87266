"""Values of foreign Parquet columns as those of ours, by the table of ``store.conversions``: exactly, or not at all.

A value that is the null of its type in column files, or that the charset of the column does not have, cannot be
stored and is an error too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.conversions import number_arrays
from sparkhaven.store.conversions.conversion_table import (
    INTEGER_BITS,
    PARTITION,
    SIGNIFICANT,
    ConversionRule,
    Group,
    Take,
    accepted,
    accepted_by,
    column_rule,
    rule,
    source_of,
)
from sparkhaven.store.conversions.number_arrays import coded_array, plain, takes_elements
from sparkhaven.store.errors import InvalidNameError, SchemaMismatchError, SettingsError
from sparkhaven.store.format.column.charset import unencodable
from sparkhaven.store.format.column.codecs import sentinels
from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.instants import day_text, parse_instant, timestamp_text
from sparkhaven.store.layout import check_partition
from sparkhaven.store.types.codings.coding import Coding, UnfitError
from sparkhaven.store.types.codings.local_date import FIRST_DAY, LAST_DAY
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

Place = Callable[[int], str]
_COUNTED = frozenset({Group.DATE, Group.SPAN})


@dataclass(frozen=True, slots=True)
class AllowedConversions:
    """What the caller allows: columns that take the nearest value (``lossy``), and bytes that are texts in UTF-8.

    ``null_char``: the null of char in column files of the tree. ``ignored``: columns that are not those of the table,
    and are not read.
    """

    lossy: frozenset[str] = frozenset()
    binary_as_text: bool = False
    null_char: int = CHAR_NULL
    ignored: frozenset[str] = frozenset()

    def given(self) -> frozenset[str]:
        """The names of the options of the table of conversions that are set."""
        return frozenset({"binary_as_text"} if self.binary_as_text else ())


STRICT = AllowedConversions()


def lossy_columns(schema: TableSchema, names: Collection[str]) -> frozenset[str]:
    """The columns that may take the nearest value; SettingsError for one that is no float or double of the table."""
    floating = [column.name for column in schema.stored if column.type.name in SIGNIFICANT]
    if odd := sorted(set(names) - set(floating)):
        raise SettingsError(
            "--lossy names a column that is not a float or double of the table",
            where=schema.full_name,
            expected=", ".join(floating) or "no column: the table has no float or double",
            found=", ".join(odd),
        )
    return frozenset(names)


def _rule(kind: pa.DataType, column: Column) -> ConversionRule:
    source = source_of(kind)
    return rule(source, PARTITION) if column.kind is Kind.PARTITIONING else column_rule(source, column.type)


def accepted_of(column: Column) -> str:
    """What a column takes, for people."""
    return accepted(PARTITION) if column.kind is Kind.PARTITIONING else accepted_by(column.type)


def takes(kind: pa.DataType, column: Column, options: AllowedConversions = STRICT) -> bool:
    coding = column.type.coding
    return _rule(kind, column).takes(options.given()) and (coding is None or takes_elements(kind, coding))


def mapped(array: pa.Array, column: Column, name_row: Place, options: AllowedConversions = STRICT) -> pa.Array:
    """Values in the Arrow type of the column; ``place(index)`` names a row.

    SchemaMismatchError: the type is another one, or a value is not exactly representable.
    """
    if not takes(array.type, column, options):
        raise refused_type(column, array.type, name_row(0))
    group, array = source_of(array.type).group, plain(array)
    target, name = column.type.arrow, column.type.name
    bad = None
    if group is Group.NULL:
        return pa.nulls(len(array), target)
    if column.type.coding is not None:
        return _coded(array, column.type.coding, column, name_row)
    if group in (Group.TEXT, Group.UUID, Group.BYTES):
        converted = _texts(array, column, name_row)
    elif group in _COUNTED and name == "String":
        days, bad = number_arrays.counts(array)
        bad |= pc.fill_null(pc.or_(pc.less(days, FIRST_DAY), pc.greater(days, LAST_DAY)), False).to_numpy(False)
        converted = array.cast(pa.string())
    elif group is Group.TIMESTAMP:
        converted, bad = number_arrays.instants(array)
    elif group is Group.BOOLEAN:
        converted = array
    else:
        if group in _COUNTED:
            array, bad = number_arrays.counts(array)
        lossy = column.name in options.lossy
        converted, more = _numbers(array, column, lossy=lossy)
        bad = more if bad is None else bad | more
    if bad is not None and bad.any():
        row = int(np.argmax(bad))
        raise _inexact(column, name_row(row), array[row], "it is not exactly representable")
    return storable(converted, column, name_row)


def partition_values(
    array: pa.Array, column: Column, name_row: Place, options: AllowedConversions = STRICT
) -> pa.DictionaryArray:
    """Values of the partitioning column, as texts that name partitions.

    SchemaMismatchError: one is null. InvalidNameError: one names no partition.
    """
    values = mapped(array, column, name_row, options).cast(pa.string()).dictionary_encode()
    if values.null_count:
        raise SchemaMismatchError(
            "a row has no partition value",
            where=name_row(next(row for row, valid in enumerate(values.is_valid().to_pylist()) if not valid)),
            expected=f"a value of {column.name}",
            found="null",
            hint="leave such rows out, or give them a value",
        )
    for value in values.dictionary.to_pylist():
        try:
            check_partition("partition value", value)
        except InvalidNameError as error:
            error.where = f"column {column.name}"
            raise
    return values


def _numbers(array: pa.Array, column: Column, *, lossy: bool) -> number_arrays.Converted:
    name = column.type.name
    if name in INTEGER_BITS:
        return number_arrays.integers(array, INTEGER_BITS[name])
    if name in ("float", "double"):
        return number_arrays.floats(array, column.type.width * 8, lossy=lossy)
    return number_arrays.booleans(array) if name == "Boolean" else number_arrays.chars(array)


def _texts(array: pa.Array, column: Column, name_row: Place) -> pa.Array:
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        array = _utf8(array, column, name_row)
    if column.type.name == "char":
        return _units(array, column, name_row)
    return array if column.type.name == "String" else _instants(array, column, name_row)


def _utf8(array: pa.Array, column: Column, name_row: Place) -> pa.Array:
    try:
        return array.cast(pa.string() if pa.types.is_binary(array.type) else pa.large_string())
    except pa.ArrowInvalid:
        for row, value in enumerate(array.to_pylist()):
            try:
                (value or b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise _inexact(column, name_row(row), array[row], "it is not UTF-8") from error
        raise


def _units(array: pa.Array, column: Column, name_row: Place) -> pa.Array:
    lengths = pc.utf8_length(array)
    wide = pc.greater(pc.binary_length(array), 3)
    row = pc.index(pc.or_(pc.not_equal(lengths, 1), wide), True).as_py()
    if row >= 0:
        raise _inexact(column, name_row(row), array[row], "it is not exactly representable")
    return pa.array([None if text is None else ord(text) for text in array.to_pylist()], pa.uint16())


def storable(array: pa.Array, column: Column, name_row: Place) -> pa.Array:
    """Values of the column's own type, unchanged; SchemaMismatchError for what a column file could not hold."""
    if column.storage is Storage.FIXED:
        bad = sentinels(array, column.type)
        if bad.any():
            row = int(np.argmax(bad))
            raise _inexact(column, name_row(row), array[row], "it is the null of its type")
        return array
    if column.kind is Kind.PARTITIONING:
        return array  # its values are names of directories
    coded = array.dictionary_encode()
    bad = unencodable(coded.dictionary, charset_of(column))
    if bad.any():
        number = int(np.argmax(bad))
        row = int(np.argmax(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number))
        why = f"the charset of the column, {charset_of(column)}, has it not"
        raise _inexact(column, name_row(row), array[row], why)
    return array


def _instants(array: pa.Array, column: Column, name_row: Place) -> pa.Array:
    values: list[int | None] = []
    for row, text in enumerate(array.to_pylist()):
        try:
            values.append(None if text is None else parse_instant(text))
        except ValueError as error:
            raise _inexact(column, name_row(row), array[row], f"expected {error}") from error
    return pa.array(values, pa.int64()).view(column.type.arrow)


def _inexact(column: Column, where: str, value: pa.Scalar, why: object) -> SchemaMismatchError:
    hint = "have the value written otherwise, or declare the column with a type that has it"
    if column.type.name in ("float", "double"):
        hint += f", or take the nearest value with --lossy {column.name}"
    return SchemaMismatchError(
        f"value cannot be stored exactly in column {column.name}",
        where=where,
        expected=f"a value of type {column.type.name}",
        found=f"{_shown(value)[:80]}: {why}",
        hint=hint,
    )


def _coded(array: pa.Array, coding: Coding, column: Column, name_row: Place) -> pa.Array:
    try:
        values, bad = coded_array(array, coding)
    except UnfitError:
        raise refused_type(column, array.type, name_row(0)) from None
    unstored = coding.unstorable(values)
    for mask in (bad, unstored):
        if mask is not None:
            index = int(np.argmax(mask))
            raise SchemaMismatchError(
                f"value of column {column.name} cannot be stored",
                where=name_row(index),
                expected=coding.domain,
                found=str(array[index])[:80],
                hint="correct the value at its source, or declare a codec that can hold it",
            )
    return values


def _shown(value: pa.Scalar) -> str:
    """A value as text; an instant or a date that no datetime reaches as its number."""
    kind = value.type
    if pa.types.is_date(kind):
        return day_text(value.value) if pa.types.is_date32(kind) else timestamp_text(value.value, "ms")
    return f"{value.value} {kind.unit}" if pa.types.is_timestamp(kind) else str(value)


def refused_type(column: Column, kind: pa.DataType, where: object) -> SchemaMismatchError:
    """The error for a column whose values can never be stored."""
    cell: ConversionRule = _rule(kind, column)
    hint = "have the column written with another type, or declare it with one that has these values"
    if column.type.name == "Instant" and source_of(kind).group in (Group.LOCAL, Group.DATE):
        hint = "a date or a time without zone names no instant. Have it written adjusted to UTC"
    elif cell.take is Take.OPTION and "binary_as_text" in cell.options:
        hint = "if the bytes are texts in UTF-8, say --binary-as-text"
    elif cell.take is Take.OPTION:
        hint = f"an import has no option for it. Ingest the tree as a feed of files, with {' and '.join(cell.options)}"
    return SchemaMismatchError(
        f"column {column.name} has another type",
        where=where,
        expected=f"{accepted_of(column)}, for {column.type.name}",
        found=kind,
        hint=hint,
    )
