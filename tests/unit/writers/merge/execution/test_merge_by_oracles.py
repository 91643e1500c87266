"""Merges write the same files, byte for byte, with the compiled core and with what property tests compare it with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from sparkhaven.store.native import checked_columns, file_moves, files, rows
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from tests.oracles import columns
from tests.support.writers.merge_runs import history_bytes, make, merge

SORT = (SortKey("Venue"), SortKey("D", True), SortKey("Note"))
WAYS: dict[str, dict[str, Any]] = {
    "whole": {"pieces": 1},
    "by columns": {"pieces": 2, "by_columns": True},
    "in pieces": {"pieces": 5},
}
INSTEAD: dict[Any, Callable[..., Any]] = {
    checked_columns.check_ids: columns.plain_check_ids,
    checked_columns.count_nulls: columns.plain_count_nulls,
    checked_columns.valid_bits: columns.plain_valid_bits,
    file_moves.place_files: lambda *_: None,  # in doubt: each source is read by itself
    rows.count_ids: columns.plain_count_ids,
    rows.gather: columns.plain_gather,
    rows.gather_ids: columns.plain_gather_ids,
    rows.move: columns.plain_move,
    rows.plan_moves: columns.plain_plan_moves,
    rows.numbered_pieces: columns.plain_numbered_pieces,
    rows.parted: columns.plain_parted,
    rows.sorted_rows: lambda keys: np.lexsort(keys[::-1]).astype(np.uint32),
    files.read_files: columns.plain_read_files,
}


def take_oracles(monkeypatch: pytest.MonkeyPatch) -> set[object]:
    """Has every module of ours call the oracles; the functions that somebody calls."""
    found: set[object] = set()
    for name, module in list(sys.modules.items()):
        for member, value in list(vars(module).items()) if name.startswith("sparkhaven.") else []:
            if isinstance(value, FunctionType) and value in INSTEAD:
                monkeypatch.setattr(module, member, INSTEAD[value])
                found.add(value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_same_bytes_by_the_core_and_by_oracles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    pieces, by_columns = WAYS[way]["pieces"], WAYS[way].get("by_columns", False)
    monkeypatch.setattr(MergePlan, "ranges", lambda _: pieces)
    monkeypatch.setattr(MergePlan, "by_columns", lambda _: by_columns)
    found = []
    for name, room in (("core", 3), ("oracles", 1 << 20)):  # with the core, texts find no room at first
        if name == "oracles":
            assert take_oracles(monkeypatch) == set(INSTEAD)
        db, _ = make(tmp_path / name, 300, seed=6)
        sizes = BlockSizes(rows=64, chunk_rows=50, chunk_bytes=room)
        (result,) = merge(db.layout, sort=SORT, workers=2, parallel_rows=1, sizes=sizes)
        assert result.pieces == pieces
        found.append(history_bytes(db.layout))
    assert len(found[0]) > 30 and found[0] == found[1]
