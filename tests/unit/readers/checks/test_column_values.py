"""`verify --deep` finds false statistics and rows outside of their group wherever the blocks end in which it reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.readers.checks.column_values import SeenValues, _Groups, parts_of
from sparkhaven.store.format.index.grouping import GroupRanges
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.writers.append.column_files import range_stats

NAN = math.nan
VALUES: dict[str, pa.Array] = {
    "numbers": pa.array([5, None, -3, 9, 9, None, 4], pa.int32()),
    "doubles": pa.array([1.5, NAN, None, -0.5, NAN, 7.25, None]),
    "only NaN": pa.array([NAN, NAN]),
    "only null": pa.nulls(3, pa.int64()),
    "texts": pa.array(["b", None, "", "z\U0001f600", "a"]),
    "symbols": pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 2], pa.int32()), pa.array(["k", "unused", "c"])),
    "instants": pa.array([7, None, 3], pa.timestamp("ns", "UTC")),
    "Booleans": pa.array([True, None, True]),
}
ABOVE = {"numbers": 1, "doubles": 0.25, "texts": "c", "symbols": "d", "instants": 1}


def seen(values: pa.Array, stats: RangeStats, step: int) -> tuple[str, str] | None:
    found = SeenValues(stats)
    for first in range(0, len(values), step):
        found.add(values.slice(first, step))
    return found.wrong()


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("name", VALUES)
def test_true_statistics_and_false_ones(name: str, step: int) -> None:
    values = VALUES[name]
    stats = range_stats(values, 0)
    assert seen(values, stats, step) is None
    assert seen(values, replace(stats, nulls=stats.nulls + 1), step) is not None
    assert seen(values, replace(stats, stop=stats.stop + 1), step) is not None
    if pa.types.is_floating(values.type):
        assert seen(values, replace(stats, nans=stats.nans + 1), step) is not None
    if name in ABOVE:
        low: Any = ABOVE[name] if isinstance(ABOVE[name], str) else stats.low + ABOVE[name]  # type: ignore[operator]
        high: Any = "b" if isinstance(ABOVE[name], str) else stats.high - ABOVE[name]  # type: ignore[operator]
        assert seen(values, replace(stats, low=low), step) is not None
        assert seen(values, replace(stats, high=high), step) is not None
        assert seen(values, replace(stats, low=None, high=None), step) is None
        assert seen(values, replace(stats, low=stats.low, high=None), step) is None


def test_rows_between_statistics_are_read_too() -> None:
    one, other = RangeStats(4, 6, 0), RangeStats(8, 20, 0)
    assert list(parts_of([other, one], 12)) == [(0, 4, None), (4, 6, one), (6, 8, None), (8, 12, other)]
    assert list(parts_of([], 3)) == [(0, 3, None)]
    assert list(parts_of([one], 9)) == [(0, 4, None), (4, 6, one), (6, 9, None)]
    assert list(parts_of([], 0)) == []
    wide = RangeStats(0, 7, 0)
    assert list(parts_of([wide, one], 9)) == [(0, 7, wide), (4, 6, one), (7, 9, None)]


def grouped(kind: str, runs: Sequence[tuple[Any, int]]) -> tuple[Column, GroupRanges, list[Any]]:
    stops = np.cumsum([count for _, count in runs])
    text = Storage.SYMBOL if kind == "String" else Storage.FIXED
    column = Column("C", BY_NAME[kind], Kind.GROUPING, text, 1, "UTF_8" if kind == "String" else None)
    ranges = GroupRanges([key for key, _ in runs], np.append(0, stops[:-1]), stops, column.type)
    return column, ranges, [key for key, count in runs for _ in range(count)]


def bad_rows(column: Column, ranges: GroupRanges, values: pa.Array, step: int) -> list[str | None]:
    groups = _Groups(ranges, column, Path("C.dat"))
    return [each.at for first in range(0, len(values), step) for each in groups.add(values.slice(first, step))]


@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize(
    ("kind", "runs", "other"),
    [
        ("String", [("a", 3), (None, 2), ("b", 1), ("c", 4)], "x"),
        ("int", [(None, 2), (5, 3), (7, 5)], 6),
        ("double", [(-0.0, 1), (0.0, 3), (NAN, 4)], 0.5),
        ("Instant", [(10, 4), (20, 4)], 15),
    ],
)
def test_the_first_row_outside_of_its_group(kind: str, runs: list[tuple[Any, int]], other: Any, step: int) -> None:
    column, ranges, rows = grouped(kind, runs)

    def array(values: list[Any]) -> pa.Array:
        found = pa.array(values, column.type.arrow)
        return found.dictionary_encode() if kind == "String" else found

    assert bad_rows(column, ranges, array(rows), step) == []
    for row in range(len(rows)):
        for wrong in (other, None):
            if rows[row] is not None or wrong is not None:
                changed = array([*rows[:row], wrong, *rows[row + 1 :]])
                assert bad_rows(column, ranges, changed, step) == [f"row {row}"]
