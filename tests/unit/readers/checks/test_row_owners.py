"""Which key has each row: ranges of all lengths, in any order, and those that are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sparkhaven.readers.checks.index_rows import LONG, RowOwners

Ranges = Sequence[tuple[int, int]]


def added(owners: RowOwners, first: int, ranges: Ranges) -> int | None:
    """One range a key, from key ``first`` on."""
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    return owners.add(first, starts, stops, np.ones(len(ranges), np.int64))


@pytest.mark.parametrize("length", [1, LONG, 5 * LONG])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_have_the_keys_of_their_ranges(length: int, turned: bool) -> None:
    ranges = [(number * length, (number + 1) * length) for number in range(6)]
    owners = RowOwners(6 * length)
    assert added(owners, 0, ranges[:4][::-1] if turned else ranges[:4]) is None
    assert owners.missing() == 4 * length
    assert added(owners, 4, ranges[4:]) is None
    assert owners.missing() is None
    expected = np.repeat([3, 2, 1, 0, 4, 5] if turned else np.arange(6), length)
    assert np.array_equal(owners.of(0, 6 * length), expected)


@pytest.mark.parametrize("length", [2, LONG, 5 * LONG])
@pytest.mark.parametrize(
    ("before", "ranges", "wrong"),
    [
        ((), [(0, 1), (1, 1)], {1}),  # empty
        ((), [(1, 2), (2, 3), (2, 4)], {1, 2}),  # overlaps the one before it
        ((), [(2, 4), (0, 1), (3, 4)], {0, 2}),  # overlaps one far before it
        ((), [(3, 4), (2, 3), (1, 2), (1, 2)], {2, 3}),  # the same rows, descending
        ([(2, 3)], [(0, 1), (1, 2), (2, 4)], {2}),  # a row has a key of another call
        ([(0, 1)], [(0, 4)], {0}),
        ([(3, 4)], [(0, 4)], {0}),
        ((), [(0, 4), (4, 5)], {1}),  # beyond the rows
    ],
)
def test_a_range_that_is_wrong_is_named_or_the_one_whose_rows_it_has(
    length: int, before: Ranges, ranges: Ranges, wrong: set[int]
) -> None:
    owners = RowOwners(4 * length)
    if before:
        assert added(owners, 0, [(length * low, length * high) for low, high in before]) is None
    assert added(owners, 1, [(length * low, length * high) for low, high in ranges]) in wrong


def test_ranges_of_no_rows() -> None:
    assert added(RowOwners(0), 0, []) is None and RowOwners(0).missing() is None
    assert added(RowOwners(3), 0, []) is None and RowOwners(3).missing() == 0
