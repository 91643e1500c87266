"""Arrays of instants, to Java streams and back, by the compiled core; None where ``blobs`` returns it too."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.buffers import address, valid_address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import Ends, Octets
from sparkhaven.store.types.codings.instant_array import FIRST, FRONT, HEAD, LATER, VALUE, InstantArrays

_FRONTS = HEAD + FIRST + LATER


def encode_instants(array: pa.Array) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if library is None or array.type != InstantArrays.arrow or offsets is None or not len(array):
        return None
    elements, rows = array.values, len(array)
    data = elements.buffers()[1]
    if data is None:
        return None
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
    room = rows * (FRONT + len(FIRST) - len(LATER)) + (len(LATER) + VALUE.size) * int(starts[-1] - starts[0])
    ends, out = np.empty(rows, np.int64), np.empty(room, np.uint8)
    lists = address(starts), valid_address(array), array.offset, rows
    inside = data.address + 8 * elements.offset, valid_address(elements), elements.offset, len(elements)
    used = library.sh_encode_instants(*lists, *inside, _FRONTS, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_instants(ends: Ends, data: pa.Buffer) -> pa.Array | None:
    """Lists by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if library is None or not rows or not data.size:
        return None
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    begins = starts.address
    total = library.sh_instant_lengths(address(ends), rows, data.address, data.size, _FRONTS, begins, valid.address)
    if total < 0:
        return None
    elements, bits = pa.allocate_buffer(8 * total), pa.allocate_buffer(-(-total // 8))
    where = address(ends), begins, rows, data.address
    nulls = library.sh_decode_instants(*where, _FRONTS, elements.address, bits.address)
    if nulls < 0:
        return None
    kind = InstantArrays.arrow
    inner = pa.Array.from_buffers(kind.value_type, total, [bits if nulls else None, elements], nulls)
    missing = int(np.count_nonzero(ends[1:] == ends[:-1]))
    return pa.Array.from_buffers(kind, rows, [valid if missing else None, starts], missing, children=[inner])
