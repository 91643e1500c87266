"""Texts of rows in several arrays come out in any order, and none is out of place."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.native import rows as module
from sparkhaven.store.native.rows import TextRows
from tests.support.guard_pages import guarded

SIZES = st.sampled_from([0, 1, 7, 15, 16, 17, 33, 63, 64, 65, 200])


def arrays_of(parts: list[list[int]]) -> list[pa.Array]:
    """Arrays of texts with these lengths, each a slice of a larger one."""
    found, number = [], 0
    for sizes in parts:
        texts = [b"lead"]
        for size in sizes:
            texts.append(bytes((number + i) % 251 for i in range(size)))
            number += size + 1
        found.append(pa.array(texts, pa.large_binary()).slice(1))
    return found


@given(st.lists(st.lists(SIZES, max_size=40), min_size=1, max_size=9), st.integers(0, 400), st.data())
def test_any_rows_in_any_order(parts: list[list[int]], room: int, data: st.DataObject) -> None:
    arrays = arrays_of(parts)
    texts = [text for array in arrays for text in array.to_pylist()]
    pick = st.integers(0, len(texts) - 1) if texts else st.nothing()
    picks = data.draw(st.lists(pick, max_size=100 if texts else 0))
    sizes = np.cumsum([len(texts[pick]) for pick in picks], dtype=np.int64)
    count = int(np.searchsorted(sizes, room, side="right"))
    for starts in (13, data.draw(st.integers(1, 5))):
        with patch.object(module, "STARTS", starts):
            rows = TextRows(arrays)
        ends, out = np.full(len(picks), -7, np.int64), np.zeros(room, np.uint8)
        with ExitStack() as opened:
            given = [opened.enter_context(guarded(each)) for each in (np.array(picks, np.uint32), ends, out)]
            taken = rows.take(given[0], 1000, *given[1:])
            assert taken == count
            assert given[1][:count].tolist() == (sizes[:count] + 1000).tolist()
            wanted = b"".join(texts[pick] for pick in picks[:count])
            assert given[2].tobytes()[: len(wanted)] == wanted


def test_nothing_is_read_behind_the_end() -> None:
    for sizes in ([1], [17, 3], [8, 8, 40], [0, 16, 0]):
        with ExitStack() as opened:
            ends = opened.enter_context(guarded(np.cumsum([0, *sizes]).astype(np.int64)))
            data = opened.enter_context(guarded(np.arange(sum(sizes), dtype=np.uint8)))
            buffers = [pa.foreign_buffer(each.ctypes.data, each.nbytes) for each in (ends, data)]
            array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(sizes), [None, *buffers])
            order = np.arange(2 * len(sizes), dtype=np.uint32)[::-1].copy()
            found, out = np.empty(len(order), np.int64), np.empty(2 * sum(sizes), np.uint8)
            assert TextRows([array, array]).take(order, 0, found, out) == len(order)
            assert out.tobytes() == b"".join(array[int(pick) % len(sizes)].as_py() for pick in order)


def test_rows_and_texts_out_of_place_are_refused() -> None:
    ends, out = np.empty(2, np.int64), np.empty(99, np.uint8)
    rows = TextRows([pa.array([b"a", b"c"], pa.large_binary()).slice(0, 1)] * 2)  # another text follows in memory
    with pytest.raises(ValueError, match="out of range"):
        rows.take(np.array([1, 2], np.uint32), 0, ends, out)


def test_damaged_ends_and_other_arrays_are_refused() -> None:
    ends, out, picks = np.empty(2, np.int64), np.empty(99, np.uint8), np.array([0, 1], np.uint32)
    for wrong in ([0, 9, 6], [0, -1, 2], [3, 1, 6]):
        buffers = [None, pa.py_buffer(np.array(wrong, np.int64)), pa.py_buffer(b"abcdef")]
        with pytest.raises(ValueError, match="outside of its data"):
            TextRows([pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2, buffers)]).take(picks, 0, ends, out)
    for array in (pa.array(["a"]), pa.array([b"a", None], pa.large_binary())):
        with pytest.raises(ValueError, match="expected large binary"):
            TextRows([array])
    with pytest.raises(ValueError, match="room for 1 ends of 2 texts"):
        TextRows([pa.array([b"a", b"b"], pa.large_binary())]).take(picks, 0, ends[:1], out)
