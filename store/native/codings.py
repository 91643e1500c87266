"""Values of one width and of any length, to what a codec makes of them and back, by the compiled core.

Functions return None for other codings, and where the core is in doubt about one value. Of any length, the coding then
takes all of them, and says which are wrong. Of one width, a value to be stored is wrong then; of entries
``coding.rare`` says what the core does not take.
"""

from __future__ import annotations

from ctypes import CDLL, byref, c_int64

import numpy as np
import pyarrow as pa

from sparkhaven.store.native.abi import MapEntriesLayout, MapRoomLayout
from sparkhaven.store.native.library import TextBuffers, address, core, valid_address
from sparkhaven.store.types.codings.byte_array import ByteArrays
from sparkhaven.store.types.codings.coding import BlobCoding, Coding, Ends, FixedCoding, Mask, Octets, some
from sparkhaven.store.types.codings.decimals import FreeDecimals
from sparkhaven.store.types.codings.instant_array import FIRST, FRONT, HEAD, LATER, VALUE, InstantArrays
from sparkhaven.store.types.codings.java_array import LENGTH, JavaArrays
from sparkhaven.store.types.codings.row_set import RowSets
from sparkhaven.store.types.codings.string_array import HEAD as TEXTS_HEAD
from sparkhaven.store.types.codings.string_array import StringArrays
from sparkhaven.store.types.codings.string_map import StringMaps

# --- values of one width ---


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


# --- numbers without bounds ---

_NUMBER_FRONT = 5  # bytes of a number that has no digit
_NUMBER_GROWTH, _NUMBER_MOST = 3, 16  # digits that a byte has at most, and a sign, a point and zeros


