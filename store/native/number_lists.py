"""Arrays of numbers, Booleans and characters, each a JSON text, to lists, by the compiled core."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import BOOLEAN, BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, ColumnLayout, ScanLayout
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
PLAIN_KINDS: dict[str, tuple[int, npt.DTypeLike]] = {
    **NUMBER_KINDS,
    "char": (CHAR, np.uint16),
    "Boolean": (BOOLEAN, np.uint8),
}
"""The same with types that are no numbers."""


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
) -> tuple[pa.ListArray, npt.NDArray[np.bool_] | None] | None:
    """A list of plain values for each text, null where that is null or in doubt; and which are. None: there is no core.

    ``name`` is the type of elements, of ``PLAIN_KINDS``; whole numbers are from ``low`` to ``high``. A text is one JSON
    value; those that are no array of such elements and nulls are in doubt. Booleans have no null.
    """
    library = core()
    if library is None:
        return None
    texts = JsonLists.of(tokens)
    room = texts.size // 2  # a text of n elements has more than 2 n bytes
    column = PlainColumn(name, low, high, room)
    written = address(texts.list_ends), address(texts.doubt)
    used = library.sh_number_lists(ctypes.byref(column.scan), *texts.arguments, room, *written)
    return texts.lists(column.array(used))
