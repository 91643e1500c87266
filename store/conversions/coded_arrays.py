"""Whole arrays of a typed source as values of a column whose type has a codec, and a mask of those it cannot hold.

An element of an array, and a value of a map, is taken as a plain column of its type takes it: by the same row of the
table of conversions. What a masked value is in the result means nothing; nulls are never masked.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.conversions import number_arrays
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS, SIGNIFICANT, Group, rule, source_of
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.types.codings.coding import Coding, Mask, Unfit, UnfitError, some, validity

Coded = tuple[pa.Array, Mask | None]
_NUMBERS = frozenset({Group.WHOLE, Group.FLOATING, Group.DECIMAL})
_NO_UNIT = 0xFFFF


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
            values, bad = number_arrays.instants(array)
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
        values, bad = number_arrays.integers(array, INTEGER_BITS[name])
    elif name in SIGNIFICANT:
        values, bad = number_arrays.floats(array, kind.bit_width, lossy=False)
    else:
        values, bad = number_arrays.booleans(array) if name == "Boolean" else number_arrays.chars(array)
    return values, some(bad)


_TAKEN = _NUMBERS | {Group.TEXT, Group.BOOLEAN, Group.TIMESTAMP}


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