def encode_numbers(array: pa.Array, coding: FreeDecimals) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library = core()
    if array.type != coding.arrow or array.buffers()[1] is None or not len(array):
        return None
    texts, rows = TextBuffers.of(array), len(array)
    room = rows * _NUMBER_FRONT + texts.size
    ends, out = np.empty(rows, np.int64), np.empty(room, np.uint8)
    where = texts.ends + 4 * texts.first, texts.valid, texts.first, rows, texts.data, texts.size
    used = library.sh_encode_free_decimals(*where, coding.whole, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_numbers(ends: Ends, data: pa.Buffer, coding: FreeDecimals) -> pa.Array | None:
    """Plain decimal texts by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if not rows or not data.size:
        return None
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    where = address(ends), rows, data.address, data.size, coding.whole, starts.address, valid.address
    room = _NUMBER_GROWTH * data.size + _NUMBER_MOST * rows
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


# --- arrays of instants, as Java streams ---

_INSTANT_FRONTS = HEAD + FIRST + LATER


def encode_instants(array: pa.Array) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if array.type != InstantArrays.arrow or offsets is None or not len(array):
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
    used = library.sh_encode_instants(*lists, *inside, _INSTANT_FRONTS, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_instants(ends: Ends, data: pa.Buffer) -> pa.Array | None:
    """Lists by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if not rows or not data.size:
        return None
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    begins = starts.address
    total = library.sh_instant_lengths(
        address(ends), rows, data.address, data.size, _INSTANT_FRONTS, begins, valid.address
    )
    if total < 0:
        return None
    elements, bits = pa.allocate_buffer(8 * total), pa.allocate_buffer(-(-total // 8))
    where = address(ends), begins, rows, data.address
    nulls = library.sh_decode_instants(*where, _INSTANT_FRONTS, elements.address, bits.address)
    if nulls < 0:
        return None
    kind = InstantArrays.arrow
    inner = pa.Array.from_buffers(kind.value_type, total, [bits if nulls else None, elements], nulls)
    missing = int(np.count_nonzero(ends[1:] == ends[:-1]))
    return pa.Array.from_buffers(kind, rows, [valid if missing else None, starts], missing, children=[inner])


# --- arrays of a primitive, as Java streams ---

_OCTETS = -1  # as the core knows them
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def encode_arrays(array: pa.Array, coding: JavaArrays) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if array.type != coding.arrow or offsets is None or not len(array):
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
    if not rows or not data.size:
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


# --- row sets ---


def doubtful_sets(array: pa.Array) -> Mask | None:
    """Which values the core does not know to be row sets; None: the array is no binary."""
    library = core()
    if array.type != pa.binary() or array.buffers()[1] is None or not len(array):
        return None
    sets, doubt = TextBuffers.of(array), np.empty(len(array), np.uint8)
    where = sets.ends + 4 * sets.first, sets.valid, sets.first, len(array), sets.data, sets.size
    library.sh_row_sets(*where, address(doubt))
    return doubt.view(np.bool_)


def unstorable_values(array: pa.Array, coding: Coding) -> Mask | None:
    """What ``coding.unstorable`` says, which has to look only at the row sets that are in doubt."""
    doubt = doubtful_sets(array) if isinstance(coding, RowSets) else None
    if doubt is None:
        return coding.unstorable(array)
    if doubt.any():
        wrong = coding.unstorable(array.filter(pa.array(doubt)))
        doubt[doubt] = False if wrong is None else wrong
    return some(doubt)


def encode_row_sets(array: pa.Array) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    doubt = doubtful_sets(array)
    if doubt is None or doubt.any():
        return None
    ends, data, _ = ByteArrays().encode(array)
    return ends, data


def decode_row_sets(ends: Ends, data: pa.Buffer) -> pa.Array | None:
    """binary, not copied."""
    array, _ = ByteArrays().decode(ends, data)
    doubt = doubtful_sets(array)
    return None if doubt is None or doubt.any() else array


# --- arrays of texts, as Java streams ---

_ARRAY_FRONT, _TEXT_FRONT = len(TEXTS_HEAD) + 4, 9
_TEXT_GROWTH = 2  # a NUL has two bytes, and of three or four bytes are six at most


def encode_texts(array: pa.Array) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if array.type != StringArrays.arrow or offsets is None or not len(array):
        return None
    rows, texts = len(array), TextBuffers.of(array.values)
    if not texts.count or texts.wide:
        return None
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
    borders = np.frombuffer(array.values.buffers()[1], np.int32)[texts.first :]
    size = int(borders[starts[-1]]) - int(borders[starts[0]])
    room = rows * _ARRAY_FRONT + _TEXT_FRONT * int(starts[-1] - starts[0]) + _TEXT_GROWTH * size
    ends, out = np.empty(rows, np.int64), np.empty(room, np.uint8)
    lists = address(starts), valid_address(array), array.offset, rows
    inside = address(borders), texts.valid, texts.first, texts.count, texts.data, texts.size
    used = library.sh_encode_texts(*lists, *inside, TEXTS_HEAD, address(ends), address(out), room)
    return (ends, out[:used]) if used >= 0 else None


def decode_texts(ends: Ends, data: pa.Buffer) -> pa.Array | None:
    """Lists by their ``len(ends) - 1`` ranges in ``data``."""
    library, rows = core(), len(ends) - 1
    if not rows or not data.size:
        return None
    starts, valid = pa.allocate_buffer(4 * (rows + 1)), pa.allocate_buffer(-(-rows // 8))
    values = address(ends), rows, data.address, data.size
    total = library.sh_text_lengths(*values, TEXTS_HEAD, starts.address, valid.address)
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


# --- maps of texts ---

_MAP_COUNT, _TEXTS = 4, -1


def encode_maps(array: pa.Array, coding: StringMaps) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    library, offsets = core(), array.buffers()[1]
    if array.type != coding.arrow or offsets is None or not len(array):
        return None
    rows, (keys, items) = len(array), array.values.flatten()
    if not len(keys) or keys.null_count or array.values.null_count or items.buffers()[1] is None:
        return None
    starts = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
    width, null = _map_width(coding)
    texts, begin, value_data, value_size = TextBuffers.of(keys), items.buffers()[1].address, None, 0
    room = rows * _MAP_COUNT + len(keys) * (_MAP_COUNT + max(width, _MAP_COUNT)) + texts.size
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
    if not rows or not 0 < data.size < 1 << 31:
        return None
    width, null = _map_width(coding)
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


def _map_width(coding: StringMaps) -> tuple[int, int]:
    """Bytes of a value in Arrow, 0 for bits, ``_TEXTS`` for texts; and the bits of its null value."""
    kind = coding.arrow.item_type
    if pa.types.is_string(kind):
        return _TEXTS, 0
    if pa.types.is_boolean(kind):
        return 0, 0
    size = kind.bit_width // 8
    return size, int(np.array(coding.null, kind.to_pandas_dtype()).view(_BITS[size]))


# --- every codec ---


def encode_blobs(array: pa.Array, coding: BlobCoding) -> tuple[Ends, Octets] | None:
    """Ends of the values, counted from 0, and their bytes."""
    if isinstance(coding, JavaArrays):
        return encode_arrays(array, coding)
    if isinstance(coding, InstantArrays):
        return encode_instants(array)
    if isinstance(coding, StringArrays):
        return encode_texts(array)
    if isinstance(coding, StringMaps):
        return encode_maps(array, coding)
    if isinstance(coding, FreeDecimals):
        return encode_numbers(array, coding)
    return encode_row_sets(array) if isinstance(coding, RowSets) else None


def decode_blobs(ends: Ends, data: pa.Buffer, coding: BlobCoding) -> pa.Array | None:
    """Values by their ``len(ends) - 1`` ranges in ``data``."""
    if isinstance(coding, JavaArrays):
        return decode_arrays(ends, data, coding)
    if isinstance(coding, InstantArrays):
        return decode_instants(ends, data)
    if isinstance(coding, StringArrays):
        return decode_texts(ends, data)
    if isinstance(coding, StringMaps):
        return decode_maps(ends, data, coding)
    if isinstance(coding, FreeDecimals):
        return decode_numbers(ends, data, coding)
    return decode_row_sets(ends, data) if isinstance(coding, RowSets) else None
