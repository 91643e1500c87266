"""Whole arrays of a source as values of a column, and a mask of the values that the column does not hold exactly.

A masked value has no meaning in the result. Nulls stay null and are never masked. A value equal to the null value of
the column's type is not masked: whether it may be stored is for the caller. Arrays of any encoding are made ``plain``
first, without a change of any value.

Numbers are those of a column without a codec. Where the type has a codec (``coded_array``), an element of an array, and
a value of a map, is taken as a plain column of its type takes it: by the same row of the table of conversions.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.conversions.conversion_table import INTEGER_BITS, SIGNIFICANT, Group, rule, source_of
from sparkhaven.store.instants import UNIT_NS
from sparkhaven.store.types.codings.coding import Coding, Mask, Unfit, UnfitError, some, validity

Converted = tuple[pa.Array, Mask]

DAY_MS = 86_400_000
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DASHES = (8, 13, 18, 23)
_DIGITS = np.array([index for index in range(36) if index not in _DASHES])
Coded = tuple[pa.Array, Mask | None]
_NUMBERS = frozenset({Group.WHOLE, Group.FLOATING, Group.DECIMAL})
_NO_UNIT = 0xFFFF
_TAKEN = _NUMBERS | {Group.TEXT, Group.BOOLEAN, Group.TIMESTAMP}


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


def coded_array(array: pa.Array, coding: Coding) -> Coded:
    """The values of a plain array. UnfitError: the column takes none of its type."""
    kinds, kind = pa.types, array.type
    if kinds.is_null(kind):
        return pa.nulls(len(array), coding.arrow), None
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return _texts(array, coding)
    if kinds.is_map(coding.arrow):
        return _maps(array, coding)
    return _lists(array, coding) if kinds.is_list(coding.arrow) else coding.convert(array)


def takes_elements(kind: pa.DataType, coding: Coding) -> bool:
    """Whether a column takes values of a type that has elements, or has none."""
    if not pa.types.is_nested(kind):
        return True
    try:
        coded_array(pa.nulls(0, kind), coding)
    except UnfitError:
        return False
    return True


def _texts(array: pa.Array, coding: Coding) -> Coded:
    array, odd = _sound(array)
    values, doubt = coding.parse_all(array.cast(pa.string()))
    return values, doubt if odd is None else odd if doubt is None else odd | doubt


def _sound(texts: pa.Array) -> tuple[pa.Array, Mask | None]:
    """The texts, null where they are not UTF-8, and where that is."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        data = texts.cast(pa.large_string()).view(pa.large_binary())
        odd = np.array([value is not None and not _is_utf8(value) for value in data.to_pylist()], np.bool_)
        return pc.if_else(pa.array(odd), None, data).view(pa.large_string()).cast(texts.type), odd
    return texts, None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lists(array: pa.Array, coding: Coding) -> Coded:
    kind = array.type
    if pa.types.is_map(kind) or not hasattr(kind, "value_type") or pa.types.is_dictionary(kind):
        raise UnfitError(Unfit.NO_VALUE, coding.domain)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), np.int64)
    values, odd = _elements(array.flatten(), coding.arrow.value_type, coding)
    return _listed(values, lengths, np.asarray(array.is_null()), coding.arrow), _of_rows(odd, lengths)


