"""Values of one width, to what a codec makes of them and back, by the compiled core.

Functions return None where the core is in doubt about one value. One to be stored is wrong then; of entries
``coding.rare`` says what the core does not take.
"""

from __future__ import annotations

from ctypes import CDLL

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.library import address, core, valid_address
from sparkhaven.store.types.codings.coding import FixedCoding, Octets


def encode_entries(array: pa.Array, coding: FixedCoding) -> Octets | None:
    """Entries of shape (rows, width), with the coding's null where the array has null."""
    library, (name, parameter) = core(), coding.compiled
    if pa.types.is_large_binary(array.type):
        array = array.cast(pa.binary())
    entries, values = np.empty((len(array), coding.width), np.uint8), array.buffers()[1]
    if not len(array):
        return entries
    if array.type != coding.arrow or values is None:
        return None
    if name == "octets":
        return entries if _encode_octets(library, array, coding.width, parameter, entries) >= 0 else None
    begin = values.address + array.offset * (array.type.bit_width // 8)
    encode = getattr(library, f"sh_encode_{name}")
    rows = valid_address(array), array.offset, len(array)
    return entries if encode(begin, *rows, coding.width, parameter, address(entries)) >= 0 else None


def decode_entries(entries: Octets, coding: FixedCoding) -> pa.Array | None:
    """The values of entries of shape (rows, width)."""
    library, (name, parameter) = core(), coding.compiled
    rows, entries = len(entries), np.ascontiguousarray(entries)
    if not rows:
        return pa.array([], coding.arrow)
    if name == "octets":
        return _decode_octets(library, entries, parameter)
    values = pa.allocate_buffer(rows * (coding.arrow.bit_width // 8))  # from a pool, where memory is used again
    valid = pa.allocate_buffer(-(-rows // 8))
    decode = getattr(library, f"sh_decode_{name}")
    nulls = decode(address(entries), rows, coding.width, parameter, values.address, valid.address)
    return None if nulls < 0 else pa.Array.from_buffers(coding.arrow, rows, [valid if nulls else None, values], nulls)


def _encode_octets(library: CDLL, array: pa.Array, width: int, length: int, out: Octets) -> int:
    _, ends, data = array.buffers()
    rows = ends.address + 4 * array.offset, valid_address(array), array.offset, len(array)
    begin, size = (data.address, data.size) if data is not None else (None, 0)
    done: int = library.sh_encode_octets(*rows, begin, size, width, length, address(out))
    return done


def _decode_octets(library: CDLL, entries: Octets, length: int) -> pa.Array | None:
    rows, width = entries.shape
    if rows * length > 2**31 - 1:
        return None
    starts, data = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(rows * length)
    valid = pa.allocate_buffer(-(-rows // 8))
    nulls = library.sh_decode_octets(address(entries), rows, width, length, starts.address, data.address, valid.address)
    if nulls < 0:
        return None
    return pa.Array.from_buffers(pa.binary(), rows, [valid if nulls else None, starts, data], nulls)
