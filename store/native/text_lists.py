"""Arrays of texts, each a JSON text, to lists, by the compiled core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.buffers import address, bitmap
from sparkhaven.store.native.json_lists import JsonLists
from sparkhaven.store.native.library import core

_LEAST = 3  # bytes of an element with its comma


def text_lists(tokens: pa.StringArray) -> tuple[pa.ListArray, npt.NDArray[np.bool_] | None] | None:
    """A list of texts for each JSON text, null where that is null or in doubt; and which are. None: there is no core.

    A JSON text is one value; those that are no array of strings and nulls are in doubt.
    """
    library = core()
    if library is None:
        return None
    lists = JsonLists.of(tokens)
    room = lists.size // _LEAST
    text_ends, texts = np.empty(room + 1, np.int32), np.empty(lists.size, np.uint8)
    valid = np.empty(room, np.uint8)
    written = address(lists.list_ends), address(text_ends), address(texts), address(valid), address(lists.doubt)
    used = library.sh_text_lists(*lists.arguments, room, *written)
    bits, missing = bitmap(valid[:used])
    buffers = [bits, pa.py_buffer(text_ends[: used + 1]), pa.py_buffer(texts[: text_ends[used]])]
    return lists.lists(pa.Array.from_buffers(pa.string(), used, buffers, missing))
