"""Rounding of numbers, once and to the nearest, and what is masked as not exact."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.ingest.values.exact_values import nearest_float
from sparkhaven.store.conversions import number_arrays
from sparkhaven.store.conversions.conversion_table import Take, rule, source_of, spark_source
from sparkhaven.store.conversions.number_arrays import plain

TIES: list[Any] = [2**24 + 1, 2**24 + 3, 2**60 + 2**36 + 1, 2**60 + 2**36, 2**63 - 1, -(2**60) - 2**36 - 1]


@pytest.mark.parametrize("value", TIES)
def test_integers_are_rounded_once(value: int) -> None:
    """By way of a double 2^60 + 2^36 + 1 would become even, as if it were half way."""
    wanted = float(np.int64(value).astype(np.float32))
    assert nearest_float(value) == nearest_float(Decimal(value)) == wanted
    made, bad = number_arrays.floats(pa.array([value], pa.int64()), 32, lossy=True)
    assert made.to_pylist() == [wanted] and not bad.any()
    assert number_arrays.floats(pa.array([value], pa.int64()), 32, lossy=False)[1].tolist() == [wanted != value]
    decimals = pa.array([Decimal(value)], pa.decimal128(38, 2))
    assert number_arrays.floats(decimals, 32, lossy=True)[0].to_pylist() == [wanted]


def test_lossy_overflow_is_infinite() -> None:
    assert number_arrays.floats(pa.array([1e39, -1e39, None]), 32, lossy=True)[0].to_pylist() == [np.inf, -np.inf, None]
    assert number_arrays.floats(pa.array([1e39, 1e-50, None]), 32, lossy=False)[1].tolist() == [True, True, False]


def test_slices_and_nulls_of_plain_arrays() -> None:
    ids = pa.array([bytes([n] * 16) if n % 3 else None for n in range(20)], pa.uuid())
    for start, count in ((0, 20), (3, 7), (19, 1), (5, 0)):
        part = ids.slice(start, count)
        assert plain(part).to_pylist() == [None if v is None else str(v) for v in part.to_pylist()]
    views = pa.array(["a", None, "x" * 50], pa.string_view()).slice(1)
    assert plain(views).equals(pa.array([None, "x" * 50]))
    assert plain(pa.array(["a", "b"]).dictionary_encode()).to_pylist() == ["a", "b"]
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    assert plain(flags).to_pylist() == [True, False, None]


@pytest.mark.parametrize(
    ("spark", "arrow"),
    [
        ("decimal(10,2)", pa.decimal128(10, 2)), ("varchar(3)", pa.string()), ("timestamp_ntz", pa.timestamp("us")),
        ("string collate UNICODE", pa.string()), ("interval day to second", pa.duration("us")), ("void", pa.null()),
        ("array<int>", pa.list_(pa.int32())), ("interval year to month", pa.month_day_nano_interval()),
        ("timestamp", pa.timestamp("us", "UTC")), ("binary", pa.binary()), ("date", pa.date32()),
    ],
)  # fmt: skip
def test_sources_of_spark(spark: str, arrow: pa.DataType) -> None:
    assert spark_source(spark) is source_of(arrow)


@pytest.mark.parametrize(
    ("kind", "column", "take"),
    [
        (pa.int8(), "byte", Take.CHECKED), (pa.int8(), "short", Take.EXACT), (pa.uint32(), "long", Take.EXACT),
        (pa.uint64(), "long", Take.CHECKED), (pa.int16(), "float", Take.EXACT), (pa.int32(), "float", Take.CHECKED),
        (pa.int32(), "double", Take.EXACT), (pa.float16(), "float", Take.EXACT), (pa.float64(), "double", Take.CHECKED),
        (pa.binary(3), "String", Take.OPTION), (pa.list_(pa.int8()), "long", Take.REFUSED),
    ],
)  # fmt: skip
def test_rules(kind: pa.DataType, column: str, take: Take) -> None:
    assert rule(source_of(kind), column).take is take
