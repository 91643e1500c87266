"""Any set of rows, written and read by a decoder that takes one byte after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.types.codings.row_set import decode_rows, encode_rows
from tests.support.tables.naive_rowset import naive_ranges

STEP = st.one_of(st.integers(1, 3), st.integers(1, 200), st.integers(1, 70_000), st.integers(1, 2**40))
SETS = st.tuples(st.integers(0, 200), st.lists(st.tuples(STEP, STEP), max_size=40))


@given(SETS)
def test_what_is_written_is_read(set_: tuple[int, list[tuple[int, int]]]) -> None:
    at, steps = set_
    pairs = []
    for gap, length in steps:
        pairs.append((at, at + length))
        at += length + gap
    table = np.array(pairs, np.int64).reshape(-1, 2)
    data = encode_rows(table[:, 0].copy(), table[:, 1].copy())
    assert naive_ranges(data) == [(start, stop - 1) for start, stop in pairs]
    starts, stops = decode_rows(data)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == pairs
