"""Arrow's functions that are called by name give what the functions of ``pyarrow.compute`` give."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as real
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.lazy_compute import BY_NAME, null_mask, pc, positions

TEXTS = st.lists(st.none() | st.text(max_size=3), max_size=8)
FLOATS = st.lists(st.none() | st.floats(), max_size=8)
LITTLE = """import sys
from sparkhaven.jobs.cli.startup.forgone_imports import forgo_pandas
import pyarrow as pa
forgo_pandas()
from sparkhaven.store.format.column.charset import encode_values
from sparkhaven.store.format.column.fixed import encode_fixed
from sparkhaven.store.format.column.symbols import assign_numbers
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.lazy_compute import pc, positions
from sparkhaven.writers.append.column_values import range_stats
assert assign_numbers(pa.array(["b", None, "a", "b"]), {"a": 0})[1] == ["b"]
assert bytes(encode_fixed(pa.array([None, 2], pa.int16()), data_type("short"))) == b"\\x00\\x80\\x02\\x00"
assert bytes(encode_values(pa.array([None, "b"]), "UTF_8", str)[1]) == b"b"
stats = range_stats(pa.array(["b", None, "a"]).slice(0), 0)
assert (stats.nulls, stats.low, stats.high) == (1, "a", "b"), stats
stats = range_stats(pa.array([1000, 3000], pa.timestamp("ns", "UTC")), 5)
assert (stats.start, stats.nulls, stats.low, stats.high, stats.exact_us) == (5, 0, 1000, 3000, True), stats
print(sorted({"pyarrow._compute", "pyarrow.compute", "numpy.ma"} & set(sys.modules)))
"""


def _same(name: str, *arguments: Any) -> None:
    expected, found = getattr(real, name)(*arguments), getattr(pc, name)(*arguments)
    assert type(found) is type(expected)
    assert str(found) == str(expected), name  # NaN is not equal to itself


@given(TEXTS, FLOATS)
def test_each_is_as_in_the_module(texts: list[str | None], floats: list[float | None]) -> None:
    for array in (pa.array(texts, pa.string()), pa.array(floats, pa.float64())):
        for name in BY_NAME - {"filter", "take", "is_nan", "sum", "invert"}:
            _same(name, array)
        _same("take", array, pa.array(range(len(array))[::-1], pa.int32()))
        mask = pa.array([None if index % 3 == 2 else index % 3 == 0 for index in range(len(array))], pa.bool_())
        _same("filter", array, mask)
        _same("invert", mask)
        filling = "x" if array.type == pa.string() else 0
        for value in (filling, pa.scalar(filling), pa.array([filling] * len(array), array.type)):
            _same("fill_null", array, value)
        _same("fill_null", pa.chunked_array([array, array]), filling)
    _same("is_nan", array)
    _same("sum", array)
    _same("sum", real.is_nan(array))


def test_others_come_from_the_module() -> None:
    assert pc.starts_with is real.starts_with


@pytest.mark.parametrize("kind", ["i1", "u2", "i4", "u4", "i8"])
def test_positions(kind: str) -> None:
    assert positions(np.arange(12, dtype=kind)[::3]).equals(pa.array(np.arange(12, dtype=kind)[::3]))


@given(TEXTS, st.integers(0, 9), st.integers(0, 20))
def test_nulls_of_parts_of_arrays(texts: list[str | None], first: int, rows: int) -> None:
    whole = pa.array(texts * 3, pa.string())
    for array in (
        whole,
        whole.dictionary_encode(),
        pa.array([None if text is None else len(text) for text in texts * 3], pa.int16()),
    ):
        part = array.slice(first, rows)
        assert null_mask(part).tolist() == [value is None for value in part.to_pylist()]
    assert null_mask(pa.nulls(rows)).tolist() == [True] * rows


@pytest.mark.slow
def test_few_rows_are_written_without_the_module() -> None:
    done = subprocess.run([sys.executable, "-c", LITTLE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "their imports take longer than the rows of a log"
