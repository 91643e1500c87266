"""Objects whose values are of one type, each a JSON text, to maps, by the compiled core."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import MapListsLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.json_lists import JsonLists
from sparkhaven.store.native.library import core
from sparkhaven.store.native.number_lists import PlainColumn

_LEAST = 5  # bytes of an entry with its comma


def map_lists(
    tokens: pa.StringArray, name: str, low: int, high: int
) -> tuple[pa.MapArray, npt.NDArray[np.bool_] | None] | None:
    """A map for each text, null where that is null or in doubt; and which are. None: there is no core.

    ``name`` is the type of values: String, or as in ``number_lists``. A text is one JSON value; those that are no
    object of such values are in doubt, and those with a key that comes again.
    """
    library = core()
    if library is None:
        return None
    texts = JsonLists.of(tokens)
    room = texts.size // _LEAST
    column = PlainColumn(name, low, high, 0 if name == "String" else room)
    key_ends, keys = np.empty(room + 1, np.int32), np.empty(texts.size, np.uint8)
    longest = int(np.diff(texts.starts).max(initial=0))
    numbers = np.empty(2 * (longest // _LEAST), np.int32)
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
