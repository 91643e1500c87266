"""Rows are parted alike with the compiled core and without it, and no byte is out of place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.native.rows import numbered_pieces, parted
from tests.oracles.columns import plain_numbered_pieces, plain_parted
from tests.support.guard_pages import guarded

KINDS = ["u1", "u2", "u4", "u8"]
WORDS = st.sampled_from([0, 1, 2, 3, 254, 255])


@given(
    rows=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=30),
    bounds=st.lists(st.lists(WORDS, min_size=1, max_size=3).map(tuple), unique=True, max_size=9),
    kinds=st.lists(st.sampled_from(KINDS), min_size=3, max_size=3),
)
def test_the_piece_of_a_row_is_how_many_bounds_it_is_at_or_after(
    rows: list[tuple[int, ...]], bounds: list[tuple[int, ...]], kinds: list[str]
) -> None:
    bounds.sort()
    keys = [np.array([row[number] for row in rows], kind) for number, kind in enumerate(kinds)]
    wanted = [sum(row >= bound for bound in bounds) for row in rows]
    with guarded(keys[0]) as one, guarded(keys[1]) as two, guarded(keys[2]) as three:
        assert numbered_pieces([one, two, three], bounds).tolist() == wanted
    assert plain_numbered_pieces(keys, bounds).tolist() == wanted


def test_the_largest_word_is_a_word_like_others() -> None:
    key = np.array([0, 2**64 - 2, 2**64 - 1], np.uint64)
    for bounds in ([(2**64 - 1,)], [(1,), (2**64 - 1,)], [(0,), (1,), (2**64 - 2,), (2**64 - 1,)]):
        wanted = [sum(word >= bound[0] for bound in bounds) for word in key.tolist()]
        assert numbered_pieces([key], bounds).tolist() == wanted


@pytest.mark.parametrize("bounds", [[()], [(1, 2, 3)]])
def test_a_bound_without_words_or_with_too_many_is_refused(bounds: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="of 2 keys"):
        numbered_pieces([np.zeros(3, np.uint8), np.zeros(3, np.uint8)], bounds)


def test_a_key_of_signed_words_is_refused() -> None:
    with pytest.raises(ValueError, match="of 1 keys"):
        numbered_pieces([np.zeros(3, np.int64)], [(1,)])


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "f8", "S3", "S12"])
def test_entries_of_a_piece_stand_together_in_their_order(kind: str) -> None:
    chance = np.random.default_rng(4)
    for size, count in ((0, 3), (1, 1), (1000, 7), (1000, 300)):
        entries = chance.integers(0, 127, size).astype(kind)
        pieces = chance.integers(0, count, size).astype(np.uint32)
        counts = np.bincount(pieces, minlength=count)
        wanted = [entry for piece in range(count) for entry in entries[pieces == piece].tolist()]
        with guarded(entries) as held, guarded(pieces) as numbers:
            assert parted(held, numbers, counts).tolist() == wanted
        assert plain_parted(entries, pieces, counts).tolist() == wanted


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "S3"])
@pytest.mark.parametrize(("pieces", "counts"), [([0, 2], [1, 1]), ([1, 1], [1, 1]), ([0, 1], [1, 2]), ([0, 0], [1, 1])])
def test_other_counts_than_those_of_the_pieces_are_refused(kind: str, pieces: list[int], counts: list[int]) -> None:
    for way in (parted, plain_parted):
        with pytest.raises(ValueError, match="counted"):
            way(np.zeros(2, kind), np.array(pieces, np.uint32), np.array(counts))
