"""The table of storages: encoders and decoders of the values of each type and storage.

One row per storage of numbers, texts, and types with a codec. A column without a row is known to the schema language
but not stored by this release; using it is an UnsupportedVersionError that names it.

Numbers, chars, Booleans and Instants are entries of fixed width. A null is a distinguished value of the type, and a
value equal to it cannot be stored. Entries are written little endian, and read in either order. NaN, infinities and
-0.0 keep their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError, UnsupportedVersionError
from sparkhaven.store.format.column.charset import (
    WIDTH,
    StoredEnds,
    ValuePosition,
    decode_blobs,
    encode_blobs,
    row_position,
)
from sparkhaven.store.format.column.coded import decode_coded, decode_coded_blobs, encode_coded, encode_coded_blobs
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder, charset_of
from sparkhaven.store.format.column.region import BYTES, DAT, SYM, SYM_BYTES, Region
from sparkhaven.store.format.column.symbols import assign_numbers, decode_rows, decode_symbols, encode_symbols
from sparkhaven.store.native.checked_columns import count_nulls, valid_bits
from sparkhaven.store.types.codings.coding import Mask
from sparkhaven.store.types.codings.string_set import assign_bits, decode_sets
from sparkhaven.store.types.datatypes import BY_NAME, TYPES, DataType
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.store.types.row_ranges import RowRanges


def _entry(data_type: DataType) -> np.dtype[Any]:
    if data_type.numpy is None:
        raise SchemaMismatchError("type has no entries of fixed width", found=data_type.name)
    return np.dtype(data_type.numpy)


def _values(array: pa.Array, data_type: DataType) -> npt.NDArray[Any]:
    """The entries as numpy, without a copy; the content under a null is undefined."""
    dtype = _entry(data_type)
    if array.type != data_type.arrow:
        raise SchemaMismatchError(
            "type of the array differs from the column's",
            expected=data_type.arrow,
            found=array.type,
            hint="cast it before",
        )
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype.newbyteorder("="), len(array), array.offset * dtype.itemsize)


def sentinels(array: pa.Array, data_type: DataType) -> Mask:
    """Mask of the values that are the null of their type, and so cannot be stored; a null itself is not one."""
    if pa.types.is_boolean(array.type):
        return np.zeros(len(array), np.bool_)
    values = _values(array, data_type)
    mask: Mask = values == values.dtype.type(BY_NAME[data_type.name].null)
    if array.null_count:
        mask &= ~np.asarray(array.is_null())
    return mask


def encode_entries(array: pa.Array, data_type: DataType) -> npt.NDArray[Any]:
    """The entries of a column of one width, also of a codec's; raises as ``encode_fixed`` and ``encode_coded``."""
    data = encode_fixed(array, data_type) if data_type.fixed is None else encode_coded(array, data_type.fixed)
    return np.frombuffer(data, data_type.numpy)


def encode_fixed(array: pa.Array, data_type: DataType, *, locate: ValuePosition = row_position) -> memoryview:
    """The entries of an array as bytes; without nulls on a little-endian machine they are not copied.

    A value equal to the null of its type is a SchemaMismatchError at ``locate(index)``.
    """
    values = _values(array, data_type)
    alias = sentinels(array, data_type)
    if alias.any():
        row = int(np.argmax(alias))
        raise SchemaMismatchError(
            "value equals the null value of its type",
            where=locate(row),
            expected=f"{data_type.name} other than {BY_NAME[data_type.name].null}",
            found=values[row],
            hint="reject the row, or set allow_null_alias to store it as null",
        )
    if array.null_count:
        nulls = np.asarray(array.is_null())
        values = values.copy()
        values[nulls] = BY_NAME[data_type.name].null
    return np.ascontiguousarray(values, _entry(data_type)).view(np.uint8).data


