"""Whole arrays of numbers as those of a column, and a mask of the values that the column does not hold exactly.

A masked value has no meaning in the result. Nulls stay null and are never masked. A value equal to the null value of
the column's type is not masked: whether it may be stored is for the caller. Arrays are plain (``conversions.plain``).

Arrays of any encoding are made plain first, without a change of any value.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.instants import UNIT_NS

Mask = npt.NDArray[np.bool_]
Converted = tuple[pa.Array, Mask]

DAY_MS = 86_400_000


def integers(array: pa.Array, bits: int) -> Converted:
    """Numbers of any kind as signed integers of so many bits; their smallest value is the null value of the type."""
    kind = array.type
    if pa.types.is_signed_integer(kind) and kind.bit_width <= bits:
        return array.cast(pa.from_numpy_dtype(np.dtype(f"i{bits // 8}"))), np.zeros(len(array), np.bool_)
    values, bad, null = _whole(array)
    half = 1 << (bits - 1)
    bad = bad | (values < -half) | (values > half - 1)
    converted = np.where(bad | null, 0, values).astype(f"i{bits // 8}")
    return _array(converted, null), bad & ~null


def booleans(array: pa.Array) -> Converted:
    """0 and 1 as false and true."""
    values, bad, null = _whole(array)
    converted = pa.array(values == 1, pa.bool_(), mask=null if null.any() else None)
    return converted, (bad | (values < 0) | (values > 1)) & ~null


def chars(array: pa.Array) -> Converted:
    """UTF-16 units, also half of a pair: a number is the unit itself, where a text is a character."""
    values, bad, null = _whole(array)
    bad = bad | (values < 0) | (values > 0xFFFF)
    return _array(np.where(bad | null, 0, values).astype(np.uint16), null), bad & ~null


def floats(array: pa.Array, bits: int, *, lossy: bool) -> Converted:
    """Numbers of any kind as floats of so many bits. With ``lossy`` the nearest one, as IEEE 754 rounds; none masked.

    NaN stays NaN, infinities stay infinite.
    """
    if pa.types.is_floating(array.type) and array.type.bit_width == bits:
        return array, np.zeros(len(array), np.bool_)
    null = np.asarray(array.is_null())
    to = np.dtype(f"f{bits // 8}")
    if pa.types.is_decimal(array.type):
        texts = array.cast(pa.string())
        values = texts.cast(pa.float64() if bits == 64 else pa.float32()).fill_null(0).to_numpy(zero_copy_only=False)
        exact = [d is None or _same(d, f) for d, f in zip(array.to_pylist(), values.tolist(), strict=True)]
        return _array(values, null), np.zeros(len(null), np.bool_) if lossy else ~np.array(exact, np.bool_)
    plain: Any = _numpy(array)
    with np.errstate(over="ignore", invalid="ignore"):
        values = plain.astype(to)
    if lossy:
        return _array(values, null), np.zeros(len(null), np.bool_)
    bad = np.zeros(len(null), np.bool_)
    if plain.dtype.kind != "f" and plain.dtype.itemsize * 8 > (24 if bits == 32 else 53):
        bad = _moved(plain, values.astype(np.float64))
    elif plain.dtype.kind == "f" and to.itemsize < plain.dtype.itemsize:
        with np.errstate(invalid="ignore"):
            bad = (values.astype(plain.dtype) != plain) & ~np.isnan(plain)
    return _array(values, null), bad & ~null


def counts(array: pa.Array) -> Converted:
    """The number behind a date (days since 1970), a time or a duration (in its own unit) as int64."""
    kind, null = array.type, np.asarray(array.is_null())
    none = np.zeros(len(null), np.bool_)
    if pa.types.is_date64(kind):
        values = _numpy(array.view(pa.int64()))
        return _array(values // DAY_MS, null), (values % DAY_MS != 0) & ~null
    narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
    return array.view(pa.int32() if narrow else pa.int64()).cast(pa.int64()), none


def instants(array: pa.Array) -> Converted:
    """Timestamps with a zone as nanoseconds in UTC; what int64 does not reach is masked."""
    null, scale = np.asarray(array.is_null()), UNIT_NS[array.type.unit]
    values = _numpy(array.view(pa.int64()))
    most = (2**63 - 1) // scale
    bad = (values > most) | (values < -most)
    if scale == 1:
        bad = np.zeros(len(null), np.bool_)
    nanoseconds = np.where(bad, 0, values) * np.int64(scale)
    return _array(nanoseconds, null).view(pa.timestamp("ns", "UTC")), bad & ~null


def _whole(array: pa.Array) -> tuple[npt.NDArray[np.int64], Mask, Mask]:
    """Values as int64, where they are not whole or too large for that, and where they are null."""
    kind, null = array.type, np.asarray(array.is_null())
    if pa.types.is_decimal(kind):
        return _whole_decimals(array, null)
    values: Any = _numpy(array)
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~((values >= -(2.0**63)) & (values < 2.0**63)) | (values != np.trunc(values))
            return np.where(bad, 0, values).astype(np.int64), bad, null
    bad = values > 2**63 - 1 if values.dtype == np.uint64 else np.zeros(len(values), np.bool_)
    return values.astype(np.int64), bad, null


def _whole_decimals(array: pa.Array, null: Mask) -> tuple[npt.NDArray[np.int64], Mask, Mask]:
    try:
        return _numpy(array.cast(pa.int64())), np.zeros(len(null), np.bool_), null
    except pa.ArrowInvalid:
        decimals = array.to_pylist()
    whole = [d is None or (abs(d) < 2**63 and d == d.to_integral_value()) for d in decimals]
    values = [0 if d is None or not fits else int(d) for d, fits in zip(decimals, whole, strict=True)]
    return np.array(values, np.int64), ~np.array(whole, np.bool_), null


def _same(number: Decimal, value: float) -> bool:
    """Whether a float is exactly this number."""
    return bool(np.isfinite(value)) and number == Decimal(value)


def _moved(whole: npt.NDArray[Any], value: npt.NDArray[np.float64]) -> Mask:
    """Where a float is another number than the integer that it was made of."""
    top = 2.0**64 if whole.dtype == np.uint64 else 2.0**63
    beyond: Mask = value >= top
    moved: Mask = beyond | (np.where(beyond, 0, value).astype(np.uint64 if top > 2.0**63 else np.int64) != whole)
    return moved


def _numpy(array: pa.Array) -> Any:
    """The values of a plain array of numbers, 0 where null."""
    if array.null_count:
        array = pc.fill_null(array, 0)
    return array.to_numpy(zero_copy_only=False)


def _array(values: npt.NDArray[Any], null: Mask) -> pa.Array:
    return pa.array(values, mask=null if null.any() else None, from_pandas=False)


_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DASHES = (8, 13, 18, 23)
_DIGITS = np.array([index for index in range(36) if index not in _DASHES])


def plain(array: pa.Array) -> pa.Array:
    """The values without dictionary, run ends, view or extension; half floats as floats, UUIDs as their texts."""
    kind, kinds = array.type, pa.types
    if kinds.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if kinds.is_run_end_encoded(kind):
        positions = pa.array(range(len(array.values)), pa.int64())  # of values of any type, which few kernels decode
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, positions)
        return plain(array.values).take(pc.run_end_decode(runs.slice(array.offset, len(array))))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return uuid_texts(array.storage)
        return array.cast(pa.bool_()) if kind.extension_name == "arrow.bool8" else plain(array.storage)
    if kinds.is_string_view(kind):
        return _narrow(array, pa.string(), pa.large_string())
    if kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return _narrow(array, pa.binary(), pa.large_binary())
    return array.cast(pa.float32()) if kinds.is_float16(kind) else array


def _narrow(array: pa.Array, small: pa.DataType, large: pa.DataType) -> pa.Array:
    """A cast to a type with 32-bit offsets, or from 2 GiB on with 64 bits."""
    return array.cast(small if array.nbytes < 1 << 31 else large)


def plain_scalar(value: Any) -> Any:
    """One value, as ``plain`` makes it."""
    kind = value.type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        inner = value.value if pa.types.is_dictionary(kind) else value.as_py()
        return plain_scalar(inner) if isinstance(inner, pa.Scalar) else pa.scalar(inner, kind.value_type)
    needs = isinstance(kind, pa.BaseExtensionType) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    if not needs and not pa.types.is_fixed_size_binary(kind) and not pa.types.is_float16(kind):
        return value
    if isinstance(kind, pa.BaseExtensionType):
        storage = pa.array([value.value.as_py() if value.is_valid else None], kind.storage_type)
        return plain(pa.ExtensionArray.from_storage(kind, storage))[0]
    return plain(pa.array([value.as_py()], kind))[0]


def uuid_texts(storage: pa.Array) -> pa.StringArray:
    """Arrays of 16 bytes as texts like ``f81d4fae-7dec-11d0-a765-00a0c91e6bf6``."""
    count = len(storage)
    if not count:
        return pa.array([], pa.string())
    data = np.frombuffer(storage.buffers()[1], np.uint8)[storage.offset * 16 : (storage.offset + count) * 16]
    digits = np.empty((count, 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[data.reshape(count, 16) >> 4], _HEX[data.reshape(count, 16) & 15]
    texts = np.full((count, 36), ord("-"), np.uint8)
    texts[:, _DIGITS] = digits
    null = np.asarray(storage.is_null())
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.where(null, 0, 36), out=ends[1:])
    bits = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(texts[~null].tobytes()), bits)
