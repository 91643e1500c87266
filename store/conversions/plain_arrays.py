"""Arrow arrays of any encoding as plain ones, without a change of any value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
