"""Whole Arrow columns of texts and numbers, their bytes, and masks of rows in doubt: what conversions are made of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Typed = tuple[pa.Array, Mask | None]


def bytes_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes that the values of a string array lie in, without copying."""
    start, stop = int(offsets_of(array)[0]), int(offsets_of(array)[-1])
    data = array.buffers()[2]
    return np.frombuffer(data, np.uint8)[start:stop] if data is not None else np.empty(0, np.uint8)


def rows_with(texts: pa.StringArray, marks: Mask) -> npt.NDArray[np.int64]:
    """Rows with one of some bytes (a mask of 256), ascending."""
    byte_indices = np.flatnonzero(marks[bytes_of(texts)])
    if not len(byte_indices):
        return byte_indices
    offsets = offsets_of(texts)
    return np.unique(np.searchsorted(offsets - offsets[0], byte_indices, side="right") - 1)


def compact(array: pa.StringArray) -> pa.StringArray:
    """The array with no bytes below its nulls, as ``bytes_of`` needs it to mean only what is there."""
    if not array.null_count:
        return array
    lengths = np.diff(offsets_of(array))
    valid = mask_of(array.is_valid())
    if not lengths[~valid].any():
        return array
    ends = np.zeros(len(array) + 1, np.int32)
    np.cumsum(np.where(valid, lengths, 0), out=ends[1:])
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(len(array), pa.py_buffer(ends), pa.py_buffer(bytes_of(array.drop_null())), bits)


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where the values of a string array start and end in its data buffer."""
    buffer = array.buffers()[1]
    if buffer is None or not len(buffer):
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]


def instants(values: npt.NDArray[np.int64], null: Mask | None) -> pa.Array:
    """Nanoseconds as an array of Instants."""
    return pa.array(values, pa.int64(), mask=null).view(pa.timestamp("ns", "UTC"))


def outside(values: pa.Array, low: int, high: int) -> Mask | None:
    """Which int64 values lie outside ``low`` to ``high``; None if none does."""
    bounds = pc.min_max(values)
    smallest, largest = bounds["min"].as_py(), bounds["max"].as_py()
    if smallest is None or (smallest >= low and largest <= high):
        return None
    plain = values.fill_null(low).to_numpy(zero_copy_only=False)
    return some((plain < low) | (plain > high))


def try_cast(texts: pa.StringArray, to: pa.DataType, pattern: str | None) -> Typed:
    """A strict cast of all; if one fails, of those that match ``pattern``; without one, all are in doubt."""
    try:
        return pc.cast(texts, to), None
    except pa.ArrowInvalid:
        if pattern is None:
            return pa.nulls(len(texts), to), np.ones(len(texts), np.bool_)
    good = pc.match_substring_regex(texts, pattern)
    return pc.cast(pc.if_else(good, texts, None), to), some(~mask_of(good, null=True))


def without(values: pa.Array, doubt: Mask | None) -> pa.Array:
    """The values with those in doubt as null."""
    if doubt is None:
        return values
    rest = pc.if_else(pa.array(doubt), None, values)
    return compact(rest) if pa.types.is_string(values.type) else rest


def mask_of(array: pa.Array, *, null: bool = False) -> Mask:
    """A boolean array as a mask, with ``null`` for its nulls."""
    mask: Mask = array.fill_null(null).to_numpy(zero_copy_only=False)
    return mask


def some(mask: Mask) -> Mask | None:
    """The mask, or None if it marks nothing."""
    return mask if mask.any() else None


def either(left: Mask | None, right: Mask | None) -> Mask | None:
    """What one of the masks marks; None marks nothing."""
    if left is None or right is None:
        return right if left is None else left
    return left | right


def join(typed: Typed, doubt: Mask | None) -> Typed:
    """Values with further rows in doubt."""
    return typed[0], either(typed[1], doubt)
