"""Arrays of a primitive, to Java streams and back, by the compiled core; None where ``blobs`` returns it too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.buffers import address, valid_address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import Ends, Octets
from sparkhaven.store.types.codings.java_array import LENGTH, JavaArrays

_OCTETS = -1  # as the core knows them
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def encode_arrays(array: pa.Array, coding: JavaArrays) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if library is None or array.type != coding.arrow or offsets is None or not len(array):
        return None
    size, null = _elements(coding)
    elements = array if size == _OCTETS else array.values
    data = elements.buffers()[-1]
    if data is None:
        return None
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    room = len(array) * (len(coding.head) + LENGTH) + max(size, 1) * int(starts[-1] - starts[0])
    ends, out = np.empty(len(array), np.int64), np.empty(room, np.uint8)
    lists = address(starts), valid_address(array), array.offset, len(array)
    inside = data.address + elements.offset * size, valid_address(elements), elements.offset, len(elements)
    if size == _OCTETS:
        inside = data.address, None, 0, data.size
    used = library.sh_encode_arrays(*lists, *inside, size, null, coding.head, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_arrays(ends: Ends, data: pa.Buffer, coding: JavaArrays) -> pa.Array | None:
    """Lists, or bytes, by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if library is None or not rows or not data.size:
        return None
    size, null = _elements(coding)
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    values = address(ends), rows, data.address
    total = library.sh_array_lengths(*values, data.size, size, coding.head, starts.address, valid.address)
    if total < 0:
        return None
    bits = pa.allocate_buffer(-(-total // 8))
    elements = pa.allocate_buffer(total * abs(size) or bits.size)
    nulls = library.sh_decode_arrays(*values, size, null, elements.address, bits.address)
    missing = int(np.count_nonzero(ends[1:] == ends[:-1]))
    outer = [valid if missing else None, starts]
    if size == _OCTETS:
        return pa.Array.from_buffers(coding.arrow, rows, [*outer, elements], missing)
    inner = pa.Array.from_buffers(coding.element, total, [bits if nulls else None, elements], nulls)
    return pa.Array.from_buffers(coding.arrow, rows, outer, missing, children=[inner])


def _elements(coding: JavaArrays) -> tuple[int, int]:
    """Bytes of an element in Arrow, 0 for bits, ``_OCTETS`` for byte[]; and the bits of its null value."""
    if coding.elements is None:
        return _OCTETS, 0
    if coding.null is None:
        return 0, 0
    size = coding.element.bit_width // 8
    return size, int(np.array(coding.null, coding.element.to_pandas_dtype()).view(_BITS[size]))
