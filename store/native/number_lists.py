"""Arrays of numbers, each a JSON text, to lists, by the compiled core."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import BYTE, DOUBLE, FLOAT, INT, LONG, SHORT, ColumnLayout, ScanLayout
from sparkhaven.store.native.buffers import address, bitmap
from sparkhaven.store.native.json_lists import JsonLists
from sparkhaven.store.native.library import core
from sparkhaven.store.native.powers_of_five import powers_of_five

NUMBER_KINDS: dict[str, tuple[int, npt.DTypeLike]] = {
    "byte": (BYTE, np.int8),
    "short": (SHORT, np.int16),
    "int": (INT, np.int32),
    "long": (LONG, np.int64),
    "float": (FLOAT, np.float32),
    "double": (DOUBLE, np.float64),
}
"""By the type of a column: how the core knows it, and what it stores."""


def number_lists(
    tokens: pa.StringArray, name: str, low: int, high: int
) -> tuple[pa.ListArray, npt.NDArray[np.bool_] | None] | None:
    """A list of numbers for each text, null where that is null or in doubt; and which are. None: there is no core.

    ``name`` is the type of elements, whole ones are from ``low`` to ``high``. A text is one JSON value; those that are
    no array of such numbers and nulls are in doubt.
    """
    library, (kind, dtype) = core(), NUMBER_KINDS[name]
    if library is None:
        return None
    texts = JsonLists.of(tokens)
    room = texts.size // 2  # a text of n elements has more than 2 n bytes
    values, valid, powers = np.empty(room, dtype), np.ones(room, np.uint8), powers_of_five()
    column = ColumnLayout(kind=kind, low=low, high=high, values=address(values), valid=address(valid), also=-1)
    scan = ScanLayout(columns=ctypes.addressof(column), column_count=1, powers=address(powers))
    written = address(texts.list_ends), address(texts.doubt)
    used = library.sh_number_lists(ctypes.byref(scan), *texts.arguments, room, *written)
    bits, missing = bitmap(valid[:used]) if column.some_null else (None, 0)
    kind = pa.from_numpy_dtype(dtype)
    return texts.lists(pa.Array.from_buffers(kind, used, [bits, pa.py_buffer(values[:used])], missing))
