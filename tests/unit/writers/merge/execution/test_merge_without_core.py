"""Merges with the compiled core and without it write the same files, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.native import library
from sparkhaven.store.native.library import core
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.block_sizes import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from tests.support.writers.merge_runs import history_bytes, make, merge

SORT = (SortKey("Venue"), SortKey("D", True), SortKey("Note"))
WAYS: dict[str, dict[str, Any]] = {
    "whole": {"pieces": 1},
    "by columns": {"pieces": 2, "by_columns": True},
    "in pieces": {"pieces": 5},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_same_bytes_with_the_core_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    pieces, by_columns = WAYS[way]["pieces"], WAYS[way].get("by_columns", False)
    monkeypatch.setattr(MergePlan, "ranges", lambda _: pieces)
    monkeypatch.setattr(MergePlan, "by_columns", lambda _: by_columns)
    found = []
    for switch, room in (("1", 3), ("0", 1 << 20)):  # with the core, texts find no room at first
        monkeypatch.setenv(library.SWITCH, switch)
        sizes = BlockSizes(rows=64, chunk_rows=50, chunk_bytes=room)
        core.cache_clear()
        assert (core() is None) == (switch == "0")
        db, _ = make(tmp_path / switch, 300, seed=6)
        (result,) = merge(db.layout, sort=SORT, workers=2, parallel_rows=1, sizes=sizes)
        assert result.pieces == pieces
        found.append(history_bytes(db.layout))
    core.cache_clear()
    assert len(found[0]) > 30 and found[0] == found[1]
