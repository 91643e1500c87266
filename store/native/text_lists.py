"""Arrays of texts, each a JSON text, to lists, by the compiled core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.buffers import address, bitmap
from sparkhaven.store.native.library import core

_LEAST = 3  # bytes of an element with its comma


def text_lists(tokens: pa.StringArray) -> tuple[pa.ListArray, npt.NDArray[np.bool_] | None] | None:
    """A list of texts for each JSON text, null where that is null or in doubt; and which are. None: there is no core.

    A JSON text is one value; those that are no array of strings and nulls are in doubt.
    """
    library = core()
    if library is None:
        return None
    count, (_, ends, data) = len(tokens), tokens.buffers()
    starts = np.frombuffer(ends, np.int32, count + 1, 4 * tokens.offset)
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    wanted = np.asarray(tokens.is_valid()).view(np.uint8)
    size = int(starts[-1] - starts[0])
    room = size // _LEAST
    list_ends, doubt = np.empty(count + 1, np.int32), np.empty(count, np.uint8)
    text_ends, texts, valid = np.empty(room + 1, np.int32), np.empty(size, np.uint8), np.empty(room, np.uint8)
    given = address(octets), address(starts), address(wanted), count, room
    room_for_all = address(list_ends), address(text_ends), address(texts), address(valid), address(doubt)
    used = library.sh_text_lists(*given, *room_for_all)
    bits, missing = bitmap(valid[:used])
    outer = [bits, pa.py_buffer(text_ends[: used + 1]), pa.py_buffer(texts[: text_ends[used]])]
    elements = pa.Array.from_buffers(pa.string(), used, outer, missing)
    bits, missing = bitmap(wanted & ~doubt)
    buffers = [bits, pa.py_buffer(list_ends)]
    lists = pa.Array.from_buffers(pa.list_(pa.string()), count, buffers, missing, children=[elements])
    return lists, doubt.view(np.bool_) if doubt.any() else None
