"""Arrays of texts, to Java streams and back, by the compiled core; None where ``blobs`` returns it too."""

from __future__ import annotations

from ctypes import byref, c_int64

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.buffers import TextBuffers, address, valid_address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import Ends, Octets
from sparkhaven.store.types.codings.string_array import HEAD, StringArrays

_FRONT, _TEXT_FRONT = len(HEAD) + 4, 9
_GROWTH = 2  # a NUL has two bytes, and of three or four bytes are six at most


def encode_texts(array: pa.Array) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if library is None or array.type != StringArrays.arrow or offsets is None or not len(array):
        return None
    rows, texts = len(array), TextBuffers.of(array.values)
    if not texts.count or texts.wide:
        return None
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
    borders = np.frombuffer(array.values.buffers()[1], np.int32)[texts.first :]
    size = int(borders[starts[-1]]) - int(borders[starts[0]])
    room = rows * _FRONT + _TEXT_FRONT * int(starts[-1] - starts[0]) + _GROWTH * size
    ends, out = np.empty(rows, np.int64), np.empty(room, np.uint8)
    lists = address(starts), valid_address(array), array.offset, rows
    inside = address(borders), texts.valid, texts.first, texts.count, texts.data, texts.size
    used = library.sh_encode_texts(*lists, *inside, HEAD, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_texts(ends: Ends, data: pa.Buffer) -> pa.Array | None:
    """Lists by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if library is None or not rows or not data.size:
        return None
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    values = address(ends), rows, data.address, data.size
    total = library.sh_text_lengths(*values, HEAD, starts.address, valid.address)
    if total < 0:
        return None
    known, nulls = np.empty(total, np.int32), c_int64()
    borders, bits = pa.allocate_buffer(4 * (total + 1)), pa.allocate_buffer(-(-total // 8))
    where = address(ends), starts.address, rows, data.address, address(known), borders.address, bits.address
    room = data.size  # more is needed only for texts that come again
    while True:
        out = np.empty(room, np.uint8)
        used = library.sh_decode_texts(*where, address(out), room, byref(nulls))
        if used <= room:
            break
        room = used
    if used < 0:
        return None
    missing = nulls.value
    texts = pa.py_buffer(out[:used].copy() if used < room // 2 else out[:used])
    inner = pa.Array.from_buffers(pa.string(), total, [bits if missing else None, borders, texts], missing)
    none = int(np.count_nonzero(ends[1:] == ends[:-1]))
    return pa.Array.from_buffers(StringArrays.arrow, rows, [valid if none else None, starts], none, children=[inner])
