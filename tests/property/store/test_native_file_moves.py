"""Entries that come to their places from files: as from memory, and what else is known of them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.digests import FixedEntries, fixed_sum
from sparkhaven.store.native.file_moves import FileRegion, RankedIds, is_possible, place_files
from sparkhaven.store.native.rows import SHIFT, WINDOW, plan_moves, windows_of
from tests.oracles.columns import plain_count_ids
from tests.support.guard_pages import guarded

PREFIX, NULL_ID = b"\x07\0\0\0\x06", -(2**31)
SIZES = [(1,), (0, 5), (700, 0, 5000), (100, 100, 100, 3000), (4096,) * 3, (90_000, 70_001, 300), (255,) * 20]


def written(directory: Path, entries: Any, sizes: Sequence[int]) -> list[FileRegion | None]:
    regions: list[FileRegion | None] = []
    for number, part in enumerate(np.split(entries, np.cumsum(sizes)[:-1])):
        path = directory / str(number)
        path.write_bytes(b"x" * number + part.tobytes())
        regions.append(FileRegion(path, number) if len(part) else None)
    return regions


def moves_of(chance: np.random.Generator, sizes: Sequence[int]) -> tuple[Any, list[Any]]:
    order = chance.permutation(sum(sizes)).astype(np.uint32)
    cut = len(order) // 3
    return order, [plan_moves(part, windows_of(sizes)) for part in (order[:cut], order[cut:])]


def crcs_of(regions: Sequence[FileRegion | None]) -> list[int]:
    return [0 if region is None else zlib.crc32(region.path.read_bytes()[region.offset :]) for region in regions]


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "f8"])
@pytest.mark.parametrize("sizes", SIZES)
def test_entries_are_those_of_the_order_digested_and_summed(tmp_path: Path, kind: str, sizes: tuple[int, ...]) -> None:
    chance, dtype = np.random.default_rng(3), np.dtype(kind)
    entries = chance.integers(0, 256, sum(sizes) * dtype.itemsize, np.uint8).view(dtype)
    regions, (order, moves) = written(tmp_path, entries, sizes), moves_of(chance, sizes)
    with guarded(np.empty(sum(sizes), dtype)) as out:
        placed = place_files(Fs(), regions, sizes, moves, FixedEntries(PREFIX, 3, dtype, False), out)
        assert out.tobytes() == entries[order].tobytes()
    assert placed is not None
    assert placed.sum == fixed_sum(PREFIX, entries, 3, boolean=False)
    assert placed.crcs == crcs_of(regions)


@pytest.mark.parametrize("sizes", SIZES)
def test_ranks_come_to_the_place_of_ids(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    chance = np.random.default_rng(4)
    ids = chance.integers(0, 50, sum(sizes)).astype(np.int32)
    ids[::7] = NULL_ID
    regions, (order, moves) = written(tmp_path, ids, sizes), moves_of(chance, sizes)
    tables = [np.append(chance.permutation(60)[:50], NULL_ID).astype(np.int32) for _ in sizes]
    parts = zip(tables, np.split(ids, np.cumsum(sizes)[:-1]), strict=True)
    ranks = np.concatenate([table[np.where(part < 0, 50, part)] for table, part in parts])
    counts, wanted, out = np.zeros(61, np.int64), np.zeros(61, np.int64), np.empty(sum(sizes), np.int32)
    placed = place_files(Fs(), regions, sizes, moves, RankedIds(tables, counts), out)
    plain_count_ids(ranks, wanted)
    assert placed is not None
    assert (out.tolist(), counts.tolist()) == (ranks[order].tolist(), wanted.tolist())
    assert placed.crcs == crcs_of(regions)


@pytest.mark.parametrize("wrong", [50, -1, 2**31 - 1])
def test_an_id_in_no_table_is_in_doubt(tmp_path: Path, wrong: int) -> None:
    ids = np.array([0, 49, wrong], np.int32)
    regions, (_, moves) = written(tmp_path, ids, [3]), moves_of(np.random.default_rng(1), [3])
    ranked = RankedIds([np.zeros(51, np.int32)], np.zeros(2, np.int64))
    assert place_files(Fs(), regions, [3], moves, ranked, np.empty(3, np.int32)) is None


def test_files_that_are_missing_or_shorter_are_in_doubt(tmp_path: Path) -> None:
    sizes, entries = [900, 900], np.arange(1800)
    regions, (_, moves) = written(tmp_path, entries, sizes), moves_of(np.random.default_rng(1), sizes)
    fixed, out = FixedEntries(PREFIX, 3, entries.dtype, False), np.empty_like(entries)
    assert place_files(Fs(), regions, sizes, moves, fixed, out) is not None
    (tmp_path / "1").write_bytes((tmp_path / "1").read_bytes()[:-1])
    assert place_files(Fs(), regions, sizes, moves, fixed, out) is None
    (tmp_path / "1").unlink()
    assert place_files(Fs(), regions, sizes, moves, fixed, out) is None


def test_so_many_sources_that_a_window_is_full_are_not_read_so() -> None:
    most = WINDOW >> SHIFT
    assert is_possible([300] * most)
    assert not is_possible([300] * (most + 1))
