"""Sets of rows as ranges, against plain sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.types.row_ranges import RowRanges

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)).map(lambda pair: (pair[0], sum(pair))), max_size=8)


def members(pairs: list[tuple[int, int]]) -> set[int]:
    return {row for start, stop in pairs for row in range(start, stop)}


def checked(ranges: RowRanges) -> set[int]:
    """The rows; the ranges ascend, are not empty and do not touch."""
    edges = np.stack((ranges.starts, ranges.stops), axis=1).reshape(-1)
    assert bool((np.diff(edges) > 0).all())
    assert ranges.rows == len(ranges.positions)
    return set(ranges.positions.tolist())


@given(PAIRS, PAIRS)
def test_union_and_intersection_are_those_of_the_rows(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = RowRanges.of(one), RowRanges.of(other)
    assert checked(left) == members(one)
    assert checked(left.union(right)) == members(one) | members(other)
    common = left.intersection(right)
    assert set(common.positions.tolist()) == members(one) & members(other)
    assert common.rows == len(members(one) & members(other))


@given(PAIRS, st.integers(0, 46), st.integers(0, 46), st.integers(1, 9))
def test_parts_have_all_rows_once_in_order(pairs: list[tuple[int, int]], start: int, stop: int, step: int) -> None:
    ranges = RowRanges.of(pairs)
    assert checked(RowRanges.at(ranges.positions)) == members(pairs)
    assert checked(ranges.within(start, stop)) == members(pairs) & set(range(start, stop))
    parts = list(ranges.steps(step))
    assert [row for part in parts for row in part.positions.tolist()] == sorted(members(pairs))
    assert all(part.rows == step for part in parts[:-1])


@given(PAIRS, st.integers(0, 9))
def test_near_ranges_are_one_and_a_bit_says_which_rows_are_meant(pairs: list[tuple[int, int]], few: int) -> None:
    ranges = RowRanges.of(pairs)
    near = ranges.closed(few)
    assert checked(near) >= members(pairs)
    assert bool((near.starts[1:] - near.stops[:-1] > few).all())
    bits = np.unpackbits(np.frombuffer(ranges.bits_among(near), np.uint8), bitorder="little")
    assert near.positions[bits[: near.rows] == 1].tolist() == sorted(members(pairs))
    assert len(bits) - near.rows < 8
