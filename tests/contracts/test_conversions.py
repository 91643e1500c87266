"""Every cell of the table of conversions through every way in: values at the borders of both types, one by one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.conversions.conversion_table import COLUMNS, PARTITION, SOURCES, Group, Take, rule, source_of
from sparkhaven.store.conversions.number_arrays import plain
from tests.support.ingest.conversions.doors import Door, delta, files, frames, imported, requeue
from tests.support.ingest.conversions.values import BAD, expected, sources

SOURCE_ARRAYS = sources()
STORED = [column for column in COLUMNS if column != PARTITION]
OPEN = frozenset({"lossy", "zone", "unit", "binary_as_text"})
DOORS: dict[str, tuple[Door, frozenset[str]]] = {
    "files": (files, OPEN),
    "delta": (delta, OPEN),
    "requeue": (requeue, OPEN),
    "import": (imported, frozenset({"lossy", "binary_as_text"})),
}
SPARK = {
    "null": "void", "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
    "float32": "float", "float64": "double", "decimal128": "decimal(38,2)", "string": "string", "binary": "binary",
    "timestamp us": "timestamp", "local us": "timestamp_ntz", "date32": "date", "duration": "interval day to second",
    "list": "array<bigint>", "struct": "struct<a:bigint>",
}  # fmt: skip


def values(array: pa.Array) -> list[Any]:
    """As Python has them; times by their count, texts that are not UTF-8 as bytes."""
    kind, kinds = array.type, pa.types
    if kinds.is_date32(kind) or kinds.is_time32(kind):
        array = array.view(pa.int32())
    elif kinds.is_temporal(kind):
        array = array.view(pa.int64())
    try:
        found = list(array.to_pylist())
    except UnicodeDecodeError:
        return list(array.view(pa.binary()).to_pylist())
    return found if kind != pa.uuid() else [None if value is None else str(value) for value in found]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        alike = (math.isnan(found) and math.isnan(wanted)) or found == wanted
        return alike and (math.isnan(wanted) or math.copysign(1, found) == math.copysign(1, wanted))
    return type(found) is type(wanted) and found == wanted


def _check(found: list[Any], array: pa.Array, kind: str, given: frozenset[str], *, by_value: bool = False) -> None:
    """``by_value``: a column that lacks a zone is not refused, but each of its values."""
    source = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    wanted = [expected(value, source, kind, given) for value in values(array)]
    if not rule(source_of(array.type), kind).takes(given | {"zone"} if by_value else given):
        wanted = [BAD] * len(array)  # the whole column is refused, with its nulls
    wrong = [
        (array[row], value, want)
        for row, (value, want) in enumerate(zip(found, wanted, strict=True))
        if not same(value, want)
    ]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("options", [frozenset(), OPEN], ids=["strict", "with options"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", SOURCE_ARRAYS)
def test_a_cell(tmp_path: Path, name: str, door: str, options: frozenset[str]) -> None:
    array, (way, known) = SOURCE_ARRAYS[name], DOORS[door]
    given = options & known - ({"unit"} if source_of(array.type).group in (Group.TEXT, Group.BYTES) else set())
    for kind in STORED:
        _check(way(tmp_path, array, kind, given), array, kind, given, by_value=door != "import")


@pytest.mark.slow
@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize("name", SPARK)
def test_a_cell_of_a_data_frame(tmp_path: Path, name: str, lossy: bool) -> None:
    array, given = SOURCE_ARRAYS[name], frozenset({"lossy"} if lossy else ())
    for kind in STORED:
        counted = name == "int64" and kind == "Instant"
        found = frames(tmp_path, array, kind, given, SPARK[name])
        if not counted:
            _check(found, array, kind, given)
        else:  # a bigint is nanoseconds
            assert found == [None if v is None else BAD if v == -(2**63) else v for v in array.to_pylist()]


def test_the_table_says_what_the_arrays_show() -> None:
    """``exact`` where no value is refused, ``refused`` and ``by option`` where all are."""
    for name, array in SOURCE_ARRAYS.items():
        if name == "not UTF-8":
            continue
        for kind in STORED:
            cell = rule(source_of(array.type), kind)
            kind_of = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
            made = [expected(value, kind_of, kind, frozenset()) for value in values(array) if value is not None]
            if cell.take is Take.EXACT:
                assert BAD not in made, (name, kind)
            elif cell.take is Take.CHECKED:
                assert any(value != BAD for value in made), (name, kind)
            else:
                assert set(map(str, made)) <= {BAD}, (name, kind)


def test_every_source_has_an_array() -> None:
    assert {source_of(array.type) for array in SOURCE_ARRAYS.values()} == set(SOURCES) - {source_of(_INTERVAL)}


_INTERVAL = pa.month_day_nano_interval()


def test_run_ends_are_plain() -> None:
    array = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    assert plain(array).to_pylist() == ["a", "a", None] and source_of(array.type) is source_of(pa.string())
