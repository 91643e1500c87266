"""A day larger than a worker's memory is cut into pieces and stays below the limit, measured in child processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.parts.merge_memory import make, run_child

ROWS = 500_000  # a twentieth of the day in benchmarks/parts/merge_memory.py
LIMIT = (1 << 30) // 20  # a twentieth of its limit
SMALL = 64 << 20  # bytes that the merge may use: an eighth of it for rows


@pytest.mark.slow
def test_peak_memory_over_that_of_a_tiny_day_stays_below_the_limit(tmp_path: Path) -> None:
    make(tmp_path / "tiny", 4000)
    make(tmp_path / "large", ROWS)
    tiny = run_child(tmp_path / "tiny", SMALL, 1)
    large = run_child(tmp_path / "large", SMALL, 1)
    assert (large["rows"], tiny["pieces"]) == (ROWS, 1)
    assert large["pieces"] >= 4
    taken = large["driver"] - tiny["driver"]
    assert taken < LIMIT, f"{taken / (1 << 20):.0f} MiB over the {tiny['driver'] / (1 << 20):.0f} of a tiny day"