def _maps(array: pa.Array, coding: Coding) -> Coded:
    if not pa.types.is_map(array.type) or source_of(array.type.key_type).group is not Group.TEXT:
        raise UnfitError(Unfit.NO_VALUE, coding.domain)
    null = np.asarray(array.is_null())
    offsets = np.asarray(array.offsets, np.int64)
    lengths = np.where(null, 0, np.diff(offsets))
    rows = np.flatnonzero(np.repeat(~null, np.diff(offsets))) + offsets[0]
    keys, odd_keys = _sound(plain(array.keys.take(pa.array(rows))).cast(pa.string()))
    values, odd = _elements(array.items.take(pa.array(rows)), coding.arrow.item_type, coding)
    bad = odd if odd_keys is None else odd_keys if odd is None else odd | odd_keys
    if keys.null_count:  # a key that is not UTF-8 marks its map
        keys = pc.fill_null(keys, "")
    taken = _last_of_each_key(keys, lengths)
    if taken is not None:
        first, last = taken
        lengths = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[first], minlength=len(lengths))
        keys, values = keys.take(pa.array(first)), values.take(pa.array(last))
        bad = None if bad is None else some(bad[last])
    entries = pa.StructArray.from_arrays([keys, values], fields=[*coding.arrow.field(0).type])
    return _listed(entries, lengths, null, coding.arrow), _of_rows(bad, lengths)


def _last_of_each_key(
    keys: pa.Array, lengths: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Where the entries of maps have a key first and last: the last value counts, in the place of the first.

    None: no map has a key twice.
    """
    coded = keys.dictionary_encode()
    row = np.repeat(np.arange(len(lengths)), lengths)
    pair = row * len(coded.dictionary) + coded.indices.to_numpy(zero_copy_only=False)
    distinct, first = np.unique(pair, return_index=True)
    if len(distinct) == len(pair):
        return None
    last = len(pair) - 1 - np.unique(pair[::-1], return_index=True)[1]
    order = np.argsort(first)
    return first[order], last[order]


def _elements(array: pa.Array, kind: pa.DataType, coding: Coding) -> Coded:
    """Elements in the Arrow type that they have in the column, and which of them it does not hold."""
    source, name = source_of(array.type), coding.elements or "String"
    if source.group is not Group.NULL and not (rule(source, name).takes() and source.group in _TAKEN):
        raise UnfitError(Unfit.NO_VALUE, coding.domain)
    array = plain(array)
    if source.group is Group.NULL:
        return pa.nulls(len(array), kind), None
    if name == "Instant":
        if source.group is Group.TIMESTAMP:
            values, bad = instants(array)
            return values, some(bad)
        return pa.nulls(len(array), kind), np.asarray(array.is_valid())  # texts are read one by one
    if source.group is Group.TEXT:
        texts, odd = _sound(array)
        if name == "char":
            values, units = _units(texts.cast(pa.string()))
            return values, units if odd is None else odd | units
        return texts.cast(kind), odd
    if source.group is Group.BOOLEAN:
        return array, None
    if name in INTEGER_BITS:
        values, bad = integers(array, INTEGER_BITS[name])
    elif name in SIGNIFICANT:
        values, bad = floats(array, kind.bit_width, lossy=False)
    else:
        values, bad = booleans(array) if name == "Boolean" else chars(array)
    return values, some(bad)


def _units(texts: pa.Array) -> tuple[pa.Array, Mask]:
    coded = texts.dictionary_encode()
    units = [ord(text) if len(text) == 1 and ord(text) < _NO_UNIT else -1 for text in coded.dictionary.to_pylist()]
    null = np.asarray(texts.is_null())
    codes = np.asarray(pc.fill_null(coded.indices, len(units)))
    by_row = np.array([*units, 0], np.int64)[codes]
    return pa.array(np.maximum(by_row, 0).astype(np.uint16), mask=null), by_row < 0


def _listed(values: pa.Array, lengths: npt.NDArray[np.int64], null: Mask, kind: pa.DataType) -> pa.Array:
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    bitmap, missing = validity(null)
    return pa.Array.from_buffers(kind, len(lengths), [bitmap, pa.py_buffer(ends)], missing, children=[values])


def _of_rows(marked: Mask | None, lengths: npt.NDArray[np.int64]) -> Mask | None:
    """Which rows have a marked element."""
    if marked is None or not marked.any():
        return None
    bad = np.zeros(len(lengths), np.bool_)
    bad[np.repeat(np.arange(len(lengths)), lengths)[marked]] = True
    return bad
