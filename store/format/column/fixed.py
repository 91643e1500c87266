"""Entries of fixed width: numbers, chars, Booleans and Instants in a ``.dat`` file.

A null is a distinguished value of the type, and a value equal to it cannot be stored. Written little endian; read in
either order. NaN, infinities and -0.0 keep their bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.format.column.charset import ValuePosition, row_position
from sparkhaven.store.format.column.coded import encode_coded
from sparkhaven.store.format.column.prefix import LITTLE, ByteOrder
from sparkhaven.store.native.checked_columns import count_nulls, valid_bits
from sparkhaven.store.types.codings.coding import Mask
from sparkhaven.store.types.datatypes import BY_NAME, DataType


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
