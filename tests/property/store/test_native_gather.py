"""Entries in another order come out the same with the compiled core and without it, and no byte is out of place."""

from __future__ import annotations

import numpy as np
import pytest

from sparkhaven.store.native.rows import count_ids, gather, gather_ids
from tests.oracles.columns import plain_count_ids, plain_gather, plain_gather_ids
from tests.support.guard_pages import guarded

KINDS = ["i1", "i2", "i4", "i8", "f4", "f8", "u2"]


@pytest.mark.parametrize("kind", KINDS)
def test_entries_in_any_order(kind: str) -> None:
    chance = np.random.default_rng(4)
    for size, count in ((1, 5), (7, 0), (1000, 3000)):
        entries = chance.integers(0, 127, size).astype(kind)
        order = chance.integers(0, size, count).astype(np.uint32)
        one, other = np.empty(count, kind), np.empty(count, kind)
        with guarded(entries) as held, guarded(order) as rows, guarded(one) as out:
            gather(held, rows, out)
            plain_gather(entries, order, other)
            assert out.tolist() == other.tolist() == entries[order].tolist()


def test_ids_are_looked_up_and_the_null_finds_the_last_entry() -> None:
    chance = np.random.default_rng(5)
    null = -(2**31)
    table = np.array([*chance.permutation(50), null], np.int32)
    ids = np.where(chance.random(400) < 0.2, null, chance.integers(0, 50, 400)).astype(np.int32)
    order = chance.permutation(400).astype(np.uint32)
    one, other = np.empty(400, np.int32), np.empty(400, np.int32)
    with guarded(ids) as held, guarded(table) as lut, guarded(one) as out:
        gather_ids(held, order, lut, out)
        plain_gather_ids(ids, order, table, other)
        wanted = [null if number == null else int(table[number]) for number in ids[order].tolist()]
        assert out.tolist() == other.tolist() == wanted


@pytest.mark.parametrize("ways", [(gather, gather_ids), (plain_gather, plain_gather_ids)])
def test_an_index_out_of_range_is_refused(ways: tuple[object, object]) -> None:
    ids, order, out = np.zeros(3, np.int32), np.array([0, 3], np.uint32), np.empty(2, np.int32)
    with pytest.raises(IndexError):
        ways[0](ids, order, out)  # type: ignore[operator]
    with pytest.raises(IndexError):
        ways[1](ids, order, np.zeros(1, np.int32), out)  # type: ignore[operator]


@pytest.mark.parametrize("kinds", [1, 7, 300])
def test_ids_are_counted_and_the_last_entry_counts_the_null(kinds: int) -> None:
    chance, null = np.random.default_rng(6), -(2**31)
    for size in (0, 1, 1000):
        ids = np.where(chance.random(size) < 0.2, null, chance.integers(0, kinds, size)).astype(np.int32)
        before = chance.integers(0, 9, kinds + 1)
        wanted = before.tolist()
        for number in ids.tolist():
            wanted[kinds if number == null else number] += 1
        other = before.copy()
        with guarded(ids) as held, guarded(before.copy()) as counts:
            count_ids(held, counts)
            plain_count_ids(ids, other, 64)
            assert counts.tolist() == other.tolist() == wanted


def test_without_a_count_for_null_nothing_is_counted() -> None:
    with pytest.raises(ValueError, match="no count for null"):
        count_ids(np.zeros(3, np.int32), np.zeros(0, np.int64))
