"""Texts of Arrow arrays: sorted, ranked, picked, and taken from several arrays.

The order is that of UTF-16 code units.
ValueError: an array has offsets outside of its data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import KeyedLayout, PartLayout, TextsLayout
from sparkhaven.store.native.library import TextBuffers, address, core

MORE = 2  # times the bytes that picked texts take if they are as long as others
KEYED = np.dtype(KeyedLayout)
_TEXTS = np.dtype(TextsLayout)
HEAD, SLACK = 8, 16 * ((1 << 12) + 2)  # bytes for each text, and for all, where they are put to be sorted


def rank_tables(
    tables: Sequence[pa.Array], none: np.int32
) -> tuple[pa.StringArray, list[npt.NDArray[np.int32]]] | None:
    """The distinct texts of all string arrays, in order; and for each array the ranks of its texts among them.

    ``none`` is the rank of null, and one more, the last of each array. None if the distinct texts are 2 GiB.
    """
    library = core()
    rows = [tuple(value or 0 for value in TextBuffers.of(table).arguments) for table in tables]
    entries, counts = np.array(rows, _TEXTS), [len(table) for table in tables]
    total, size = sum(counts), sum(table.nbytes for table in tables)
    items, spare = np.empty(total, KEYED), np.empty(total, KEYED)
    scratch = np.empty(size + HEAD * total + SLACK, np.uint8)
    ranks = np.full(total + len(tables), none, np.int32)
    ends, data = np.zeros(total + 1, np.int32), np.empty(size, np.uint8)
    room = address(items), address(spare), address(scratch), len(scratch)
    kinds = library.sh_union_texts(
        address(entries), len(tables), *room, address(ranks), address(ends), address(data), size
    )
    if kinds == -1:
        raise _damaged()
    if kinds < 0:
        return None
    union = pa.py_buffer(ends[: kinds + 1]), pa.py_buffer(data[: int(ends[kinds])])
    stops = np.cumsum(np.array(counts, np.int64) + 1).tolist()
    luts = [ranks[stop - count - 1 : stop] for stop, count in zip(stops, counts, strict=True)]
    return pa.StringArray.from_buffers(kinds, *union), luts


def take_texts(texts: pa.Array, picks: npt.NDArray[np.uint32]) -> pa.Array | None:
    """The picked texts, none of them null, as an array of the same type; None if their offsets have no room."""
    library = core()
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


def texts_ordered(texts: pa.Array) -> bool:
    """Whether each text, none of them null, is behind the one before it."""
    library = core()
    wrong = library.sh_texts_ordered(*TextBuffers.of(texts).valid_arguments)
    if wrong < 0:
        raise _damaged()
    return bool(wrong == len(texts))


def _damaged() -> ValueError:
    return ValueError("an Arrow array has offsets outside of its data, or fewer texts than are picked")


STARTS = 13  # bits of a row's number that say where its array is looked for
_PART = np.dtype(PartLayout)


class TextRows:
    """The rows of large binary arrays, one array behind the other, none of them null. The arrays are not copied."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._arrays = [array for array in arrays if len(array)]
        self._parts = np.zeros(len(self._arrays) + 1, _PART)
        row = 0
        for number, array in enumerate(self._arrays):
            if array.type != pa.large_binary() or array.null_count:
                raise ValueError(
                    f"an array of {array.type} with {array.null_count} nulls, expected large binary without"
                )
            buffers = TextBuffers.of(array)
            self._parts[number] = (row, buffers.ends + 8 * buffers.first, buffers.data, buffers.size)
            row += len(array)
        self._parts[-1]["row"] = row
        self._shift = max(0, row.bit_length() - STARTS)
        stretches = np.arange(0, row, 1 << self._shift)
        self._starts = (np.searchsorted(self._parts["row"], stretches, side="right") - 1).astype(np.uint32)

    def __len__(self) -> int:
        return int(self._parts[-1]["row"])

    def take(
        self, picks: npt.NDArray[np.uint32], end: int, ends: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
    ) -> int:
        """Texts of the picked rows into ``out``, as many as it has room for, and where each ends, counted from ``end``.

        Returns how many they are; ``ends`` has room for all. ValueError: a row or text is out of place.
        """
        library = core()
        picks = np.ascontiguousarray(picks)
        if len(ends) < len(picks):
            raise ValueError(f"room for {len(ends)} ends of {len(picks)} texts")
        into = address(ends), address(out), len(out)
        parts = address(self._parts), len(self._arrays), address(self._starts), self._shift
        taken: int = library.sh_take_parts(*parts, address(picks), len(picks), end, *into)
        if taken < 0:
            raise ValueError("a row is out of range, or an Arrow array has offsets outside of its data")
        return taken