def decode_fixed(
    buffer: pa.Buffer,
    rows: int,
    data_type: DataType,
    byte_order: ByteOrder,
    *,
    has_nulls: bool | None = None,
) -> pa.Array:
    """An array over ``rows`` entries; in native order their bytes are not copied.

    ``has_nulls`` False promises that there are none, which saves a scan.
    """
    dtype = _entry(data_type).newbyteorder("<" if byte_order == LITTLE else ">")
    values = np.frombuffer(buffer, dtype, rows) if rows else np.empty(0, dtype)
    if not dtype.isnative:
        values = values.astype(dtype.newbyteorder("="))
        buffer = pa.py_buffer(values)
    bitmap, missing = None, 0
    if has_nulls is not False:
        entry: Any = data_type.null
        missing = count_nulls(values, entry)
        if missing:
            bitmap = pa.py_buffer(valid_bits(values, entry))
    if pa.types.is_boolean(data_type.arrow):
        buffer = pa.py_buffer(valid_bits(values, 0))
    return pa.Array.from_buffers(data_type.arrow, rows, [bitmap, buffer], missing)


Reading = Callable[[int, int, bool | None], pa.Array]


@dataclass(frozen=True, slots=True)
class Base:
    """Where an append starts: committed rows, committed bytes by file name, and numbers of the symbols so far."""

    rows: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    symbols: Mapping[str, int] = field(default_factory=dict)

    def size(self, name: str) -> int:
        """Committed bytes of a file; 0 where it is new."""
        return self.sizes.get(name, 0)


@dataclass(frozen=True, slots=True)
class Encoded:
    """What to append: bytes by file name, in the order of writing (``.dat`` last), and the symbols that are new."""

    parts: dict[str, memoryview]
    symbols: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Codec:
    """One row. ``encode`` makes appends, ``open`` gives a reader."""

    storage: Storage
    type: str
    encode: Callable[[Column, pa.Array, Base], Encoded]
    open: Callable[[Region], Reading]


def _position_of(column: Column, base: Base) -> ValuePosition:
    return lambda index: f"column {column.name}, row {base.rows + index}"


# --- fixed width -------------------------------------------------------------------------------------------


def _encode_fixed(column: Column, array: pa.Array, base: Base) -> Encoded:
    return Encoded({column.name + DAT: encode_fixed(array, column.type, locate=_position_of(column, base))})


