"""Hashes and digests of rows: those of each value alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.digest import (
    add,
    add_symbol_hashes,
    digest_array,
    digest_entries,
    digest_rows,
    digest_values,
    fixed_entries,
    row_hashes,
    symbol_hashes,
    value_hashes,
)
from sparkhaven.store.native.digests import survey_entries
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.native_values import LANES, fixed_values, limited
from tests.support.writers.coded_rows import SCHEMA, coded_row, coded_table

LOW = (1 << 64) - 1
NAMES = {"i1": "byte", "i2": "short", "i4": "int", "i8": "long", "u2": "char", "f4": "float", "f8": "double"}


@pytest.fixture(params=LANES)
def _each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """With each width of registers."""
    with limited(request.param):
        yield


def column(name: str, storage: Storage = Storage.FIXED, number: int = 3) -> Column:
    return Column("C", BY_NAME[name], Kind.NORMAL, storage, number, "UTF_8" if name == "String" else None)


def alone(col: Column, array: pa.Array) -> list[int]:
    """What each value adds to its row, by the digest of a column that has nothing else."""
    found = []
    for row, value in enumerate(array.to_pylist()):
        digest = digest_array(col, array.slice(row, 1))
        found.append(0 if value is None or (value == [] and col.storage is Storage.SET) else digest & LOW)
    return found


@pytest.mark.usefixtures("_each_way")
@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("size", [0, 1, 300, 8193])
def test_of_entries(kind: str, size: int) -> None:
    col, entries = column(NAMES[kind]), fixed_values(kind, size)
    hashes = np.full(size, 5, np.uint64)
    assert digest_entries(col, entries, hashes) == digest_entries(col, entries)
    one = np.array([digest_entries(col, entries[row : row + 1]) & LOW for row in range(min(size, 300))], np.uint64)
    null = entries[:300] == entries.dtype.type(col.type.null)
    assert (hashes[:300] == np.where(null, np.uint64(0), one) + np.uint64(5)).all()
    whole = np.zeros(size, np.uint64)
    for low in range(0, size, 1000):
        digest_entries(col, entries[low : low + 1000], whole[low : low + 1000])
    assert (whole + np.uint64(5) == hashes).all()
    fixed = fixed_entries(col)
    assert fixed is not None
    surveyed = np.full(size, 5, np.uint64)
    survey = survey_entries(entries, fixed, hashes=surveyed)
    assert survey.sum is not None and (surveyed == hashes).all()


@pytest.mark.usefixtures("_each_way")
def test_of_every_type_as_arrow() -> None:
    schema, chance = parse_schema(SCHEMA, "schema").schema, random.Random(5)
    table = coded_table(schema, [coded_row(chance, number) for number in range(40)])
    for col in schema.stored:
        array = table[col.name].combine_chunks()
        assert value_hashes(col, array).tolist() == alone(col, array), col.name
        part = array.slice(3, 9)
        assert value_hashes(col, part).tolist() == alone(col, part), col.name


@pytest.mark.usefixtures("_each_way")
def test_of_symbols() -> None:
    col = column("String", Storage.SYMBOL)
    texts = pa.array(["a", "", "é" * 300, None, "b"])
    array = pa.array(["a", None, "b", "", "a", "é" * 300])
    assert value_hashes(col, array).tolist() == alone(col, array)
    assert value_hashes(col, array.dictionary_encode()).tolist() == alone(col, array)
    hashes = np.zeros(5, np.uint64)
    add_symbol_hashes(np.array([0, 2, -(2**31), 3, 99], np.int32), symbol_hashes(col, texts), hashes)
    assert hashes.tolist() == alone(col, pa.array(["a", "é" * 300, None, None, None]))


@pytest.mark.parametrize("lane", LANES)
def test_of_values_as_files_have_them(lane: int) -> None:
    col = column("String", Storage.BLOB)
    values = pa.array([b"a", b"", b"\0", "é".encode() * 40] * 100, pa.large_binary())
    hashes = np.zeros(400, np.uint64)
    with limited(lane):
        assert digest_values(col, values, hashes) == digest_values(col, values)
    assert hashes.tolist() == alone(col, pa.array(["a", None, "", "é" * 40] * 100))


def test_the_least_long_is_a_value_in_arrow() -> None:
    col, array = column("Instant"), pa.array([-(2**63), None, 7], pa.timestamp("ns", "UTC"))
    assert value_hashes(col, array).tolist() == alone(col, array)
    assert value_hashes(col, array)[0] != 0


def test_hashes_that_are_not_one_a_row_are_refused() -> None:
    with pytest.raises(ValueError, match="3 hashes for 2 rows"):
        digest_entries(column("int"), np.zeros(2, "<i4"), np.zeros(3, np.uint64))


Rows = list[tuple[int | None, str | None]]
COLUMNS = (column("int", number=1), column("String", Storage.SYMBOL, 2))
rows_of = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("abc")), max_size=12)


def digest(rows: Rows, columns: tuple[Column, ...] = COLUMNS) -> int:
    arrays: list[Any] = [
        pa.array([row[0] for row in rows], pa.int32()),
        pa.array([row[1] for row in rows], pa.string()),
    ]
    return digest_rows(row_hashes(columns, arrays[: len(columns)], len(rows)))


@settings(max_examples=200, deadline=None)
@given(rows_of, rows_of)
def test_digests_are_equal_where_the_rows_are(some: Rows, others: Rows) -> None:
    def in_order(rows: Rows) -> list[str]:
        return sorted(map(repr, rows))

    assert (digest(some) == digest(others)) == (in_order(some) == in_order(others))
    assert digest(some + others) == add(digest(some), digest(others))


@settings(max_examples=200, deadline=None)
@given(rows_of, st.randoms())
def test_values_that_change_their_rows_change_the_digest(rows: Rows, chance: Any) -> None:
    texts = [row[1] for row in rows]
    chance.shuffle(texts)
    other = [(row[0], text) for row, text in zip(rows, texts, strict=True)]
    assert (digest(rows) == digest(other)) == (sorted(map(repr, rows)) == sorted(map(repr, other)))


def test_a_column_of_nulls_makes_no_difference() -> None:
    rows: Rows = [(1, None), (2, None), (None, None)]
    assert digest(rows) == digest(rows, COLUMNS[:1])
    assert digest(rows) != digest(rows[:2])
