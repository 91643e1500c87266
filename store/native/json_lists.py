"""JSON texts to arrays, maps and bytes, by the compiled core: where they lie, and what becomes of them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    ColumnLayout,
    MapListsLayout,
    ScanLayout,
)
from sparkhaven.store.native.library import address, bitmap, core

LOWEST_POWER, HIGHEST_POWER = -342, 308
_EXACT_FROM = -27  # below, the inverse of a power of five has more than 64 bits that matter


@lru_cache(maxsize=1)
def powers_of_five() -> npt.NDArray[np.uint64]:
    """The first 128 bits of 5^q for q from -342 to 308, the upper half first; those of inverses are rounded up."""
    halves = []
    for power in range(LOWEST_POWER, HIGHEST_POWER + 1):
        five = 5 ** abs(power)
        if power >= 0:
            shift = 128 - five.bit_length()
            bits = five << shift if shift >= 0 else five >> -shift
        else:
            width = (five - 1).bit_length()
            bits = (1 << (width + 127 if power >= _EXACT_FROM else 2 * width + 128)) // five + 1
            bits >>= bits.bit_length() - 128
        halves += [bits >> 64, bits & (2**64 - 1)]
    return np.array(halves, np.uint64)


NUMBER_KINDS: dict[str, tuple[int, npt.DTypeLike]] = {
    "byte": (BYTE, np.int8),
    "short": (SHORT, np.int16),
    "int": (INT, np.int32),
    "long": (LONG, np.int64),
    "float": (FLOAT, np.float32),
    "double": (DOUBLE, np.float64),
}
"""By the type of a column: how the core knows it, and what it stores."""
PLAIN_KINDS: dict[str, tuple[int, npt.DTypeLike]] = {
    **NUMBER_KINDS,
    "char": (CHAR, np.uint16),
    "Boolean": (BOOLEAN, np.uint8),
}
"""Those of numbers, and types that are no numbers."""


class PlainColumn:
    """A column of so many plain values as the core writes it: of the type ``name``, whole ones from low to high.

    A ``name`` that is none of ``PLAIN_KINDS`` has no values.
    """

    def __init__(self, name: str, low: int, high: int, room: int) -> None:
        kind, dtype = PLAIN_KINDS.get(name, (BYTE, np.int8))
        self._name, self._values, self._valid = name, np.empty(room, dtype), np.ones(room, np.uint8)
        self._powers = powers_of_five()
        buffers = {"values": address(self._values), "valid": address(self._valid)}
        self._layout = ColumnLayout(kind=kind, low=low, high=high, also=-1, **buffers)
        self.scan = ScanLayout(columns=ctypes.addressof(self._layout), column_count=1, powers=address(self._powers))

    def array(self, used: int) -> pa.Array:
        """The first so many values."""
        bits, missing = bitmap(self._valid[:used]) if self._layout.some_null else (None, 0)
        values = self._values[:used]
        if self._name == "Boolean":
            packed = pa.py_buffer(np.packbits(values, bitorder="little"))
            return pa.Array.from_buffers(pa.bool_(), used, [bits, packed], missing)
        return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), used, [bits, pa.py_buffer(values)], missing)


def number_lists(
    tokens: pa.StringArray, name: str, low: int, high: int
) -> tuple[pa.ListArray, npt.NDArray[np.bool_] | None]:
    """A list of plain values for each text, null where that is null or in doubt; and which are.

    ``name`` is the type of elements, of ``PLAIN_KINDS``; whole numbers are from ``low`` to ``high``. A text is one JSON
    value; those that are no array of such elements and nulls are in doubt. Booleans have no null.
    """
    library = core()
    texts = JsonLists.of(tokens)
    room = texts.size // 2  # a text of n elements has more than 2 n bytes
    column = PlainColumn(name, low, high, room)
    written = address(texts.list_ends), address(texts.doubt)
    used = library.sh_number_lists(ctypes.byref(column.scan), *texts.arguments, room, *written)
    return texts.lists(column.array(used))


_MAP_LEAST = 5  # bytes of an entry with its comma


def map_lists(
    tokens: pa.StringArray, name: str, low: int, high: int
) -> tuple[pa.MapArray, npt.NDArray[np.bool_] | None]:
    """A map for each text, null where that is null or in doubt; and which are.

    ``name`` is the type of values: String, or as in ``number_lists``. A text is one JSON value; those that are no
    object of such values are in doubt, and those with a key that comes again.
    """
    library = core()
    texts = JsonLists.of(tokens)
    room = texts.size // _MAP_LEAST
    column = PlainColumn(name, low, high, 0 if name == "String" else room)
    key_ends, keys = np.empty(room + 1, np.int32), np.empty(texts.size, np.uint8)
    longest = int(np.diff(texts.starts).max(initial=0))
    numbers = np.empty(2 * (longest // _MAP_LEAST), np.int32)
    maps = MapListsLayout(room=room, key_ends=address(key_ends), keys=address(keys), numbers=address(numbers))
    if name == "String":
        value_ends, values = np.empty(room + 1, np.int32), np.empty(texts.size, np.uint8)
        maps.value_ends, maps.values = address(value_ends), address(values)
    written = address(texts.list_ends), address(texts.doubt)
    used = library.sh_map_lists(ctypes.byref(column.scan), *texts.arguments, ctypes.byref(maps), *written)
    pairs = [_texts(key_ends, keys, used), _texts(value_ends, values, used) if name == "String" else column.array(used)]
    fields = [pa.field("key", pa.string(), nullable=False), pa.field("value", pairs[1].type)]
    return texts.lists(pa.StructArray.from_arrays(pairs, fields=fields), pa.map_(pa.string(), pairs[1].type))


def _texts(ends: npt.NDArray[np.int32], octets: npt.NDArray[np.uint8], used: int) -> pa.StringArray:
    buffers = [None, pa.py_buffer(ends[: used + 1]), pa.py_buffer(octets[: ends[used]])]
    return pa.Array.from_buffers(pa.string(), used, buffers, 0)


_TEXT_LEAST = 3  # bytes of an element with its comma


def text_lists(tokens: pa.StringArray) -> tuple[pa.ListArray, npt.NDArray[np.bool_] | None]:
    """A list of texts for each JSON text, null where that is null or in doubt; and which are.

    A JSON text is one value; those that are no array of strings and nulls are in doubt.
    """
    library = core()
    lists = JsonLists.of(tokens)
    room = lists.size // _TEXT_LEAST
    text_ends, texts = np.empty(room + 1, np.int32), np.empty(lists.size, np.uint8)
    valid = np.empty(room, np.uint8)
    written = address(lists.list_ends), address(text_ends), address(texts), address(valid), address(lists.doubt)
    used = library.sh_text_lists(*lists.arguments, room, *written)
    bits, missing = bitmap(valid[:used])
    buffers = [bits, pa.py_buffer(text_ends[: used + 1]), pa.py_buffer(texts[: text_ends[used]])]
    return lists.lists(pa.Array.from_buffers(pa.string(), used, buffers, missing))


BASE64, STRING, STRING_OR_ARRAY = range(3)
"""What a text is: base64; a JSON string with it; or that, or a JSON array of numbers from -128 to 127."""


def byte_values(texts: pa.StringArray, form: int) -> tuple[pa.BinaryArray, npt.NDArray[np.bool_] | None]:
    """Bytes of each text, null where that is null or in doubt; and which are.

    Texts of another form are in doubt, and base64 that has bits which no byte has.
    """
    library = core()
    values = JsonLists.of(texts)
    octets = np.empty(max(values.size, 1), np.uint8)
    written = address(values.list_ends), address(octets), address(values.doubt)
    library.sh_byte_values(*values.arguments, form, *written)
    return values.blobs(octets[: values.list_ends[-1]])


Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JsonLists:
    """Text i is ``octets`` from ``starts[i]`` to ``starts[i + 1]`` where ``wanted``; the core writes the rest.

    ``list_ends`` are 0 and the end of each list in all elements, ``doubt`` is 1 for a text that is none.
    """

    octets: Octets
    starts: npt.NDArray[np.int32]
    wanted: Octets
    list_ends: npt.NDArray[np.int32]
    doubt: Octets

    @staticmethod
    def of(tokens: pa.StringArray) -> JsonLists:
        """For each text one list."""
        count, (_, ends, data) = len(tokens), tokens.buffers()
        return JsonLists(
            np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8),
            np.frombuffer(ends, np.int32, count + 1, 4 * tokens.offset),
            np.asarray(tokens.is_valid()).view(np.uint8),
            np.empty(count + 1, np.int32),
            np.empty(count, np.uint8),
        )

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return int(self.starts[-1] - self.starts[0])

    @property
    def arguments(self) -> tuple[int, int, int, int]:
        """The texts, as functions of the core take them."""
        return address(self.octets), address(self.starts), address(self.wanted), len(self.wanted)

    def lists(self, elements: pa.Array, kind: pa.DataType | None = None) -> tuple[pa.Array, Mask | None]:
        """The lists, null where a text is null or in doubt; and which are in doubt, None: none is.

        ``kind`` is the type of the lists, if they are not plain ones.
        """
        bits, missing = bitmap(self.wanted & ~self.doubt)
        buffers = [bits, pa.py_buffer(self.list_ends)]
        kind = kind or pa.list_(elements.type)
        return pa.Array.from_buffers(kind, len(self.wanted), buffers, missing, children=[elements]), self._doubt()

    def blobs(self, octets: Octets) -> tuple[pa.BinaryArray, Mask | None]:
        """Lists of bytes as binary, and which are in doubt."""
        bits, missing = bitmap(self.wanted & ~self.doubt)
        buffers = [bits, pa.py_buffer(self.list_ends), pa.py_buffer(octets)]
        return pa.Array.from_buffers(pa.binary(), len(self.wanted), buffers, missing), self._doubt()

    def _doubt(self) -> Mask | None:
        return self.doubt.view(np.bool_) if self.doubt.any() else None
