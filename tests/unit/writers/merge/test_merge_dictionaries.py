"""The external merge of dictionaries: the same texts and ranks as in memory, and bytes that do not grow with them."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.parts.merge_memory import TABLE as WIDE
from benchmarks.parts.merge_memory import make as make_day
from sparkhaven.store.errors import MergeError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.merges.history import load_history
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.plan.date_plan import plan_merge
from sparkhaven.writers.merge.plan.dropped_columns import ranks_file
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.sources.merge_source import BlockSizes, ColumnSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, SortKey, rank_lut, sorted_symbols
from sparkhaven.writers.merge.write import date_survey, dictionaries, work_shares
from sparkhaven.writers.merge.write.dictionaries import SortBudget, load_texts, load_unions, store_unions
from tests.support.writers.merge_cases import DAY, STRINGS, TABLE
from tests.support.writers.merge_runs import FS, check_tree, history_bytes, make, merge

OTHER_DAY = "2024-03-05"


def planned(layout: Layout, table: object, day: str, **options: Any) -> MergePlan:
    history = load_history(TablePlace(FS, layout, table), day)
    found = plan_merge(
        TablePlace(FS, layout, table), history, MergeOptions(**options), Pins(TablePlace(FS, layout, table))
    ).plan  # type: ignore[arg-type]
    assert found is not None
    FS.mkdirs(found.work)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 30, 200, 1 << 20])
def test_runs_and_windows_of_any_size_give_what_one_table_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    rng = random.Random(size)
    alphabet = [*STRINGS, "", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "é"]
    tables = [
        [rng.choice(alphabet) + rng.choice(alphabet) + str(rng.randrange(9)) for _ in range(90)] for _ in range(3)
    ]
    arrays = [pa.array([*texts[:40], None, *texts[40:]], pa.string()) for texts in tables]  # texts come twice, too
    parts = [[(first, array[first : first + 7]) for first in range(0, len(array), 7)] for array in arrays]
    runs: list[Any] = []
    for index, each in enumerate(parts):
        step = max(1, size // 100)
        for low in range(0, len(each), step):
            path = tmp_path / f"run-{len(runs)}"
            runs.append(dictionaries._write_run(FS, path, index, each[low : low + step]))
    ranks = [np.full(len(array) + 1, INT_NULL, np.int32) for array in arrays]
    dictionaries._merge(runs, ranks, dictionaries.TextFiles(FS, tmp_path / "union", "here"), SortBudget(size))
    union = load_texts(FS, tmp_path / "union")
    union.validate(full=True)
    assert union.equals(sorted_symbols(arrays))
    for array, found in zip(arrays, ranks, strict=True):
        assert np.array_equal(found, rank_lut(array, union))


def test_the_work_files_of_a_date_hold_its_texts_and_ranks_and_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, _ = make(tmp_path, 300, partitions=1)
    plan = planned(db.layout, TABLE, DAY, sizes=BlockSizes(slice_bytes=64, symbols=3))
    held: list[int] = []
    write = dictionaries._write_run

    def noted(fs: Fs, path: Path, index: int, parts: Sequence[tuple[int, pa.Array]]) -> object:
        held.append(sum(texts.nbytes + dictionaries.ENTRY * len(texts) for _, texts in parts))
        return write(fs, path, index, parts)

    monkeypatch.setattr(dictionaries, "_write_run", noted)
    store_unions(FS, plan)
    assert max(held) < 2 * 64, "a run is sorted as soon as it fills a slice"
    found, expected = load_unions(FS, plan), date_survey.unions(FS, plan)
    assert {name: texts.to_pylist() for name, texts in found.items()} == {
        name: texts.to_pylist() for name, texts in expected.items()
    }
    for column in plan.symbol_columns:
        for index, each in enumerate(plan.sources):
            ranks = np.frombuffer(ranks_file(plan, index, column).read_bytes(), np.int32)
            assert np.array_equal(ranks, rank_lut(ColumnSource(FS, each, column).symbols(), expected[column.name]))
    assert [name for name in FS.names(plan.work) if name.startswith("run-")] == []


def test_a_small_date_whose_texts_exceed_a_slice_merges_them_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sort = (SortKey("Note"),)
    db, _ = make(tmp_path / "memory", 200)
    (within,) = merge(db.layout, sort=sort)
    other, _ = make(tmp_path / "files", 200)
    unions = date_survey.unions
    monkeypatch.setattr(work_shares, "unions", lambda *_: pytest.fail("all texts are in memory"))
    (found,) = merge(other.layout, sort=sort, sizes=BlockSizes(slice_bytes=64))
    assert (within.pieces, found.pieces, found.outcome) == (1, 1, "merged")
    assert history_bytes(other.layout) == history_bytes(db.layout)
    check_tree(other.layout)  # no work files are left
    asked: list[object] = []
    monkeypatch.setattr(work_shares, "unions", lambda fs, plan: asked.append(plan) or unions(fs, plan))
    merge(other.layout, sort=sort, rewrite=True, sizes=BlockSizes(slice_bytes=1 << 20))
    assert len(asked) == 1  # few texts are quicker in memory


@pytest.mark.slow
@pytest.mark.parametrize("split", [True, False])
def test_distinct_texts_of_a_day_take_memory_for_a_slice_not_for_all(tmp_path: Path, split: bool) -> None:
    """As ``benchmarks.parts.merge_memory --shape symbols``, smaller: every row has two texts of its own."""
    rows, size = 120_000, 1 << 20
    make_day(tmp_path, rows, "symbols")
    layout = Layout(tmp_path)
    plan = planned(layout, WIDE, OTHER_DAY, memory=1 << 20, sizes=BlockSizes(slice_bytes=size))
    texts = sum(s.files[c.files[2]].size for c in plan.symbol_columns for s in plan.sources)
    assert texts > 3 << 20
    pool, before = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work_shares.prepare(Fs(), plan, stored=split)
        taken = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    ranks = 4 * rows  # of the column that is merged
    assert (taken < ranks + 8 * size) == split


def test_more_than_arrow_can_point_into_is_reported(tmp_path: Path) -> None:
    found = dictionaries.TextFiles(FS, tmp_path / "union", "Ns.T 2024-01-01, column Sym", 10)
    found.append(pa.array([b"12345", b"678"]))
    with pytest.raises(MergeError, match=r"(?s)too large to merge.*2024-01-01, column Sym"):
        found.append(pa.array([b"9ab"]))
