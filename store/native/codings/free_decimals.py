"""Numbers without bounds, to the bytes of their codecs and back, by the core; None where ``blobs`` returns it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.buffers import TextBuffers, address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import Ends, Octets
from sparkhaven.store.types.codings.decimals.free_decimals import FreeDecimals

_FRONT = 5  # bytes of a number that has no digit
_MORE, _SHORT = 3, 16  # digits that a byte has at most, and a sign, a point and zeros


def encode_numbers(array: pa.Array, coding: FreeDecimals) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library = core()
    if library is None or array.type != coding.arrow or array.buffers()[1] is None or not len(array):
        return None
    texts, rows = TextBuffers.of(array), len(array)
    room = rows * _FRONT + texts.size
    ends, out = np.empty(rows, np.int64), np.empty(room, np.uint8)
    where = texts.ends + 4 * texts.first, texts.valid, texts.first, rows, texts.data, texts.size
    used = library.sh_encode_free_decimals(*where, coding.whole, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_numbers(ends: Ends, data: pa.Buffer, coding: FreeDecimals) -> pa.Array | None:
    """Plain decimal texts by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if library is None or not rows or not data.size:
        return None
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    where = address(ends), rows, data.address, data.size, coding.whole, starts.address, valid.address
    room = _MORE * data.size + _SHORT * rows
    while True:
        out = np.empty(room, np.uint8)
        used = library.sh_decode_free_decimals(*where, address(out), room)
        if used <= room:
            break
        room = used
    if used < 0:
        return None
    none = int(np.count_nonzero(ends[1:] == ends[:-1]))
    texts = pa.py_buffer(out[:used].copy())
    return pa.Array.from_buffers(coding.arrow, rows, [valid if none else None, starts, texts], none)
