"""Rows that are put in order by moves are those that are taken one after the other."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.layout import Layout
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.merge.write.row_order import OutputOrder
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, random_row
from tests.support.writers.merge_runs import FS, history_bytes, merge

SORT = (SortKey("D", True), SortKey("Venue"))
MOVED = replace(SIZES, moved_rows=1)


def make(root: Path, partitions: int) -> Layout:
    rng = random.Random(9)
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({(f"s{n}", DAY): as_table([random_row(rng) for _ in range(150 + n)]) for n in range(3)})
    for name in range(partitions):
        add_partition(FS, db.layout, "Test", str(name))
    return db.layout


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each column was moved."""
    found: list[bool] = []
    put = OutputOrder.put

    def noted(self: OutputOrder, entries: Any) -> Any:
        ordered = put(self, entries)
        found.append(ordered is not None)
        return ordered

    monkeypatch.setattr(OutputOrder, "put", noted)
    return found


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "parallel_rows": 10}])
def test_moved_rows_are_the_same(tmp_path: Path, moved: list[bool], partitions: int, options: dict[str, int]) -> None:
    one, other = make(tmp_path / "one", partitions), make(tmp_path / "other", partitions)
    merge(one, sort=SORT, **options)
    assert moved
    assert not any(moved)
    moved.clear()
    merge(other, sort=SORT, sizes=MOVED, **options)
    assert all(moved)
    assert history_bytes(one) == history_bytes(other)


def test_without_memory_for_moves_there_are_none(
    tmp_path: Path, moved: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = make(tmp_path / "one", 1), make(tmp_path / "other", 1)
    merge(one, sort=SORT)
    monkeypatch.setattr(MergePlan, "usable", lambda plan: plan.rows * plan.row_cost())
    merge(other, sort=SORT, sizes=MOVED)
    assert not any(moved)
    assert history_bytes(one) == history_bytes(other)
