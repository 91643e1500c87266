"""Maps of texts, to the bytes of their codecs and back, by the compiled core; None where ``blobs`` returns it too."""

from __future__ import annotations

from ctypes import byref

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.abi import MapEntriesLayout, MapRoomLayout
from sparkhaven.store.native.buffers import TextBuffers, address, valid_address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import Ends, Octets
from sparkhaven.store.types.codings.string_map import StringMaps

_COUNT, _TEXTS = 4, -1
_BITS = {4: np.uint32, 8: np.uint64}


def encode_maps(array: pa.Array, coding: StringMaps) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if library is None or array.type != coding.arrow or offsets is None or not len(array):
        return None
    rows, (keys, items) = len(array), array.values.flatten()
    if not len(keys) or keys.null_count or array.values.null_count or items.buffers()[1] is None:
        return None
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
    width, null = _width(coding)
    texts, begin, value_data, value_size = TextBuffers.of(keys), items.buffers()[1].address, None, 0
    room = rows * _COUNT + len(keys) * (_COUNT + max(width, _COUNT)) + texts.size
    if width == _TEXTS:
        values = TextBuffers.of(items)
        value_data, value_size = values.data, values.size
        room += values.size
    begin += items.offset * (4 if width == _TEXTS else width)
    inside = MapEntriesLayout(
        keys=texts.ends + 4 * texts.first,
        key_data=texts.data,
        key_size=texts.size,
        values=begin,
        valid_values=valid_address(items),
        first_value=items.offset,
        value_data=value_data,
        value_size=value_size,
        total=len(keys),
        width=width,
        null=null,
    )
    longest = int(np.diff(starts).max())
    numbers = np.empty(2 * longest, np.int32)
    ends, out = np.empty(rows, np.int64), np.empty(room, np.uint8)
    lists = address(starts), valid_address(array), array.offset, rows
    where = byref(inside), address(numbers), longest, address(ends), address(out), room
    used = library.sh_encode_string_maps(*lists, *where)
    return (ends, out[:used]) if used >= 0 else None


def decode_maps(ends: Ends, data: pa.Buffer, coding: StringMaps) -> pa.Array | None:
    """Maps by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if library is None or not rows or not 0 < data.size < 1 << 31:
        return None
    width, null = _width(coding)
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    values = address(ends), rows, data.address, data.size
    total = library.sh_string_map_lengths(*values, width, starts.address, valid.address)
    if total < 0:
        return None
    bits = pa.allocate_buffer(-(-total // 8))
    borders = pa.allocate_buffer(4 * (total + 1))
    texts = np.empty(data.size, np.uint8)
    items = pa.allocate_buffer(4 * (total + 1) if width == _TEXTS else bits.size if width == 0 else width * total)
    item_texts = np.empty(data.size if width == _TEXTS else 0, np.uint8)
    inside = MapRoomLayout(
        keys=borders.address,
        key_data=address(texts),
        values=items.address,
        valid_values=bits.address,
        value_data=address(item_texts),
    )
    nulls = library.sh_decode_string_maps(address(ends), starts.address, rows, data.address, width, null, byref(inside))
    if nulls < 0:
        return None
    keys = pa.Array.from_buffers(pa.string(), total, [None, borders, _used(borders, texts)], 0)
    outer = [bits if nulls else None, items, *([_used(items, item_texts)] if width == _TEXTS else [])]
    given = pa.Array.from_buffers(coding.arrow.item_type, total, outer, nulls)
    entries = pa.StructArray.from_arrays([keys, given], fields=[coding.arrow.key_field, coding.arrow.item_field])
    none = int(np.count_nonzero(ends[1:] == ends[:-1]))
    return pa.Array.from_buffers(coding.arrow, rows, [valid if none else None, starts], none, children=[entries])


def _used(borders: pa.Buffer, texts: Octets) -> pa.Buffer:
    """What texts take, by their ends."""
    used = int(np.frombuffer(borders, np.int32)[-1])
    return pa.py_buffer(texts[:used].copy())


def _width(coding: StringMaps) -> tuple[int, int]:
    """Bytes of a value in Arrow, 0 for bits, ``_TEXTS`` for texts; and the bits of its null value."""
    kind = coding.arrow.item_type
    if pa.types.is_string(kind):
        return _TEXTS, 0
    if pa.types.is_boolean(kind):
        return 0, 0
    size = kind.bit_width // 8
    return size, int(np.array(coding.null, kind.to_pandas_dtype()).view(_BITS[size]))
