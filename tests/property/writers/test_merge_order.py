"""The sorting words of a merge against Python's own sort, and formulas against the naive distribution."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.native.rows import at_or_after, sorted_rows
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.writers.merge.sources.sort_keys import (
    INT_NULL,
    from_ordinals,
    look_up,
    ordinals,
    rank_lut,
    rank_ordinals,
    sorted_symbols,
)
from tests.support.guard_pages import guarded
from tests.support.writers.merge_cases import naive_key

FIXED = ["Boolean", "byte", "char", "short", "int", "long", "float", "double", "Instant"]


def values_of(name: str) -> st.SearchStrategy[Any]:
    if name == "Boolean":
        return st.booleans()
    if name in ("float", "double"):
        return st.floats(width=32 if name == "float" else 64).filter(lambda x: math.isnan(x) or x != BY_NAME[name].null)
    width = np.dtype(BY_NAME[name].numpy).itemsize * 8
    if name == "char":
        return st.integers(0, 0xFFFE)
    return st.integers(-(2 ** (width - 1)) + 1, 2 ** (width - 1) - 1)


def raw_of(name: str, values: list[Any]) -> np.ndarray[Any, Any]:
    kind = BY_NAME[name]
    return np.array([kind.null if v is None else v for v in values], kind.numpy)


@pytest.mark.slow
@pytest.mark.parametrize("name", FIXED)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), descending=st.booleans())
def test_words_order_as_values_do(name: str, data: st.DataObject, descending: bool) -> None:
    values = data.draw(st.lists(st.none() | values_of(name), min_size=1, max_size=30))
    words = ordinals(raw_of(name, values), BY_NAME[name], descending=descending)
    found = [values[i] for i in sorted_rows([words]).tolist()]
    expected = sorted(values, key=naive_key, reverse=descending)
    assert [naive_key(v) for v in found] == [naive_key(v) for v in expected]
    order = sorted(range(len(values)), key=lambda i: naive_key(values[i]), reverse=descending)
    assert sorted_rows([words]).tolist() == order  # ties stay as they came, both ways


@pytest.mark.slow
@pytest.mark.parametrize("name", FIXED)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_words_give_their_entries_back(name: str, data: st.DataObject) -> None:
    raw = raw_of(name, data.draw(st.lists(st.none() | values_of(name), max_size=20)))
    found = from_ordinals(ordinals(raw, BY_NAME[name]), BY_NAME[name])
    assert found.dtype == raw.dtype
    same = found.tobytes() == raw.tobytes()
    assert same or np.array_equal(np.isnan(found), np.isnan(raw))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=4) | st.sampled_from(["\uffff", "\U0001f600", "\ue000", "\U00010000"]), max_size=30))
def test_symbols_come_out_by_utf16_unit(texts: list[str]) -> None:
    half = len(texts) // 2
    union = sorted_symbols([pa.array(texts[:half], pa.string()), pa.array([*texts[half:], None], pa.string())])
    assert union.to_pylist() == sorted(set(texts), key=lambda s: s.encode("utf-16-be"))
    local = pa.array([*texts[::-1], None], pa.string())
    lut = rank_lut(local, union)
    ids = np.array([*range(len(local)), INT_NULL], np.int32)
    ranks = look_up(lut, ids)
    back = [None if r == INT_NULL else union[int(r)].as_py() for r in ranks]
    assert back == [*local.to_pylist(), None]
    words = rank_ordinals(ranks)
    order = sorted_rows([words]).tolist()
    assert [naive_key(back[i]) for i in order] == sorted(naive_key(v) for v in back)


_KEYS = ["u1", "u2", "u4", "u8"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_argsort_is_numpys_lexsort(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 40))
    keys: list[np.ndarray[Any, Any]] = []
    for kind in data.draw(st.lists(st.sampled_from(_KEYS), min_size=1, max_size=4)):
        top = data.draw(st.sampled_from([1, 3, 2 ** (8 * np.dtype(kind).itemsize) - 1]))
        keys.append(np.array(data.draw(st.lists(st.integers(0, top), min_size=rows, max_size=rows)), kind))
    assert sorted_rows(keys).tolist() == np.lexsort(keys[::-1]).tolist()


@pytest.mark.campaign
@pytest.mark.parametrize("tied", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("spread", [1, 40, 2**20])
@pytest.mark.parametrize("later", [[], ["u1"], ["u8", "u2"]])
def test_argsort_of_keys_that_one_word_does_not_hold(tied: float, spread: int, later: list[str]) -> None:
    """None, few, many and all rows have equal first bits; what they differ in is far below, or in later keys."""
    rng, rows = np.random.default_rng(3), 20_000
    groups = rng.integers(0, 50, rows).astype(np.uint32)
    times = rng.integers(0, 2**62, rows).astype(np.uint64)
    times[rng.random(rows) < tied] = 7 << 40
    times += rng.integers(0, spread, rows).astype(np.uint64)
    keys: list[np.ndarray[Any, Any]] = [groups, times]
    keys += [rng.integers(0, 2 ** (8 * np.dtype(kind).itemsize) - 1, rows, kind) for kind in later]
    assert np.array_equal(sorted_rows(keys), np.lexsort(keys[::-1]))


@pytest.mark.campaign
@pytest.mark.parametrize("bits", [1, 15, 16, 17, 52, 53, 54, 63, 64])
@pytest.mark.parametrize("rows", [2, 300, 2047, 2048, 2049, 40_000])  # numbered by 1, 9, 11, 11, 12 and 16 bits
def test_argsort_of_keys_of_so_many_bits(bits: int, rows: int) -> None:
    rng = np.random.default_rng(bits)
    words = rng.integers(0, 2**bits - 1, rows, np.uint64, endpoint=True)
    words[:2] = 2**bits - 1, 0
    half = np.uint64(bits // 2)
    for keys in ([words], [words >> half, words & ((np.uint64(1) << half) - np.uint64(1))]):
        assert np.array_equal(sorted_rows(keys), np.argsort(words, kind="stable"))


@pytest.mark.parametrize("sources", [1, 2, 5, 40, 3000])
@pytest.mark.parametrize("groups", [1, 30, 2**20])
@pytest.mark.parametrize("kind", ["u2", "u8"])
def test_rows_of_sources_that_are_in_order_themselves(sources: int, groups: int, kind: str) -> None:
    """Stretches that ascend, with equal words across them, and a word that falls in the middle of one."""
    rng, rows = np.random.default_rng(sources), 12_000
    parts = np.array_split(
        rng.integers(0, min(2 ** (8 * np.dtype(kind).itemsize), 2**40) - 1, rows, np.uint64), sources
    )
    times = np.concatenate([np.sort(part) for part in parts]).astype(kind)
    times[::1000] = times[0]
    keys = [rng.integers(0, groups, rows).astype(np.uint32), times]
    with guarded(keys[0]) as one, guarded(keys[1]) as other:
        assert np.array_equal(sorted_rows([one, other]), np.lexsort(keys[::-1]))


def test_keys_that_are_no_words_are_refused() -> None:
    for keys in ([np.zeros(3, np.int64)], [np.zeros(3, np.uint8), np.zeros(2, np.uint8)]):
        with pytest.raises(ValueError, match="expected unsigned words"):
            sorted_rows(keys)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
def test_bounds_compare_as_tuples(rows: list[tuple[int, int, int]], bound: list[int]) -> None:
    keys = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
    assert at_or_after(keys, tuple(bound)).tolist() == [row >= tuple(bound) for row in rows]


def test_every_nan_is_last_and_zeros_have_signs() -> None:
    negative_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    values = [math.nan, negative_nan, 0.0, -0.0, -math.inf, None, math.inf, 1.0]
    order = sorted_rows([ordinals(raw_of("double", values), BY_NAME["double"])]).tolist()
    assert order == [5, 4, 3, 2, 7, 6, 0, 1]