def _open_fixed(region: Region) -> Reading:
    def read(start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        entries = region.entries(start, stop)
        return decode_fixed(entries, stop - start, region.column.type, region.order, has_nulls=has_nulls)

    return read


# --- codecs ------------------------------------------------------------------------------------------------


def _encode_coded(column: Column, array: pa.Array, base: Base) -> Encoded:
    coding = column.type.fixed
    assert coding is not None  # noqa: S101
    return Encoded({column.name + DAT: encode_coded(array, coding, locate=_position_of(column, base))})


def _open_coded(region: Region) -> Reading:
    coding = region.column.type.fixed
    assert coding is not None  # noqa: S101

    def read(start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        return decode_coded(region.entries(start, stop), coding, region.where, first_row=start)

    return read


def _encode_coded_blobs(column: Column, array: pa.Array, base: Base) -> Encoded:
    coding, size = column.type.blob, base.size(column.name + BYTES)
    assert coding is not None  # noqa: S101
    ends, data = encode_coded_blobs(array, coding, size, locate=_position_of(column, base))
    return Encoded({column.name + BYTES: data, column.name + DAT: ends})


def _open_coded_blobs(region: Region) -> Reading:
    coding, data = region.column.type.blob, region.companions[BYTES]
    assert coding is not None  # noqa: S101
    _require_last(region, data)

    def read(start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        return decode_coded_blobs(_ends(region, start, stop), data, coding)

    return read


# --- strings -----------------------------------------------------------------------------------------------


def _encode_symbols(column: Column, array: pa.Array, base: Base) -> Encoded:
    numbers, new = assign_numbers(array, base.symbols)
    name = column.name

    def locate(index: int) -> str:
        return f"column {name}, symbol {len(base.symbols) + index}"

    ends, data = encode_symbols(new, charset_of(column), base.size(name + SYM_BYTES), locate=locate)
    return Encoded({name + SYM_BYTES: data, name + SYM: ends, name + DAT: numbers}, new)


def _open_symbols(region: Region) -> Reading:
    def table(part: Region) -> pa.Array:
        ends, data = part.companions[SYM], part.companions[SYM_BYTES]
        return decode_symbols(ends, data, charset_of(part.column), part.order, part.companion_path(SYM))

    texts = [] if region.many_symbols(0) else [table(region)]

    def read(start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        if not texts and start < stop and region.many_symbols(stop - start):
            part = region.chosen(RowRanges.one(start, stop))
            return decode_rows(part.dat, table(part), part.order, part.where, first_row=start)
        if not texts:
            texts.append(table(region))
        return decode_rows(region.entries(start, stop), texts[0], region.order, region.where, first_row=start)

    return read


def _encode_blobs(column: Column, array: pa.Array, base: Base) -> Encoded:
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    size = base.size(column.name + BYTES)
    ends, data = encode_blobs(array, charset_of(column), size, locate=_position_of(column, base))
    return Encoded({column.name + BYTES: data, column.name + DAT: ends})


def _open_blobs(region: Region) -> Reading:
    data = region.companions[BYTES]
    _require_last(region, data)

    def read(start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        return decode_blobs(_ends(region, start, stop), data, charset_of(region.column))

    return read


def _require_last(region: Region, data: pa.Buffer) -> None:
    last = _end(region, region.rows)
    if last != data.size:
        raise CorruptFileError(
            "last value does not end with the committed bytes",
            where=f"{region.where}, row {region.rows - 1}",
            expected=data.size,
            found=last,
        )


def _ends(region: Region, start: int, stop: int) -> StoredEnds:
    """Those of the values of rows ``[start, stop)``."""
    return StoredEnds(region.entries(start, stop), _end(region, start), region.order, region.where, start)


def _end(region: Region, row: int) -> int:
    """Where the values before a row end."""
    if row == 0:
        return 0
    entry = region.dat.slice((row - 1) * WIDTH, WIDTH).to_pybytes()
    return int.from_bytes(entry, "little" if region.order == LITTLE else "big", signed=True)


# --- sets --------------------------------------------------------------------------------------------------


def _encode_sets(column: Column, array: pa.Array, base: Base) -> Encoded:
    words, new = assign_bits(array, base.symbols, locate=_position_of(column, base))
    name = column.name
    ends, data = encode_symbols(new, charset_of(column), base.size(name + SYM_BYTES), locate=lambda i: f"symbol {i}")
    return Encoded({name + SYM_BYTES: data, name + SYM: ends, name + DAT: words.astype("<u8").view(np.uint8).data}, new)


def _open_sets(region: Region) -> Reading:
    ends, data = region.companions[SYM], region.companions[SYM_BYTES]
    texts = decode_symbols(ends, data, charset_of(region.column), region.order, region.companion_path(SYM))

    def read(start: int, stop: int, has_nulls: bool | None) -> pa.Array:
        words = np.frombuffer(region.entries(start, stop), "<u8" if region.order == LITTLE else ">u8")
        return decode_sets(words.astype(np.uint64), texts, region.where, first_row=start)

    return read


# --- the table ---------------------------------------------------------------------------------------------

ROWS = (
    *(Codec(Storage.FIXED, row.name, _encode_fixed, _open_fixed) for row in TYPES if row.width),
    Codec(Storage.SYMBOL, "String", _encode_symbols, _open_symbols),
    Codec(Storage.BLOB, "String", _encode_blobs, _open_blobs),
    Codec(Storage.SET, "StringSet", _encode_sets, _open_sets),
)
_TABLE = {(row.storage, row.type): row for row in ROWS}
_FIXED = Codec(Storage.FIXED, "a type with a codec", _encode_coded, _open_coded)
_BLOB = Codec(Storage.BLOB, "a type with a codec", _encode_coded_blobs, _open_coded_blobs)


def codec_for(column: Column) -> Codec:
    """The codec of a column; one whose type this release does not store is an UnsupportedVersionError."""
    if column.type.coding is not None and column.storage in (Storage.FIXED, Storage.BLOB):
        return _FIXED if column.storage is Storage.FIXED else _BLOB
    codec = _TABLE.get((column.storage, column.type.name))
    if codec is None:
        raise UnsupportedVersionError(
            f"column {column.name} has type {column.type.name}, which this release cannot store or read",
            where=f"column {column.name}",
            expected="one of " + ", ".join(sorted({row.type for row in ROWS})),
            found=f"{column.type.name} ({column.storage.value})",
            hint="leave the column out, or declare it as one of these types",
        )
    return codec


def encode_column(column: Column, array: pa.Array, base: Base) -> Encoded:
    """What to append to a column's files for a chunk of values.

    A value that cannot be stored is a SchemaMismatchError with its row.
    """
    return codec_for(column).encode(column, array, base)
