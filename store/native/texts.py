"""Texts of Arrow arrays by the compiled core: sorted, ranked, picked. None where there is no core.

The order is that of UTF-16 code units. ValueError: an array has offsets outside of its data.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import KeyedLayout
from sparkhaven.store.native.buffers import TextBuffers, address
from sparkhaven.store.native.library import core

MORE = 2  # times the bytes that picked texts take if they are as long as others
KEYED = np.dtype(KeyedLayout)


def rank_texts(texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]] | None:
    """The rank of each text among the distinct ones, -1 for null; and of each rank, in order, one index that has it."""
    library = core()
    if library is None:
        return None
    items, spare = np.empty(len(texts), KEYED), np.empty(len(texts), KEYED)
    count = library.sh_sort_texts(*TextBuffers.of(texts).arguments, address(items), address(spare))
    if count < 0:
        raise _damaged()
    ranks = np.full(len(texts), -1, np.int32)
    distinct = np.empty(count, np.uint32)
    kinds = library.sh_rank_texts(address(items), count, address(ranks), address(distinct))
    return ranks, distinct[:kinds]


def take_texts(texts: pa.Array, picks: npt.NDArray[np.uint32]) -> pa.Array | None:
    """The picked texts, none of them null, as an array of the same type; None also if their offsets have no room."""
    library = core()
    if library is None:
        return None
    buffers, picks = TextBuffers.of(texts), np.ascontiguousarray(picks, np.uint32)
    arguments = *buffers.valid_arguments, address(picks), len(picks)
    ends = np.zeros(len(picks) + 1, np.int64 if buffers.wide else np.int32)
    room = MORE * buffers.size * len(picks) // max(buffers.count, 1)  # what is not used costs no memory
    while True:
        data = np.empty(room, np.uint8)
        used = library.sh_take_texts(*arguments, address(ends), address(data), room)
        if used < 0:
            raise _damaged()
        if not buffers.wide and used >= 1 << 31:
            return None
        if used <= room:
            return pa.Array.from_buffers(
                texts.type, len(picks), [None, pa.py_buffer(ends), pa.py_buffer(data[:used])], 0
            )
        room = used


def texts_ordered(texts: pa.Array) -> bool | None:
    """Whether each text, none of them null, is behind the one before it."""
    library = core()
    if library is None:
        return None
    wrong = library.sh_texts_ordered(*TextBuffers.of(texts).valid_arguments)
    if wrong < 0:
        raise _damaged()
    return bool(wrong == len(texts))


def _damaged() -> ValueError:
    return ValueError("an Arrow array has offsets outside of its data, or fewer texts than are picked")
