"""The order of rows by keys, by the compiled core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.abi import WordsLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core
from sparkhaven.store.native.texts import KEYED

PLACES = 2  # rows for each place where rows of a word are counted
_WORDS = np.dtype(WordsLayout)


def sorted_rows(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint32] | None:
    """The stable order of rows by keys of unsigned words, most significant first, all of one length below 2^32.

    None where there is no core. It takes up to 40 bytes a row.
    """
    library = core()
    if library is None or not keys:
        return None
    rows = len(keys[0])
    held = [np.ascontiguousarray(key) for key in keys]
    if any(key.dtype.kind != "u" or len(key) != rows for key in held):
        raise ValueError(f"keys of {', '.join(f'{len(key)} {key.dtype}' for key in held)}, expected unsigned words")
    words = np.array([(address(key), key.dtype.itemsize) for key in held], _WORDS)
    order, room = np.empty(rows, np.uint32), np.empty(rows // PLACES + 1, np.int64)
    items, spare = np.empty(rows, KEYED), np.empty(rows, KEYED)  # as much of them is touched as is sorted at once
    into = address(order), rows, address(items), address(spare), address(room)
    if library.sh_sort_rows(address(words), len(held), *into) != rows:
        raise ValueError("a key has words of another width than 1, 2, 4 or 8 bytes")
    return order
