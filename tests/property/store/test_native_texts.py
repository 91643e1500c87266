"""Texts sorted, ranked and picked by the compiled core come out as Python sorts them; no byte is read out of place."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.native.rows import rank_tables, take_texts, texts_ordered
from sparkhaven.writers.merge.sources.sort_keys import rank_lut, ranked_symbols
from tests.support.guard_pages import guarded

ODD = ["", "\0", "\0\0", "\x7f", "\x80", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "a\0", "a"]
TEXTS = st.lists(
    st.none()
    | st.text(max_size=12)
    | st.builds(
        lambda n, parts: "same prefix"[:n] + "".join(parts), st.integers(0, 11), st.lists(st.sampled_from(ODD))
    ),
    max_size=60,
)


def by_unit(text: str) -> bytes:
    return text.encode("utf-16-be")


def in_order(texts: Iterable[str]) -> list[str]:
    return sorted(set(texts), key=by_unit)


def check(*arrays: pa.Array) -> None:
    tables = [array.to_pylist() for array in arrays]
    found = rank_tables(arrays, np.int32(-7))
    assert found is not None
    union, luts = found
    distinct = in_order(text for texts in tables for text in texts if text is not None)
    number = {text: rank for rank, text in enumerate(distinct)}
    assert [lut.tolist() for lut in luts] == [[number.get(text, -7) for text in [*texts, None]] for texts in tables]
    assert union.to_pylist() == distinct and union.type == pa.string()
    union.validate(full=True)
    assert texts_ordered(union) is True


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(TEXTS, st.booleans(), st.data())
def test_any_texts(texts: list[str | None], wide: bool, data: st.DataObject) -> None:
    array = pa.array(texts, pa.large_string() if wide else pa.string())
    low = data.draw(st.integers(0, len(texts)))
    check(array.slice(0, low), array.slice(low, data.draw(st.integers(0, len(texts) - low))))


@pytest.mark.slow
@pytest.mark.parametrize("count", [25, 1024, 1025, 6000])
def test_many_texts_with_long_common_beginnings(count: int) -> None:
    """Each way of sorting: few, some, many; groups within groups."""
    chance = random.Random(count)
    heads = ["", "a" * 8, "a" * 40, "a" * 39 + "b", "é" * 9, "\U0001f600" * 5, "\ue000" * 5]
    texts = [chance.choice(heads) + str(chance.randrange(count)) + chance.choice(ODD) for _ in range(count)]
    check(pa.array(texts))


@pytest.mark.slow
@pytest.mark.parametrize("head", ["", "the same beginning", "a\0", "\ue000\U00010000"])
def test_more_texts_than_the_cache_holds(head: str) -> None:
    """They are distributed first, by bits behind what they have in common."""
    chance = np.random.default_rng(7)
    numbers = chance.integers(0, 1 << 40, (1 << 16) + 5000) >> chance.integers(0, 40, (1 << 16) + 5000)
    check(pa.array([f"{head}{number:x}" for number in numbers.tolist()]))


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1, 2, 40_000, -2, -1])
def test_one_text_of_many_differs_in_an_earlier_bit(place: int) -> None:
    """Wherever it stands, it says where the distribution begins."""
    texts = [f"{'pqrs'[number % 4]}{number * 7919 % 100_003:06d}" for number in range((1 << 16) + 300)]
    texts[place] = "A123456"
    check(pa.array(texts))


@pytest.mark.slow
@pytest.mark.parametrize("heads", ["0000 0001 7f7f fffb fffc ffff", "fffb ffff"])
def test_the_first_and_the_last_part_of_a_distribution_are_sorted(heads: str) -> None:
    """Bytes that no UTF-8 has: its texts cannot be in the last part."""
    chance = random.Random(4)
    begins = [bytes.fromhex(head) for head in heads.split()]
    texts = [chance.choice(begins) + b"%06d" % chance.randrange(10**6) for _ in range((1 << 16) + 300)]
    texts[0] = b"\0"
    found = rank_tables([pa.array(texts, pa.binary())], np.int32(-7))
    assert found is not None
    distinct = sorted(set(texts))
    number = {text: rank for rank, text in enumerate(distinct)}
    assert found[0].view(pa.binary()).to_pylist() == distinct
    assert found[1][0].tolist() == [*(number[text] for text in texts), -7]


@pytest.mark.slow
def test_many_texts_of_one_kind() -> None:
    check(pa.array(["only this one"] * (1 << 17)))
    check(pa.array(["", "only these"] * (1 << 16)))


def test_picked_texts_that_are_longer_than_others() -> None:
    """The first guess of their bytes is too small."""
    array = pa.array(["x" * 1000, *[""] * 100, "é" * 70])
    for picks in ([0] * 50, [101, 0, 5, 0], []):
        found = take_texts(array, np.array(picks, np.uint32))
        assert found is not None and found.to_pylist() == [array[pick].as_py() for pick in picks]


def test_groups_that_lose_one_text_each_time_do_not_nest() -> None:
    check(pa.array(["a" * (8 * length) for length in range(1500)][::-1]))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_order_of_neighbours(texts: list[str | None]) -> None:
    given = [text for text in texts if text is not None]
    assert texts_ordered(pa.array(given, pa.string())) == (given == in_order(given))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(TEXTS, max_size=4))
def test_tables_are_ranked(tables: list[list[str | None]]) -> None:
    arrays = [pa.array(texts, pa.string()) for texts in tables]
    union, luts = ranked_symbols(arrays)
    assert union.to_pylist() == in_order(text for texts in tables for text in texts if text is not None)
    assert [lut.tolist() for lut in luts] == [rank_lut(array, union).tolist() for array in arrays]


def test_nothing_is_read_or_written_behind_the_end() -> None:
    for sizes in ([1], [3, 5], [8, 8, 8], [20, 9, 1, 17], [0, 0, 7]):
        with ExitStack() as opened:
            ends = opened.enter_context(guarded(np.cumsum([0, *sizes]).astype(np.int32)))
            data = opened.enter_context(guarded(np.full(sum(sizes), 98, np.uint8)))
            buffers = [pa.foreign_buffer(each.ctypes.data, each.nbytes) for each in (ends, data)]
            check(pa.StringArray.from_buffers(len(sizes), *buffers))


def test_damaged_offsets_and_picks_are_refused() -> None:
    for ends in ([0, 9, 6], [0, -1, 2], [3, 1, 6]):
        array = pa.StringArray.from_buffers(2, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(b"abcdef"))
        for work in (
            lambda texts: rank_tables([texts], np.int32(0)),
            texts_ordered,
            lambda texts: take_texts(texts, np.array([0, 1])),
        ):
            with pytest.raises(ValueError, match="outside of its data"):
                work(array)
    behind = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 9, 6], np.int32)), pa.py_buffer(b"abcdef"))
    with pytest.raises(ValueError, match="outside of its data"):
        take_texts(behind, np.array([0]))
    with pytest.raises(ValueError, match="fewer texts"):
        take_texts(pa.array(["a"]), np.array([1]))
    with pytest.raises(ValueError, match="fewer texts"):  # also where another text follows in memory
        take_texts(pa.array(["a", "b", "c"]).slice(0, 1), np.array([1]))
