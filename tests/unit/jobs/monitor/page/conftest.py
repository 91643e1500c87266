"""The table of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables.small_tables import SmallTable


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Two sources on three dates; the first date is merged."""
    made = SmallTable(tmp_path / "db")
    made.now = 1_800_082_800.0  # an hour before the facts are collected
    for number, date in enumerate(("2026-01-01", "2026-01-02", "2026-01-03")):
        for source in ("a", "b"):
            made.add(source, date, {"Sym": ["x", "y"][: number + 1], "Size": [1, 2][: number + 1]})
    made.merge_by_hand("2026-01-01", 1)
    return made
