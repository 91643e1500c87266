"""Merges with the compiled core and without it write the same files, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.native import library
from sparkhaven.store.native.library import core
from sparkhaven.writers.merge.plan import merge_source
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.sort_keys import SortKey
from sparkhaven.writers.merge.write import column_writes, location_check
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
    for module, name, value in (
        (merge_source, "BLOCK_ROWS", 64),
        (location_check, "BLOCK_ROWS", 64),
        (column_writes, "CHUNK_ROWS", 50),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(MergePlan, "ranges", lambda _: pieces)
    monkeypatch.setattr(MergePlan, "by_columns", lambda _: by_columns)
    found = []
    for switch, room in (("1", 3), ("0", 1 << 20)):  # with the core, texts find no room at first
        monkeypatch.setenv(library.SWITCH, switch)
        monkeypatch.setattr(column_writes, "CHUNK_BYTES", room)
        core.cache_clear()
        assert (core() is None) == (switch == "0")
        db, _ = make(tmp_path / switch, 300, seed=6)
        (result,) = merge(db.layout, sort=SORT, workers=2, parallel_rows=1)
        assert result.pieces == pieces
        found.append(history_bytes(db.layout))
    core.cache_clear()
    assert len(found[0]) > 30 and found[0] == found[1]
