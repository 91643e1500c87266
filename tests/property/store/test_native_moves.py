"""Moves put entries into the order that they are planned from, with the compiled core and without it."""

from __future__ import annotations

import numpy as np
import pytest

from sparkhaven.store.native.rows import SHIFT, Moves, move, plan_moves, windows_of
from tests.oracles.columns import plain_move, plain_plan_moves
from tests.support.guard_pages import guarded

KINDS = ["i1", "i2", "i4", "i8", "f8", "V12"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1,), (700, 0, 5000), (4096,) * 7])
def test_entries_come_to_the_places_that_the_order_gives_them(kind: str, sizes: tuple[int, ...]) -> None:
    chance, rows = np.random.default_rng(7), sum(sizes)
    entries = chance.integers(0, 256, rows * np.dtype(kind).itemsize, np.uint8).view(kind)
    for order in (chance.permutation(rows), chance.integers(0, rows, rows // 2), np.arange(0)):
        order = order.astype(np.uint32)
        windows = windows_of(sizes, 512)
        plain = plain_plan_moves(order, windows)
        with guarded(order) as held, guarded(windows) as by_block:
            moves = plan_moves(held, by_block)
        assert moves.origins.tolist() == plain.origins.tolist()
        assert moves.places.tolist() == plain.places.tolist()
        one, other = np.empty(len(order), kind), np.empty(len(order), kind)
        with (
            guarded(entries) as held,
            guarded(moves.origins) as origins,
            guarded(moves.places) as places,
            guarded(one) as out,
        ):
            move(held, Moves(origins, places), out)
            plain_move(entries, moves, other)
            assert out.tobytes() == other.tobytes() == entries[order].tobytes()


def test_a_window_has_the_same_part_of_each_source() -> None:
    windows = windows_of([1 << 16, 1 << 17, 0, 256], 1 << 15)
    small, large = windows[:256], windows[256:768]
    assert small.tolist() == sorted(small.tolist())
    assert (int(small[0]), int(small[-1])) == (int(large[0]), int(large[-1])) == (1, 7)
    assert np.abs(np.bincount(large) - 2 * np.bincount(small)).max() <= 2


def test_blocks_with_rows_of_several_sources_have_a_window_of_their_own() -> None:
    windows = windows_of([1000, 24, 600, 0, 1], 256)
    assert windows.tolist() == [1, 2, 4, 0, 1, 3, 0]


@pytest.mark.parametrize("plan", [plan_moves, plain_plan_moves])
def test_an_index_beyond_the_windows_is_refused(plan: object) -> None:
    with pytest.raises(IndexError):
        plan(np.array([0, 1 << SHIFT], np.uint32), np.zeros(1, np.uint16))  # type: ignore[operator]


@pytest.mark.parametrize("way", [move, plain_move])
@pytest.mark.parametrize(("origin", "place"), [(3, 0), (0, 2)])
def test_a_move_out_of_range_is_refused(way: object, origin: int, place: int) -> None:
    moves = Moves(np.array([1, origin], np.uint32), np.array([1, place], np.uint32))
    with pytest.raises(IndexError):
        way(np.zeros(3, np.int32), moves, np.zeros(2, np.int32))  # type: ignore[operator]
