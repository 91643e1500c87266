"""The vectorised digest equals one made row by row with the xxhash library."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from store.digest import TAGS, add, digest_array, digest_counted_texts, digest_entries, from_hex, to_hex
from store.errors import SchemaMismatchError
from store.types.datatypes import BY_NAME, data_type
from store.types.model import Column, Kind, Storage

FIXED = [name for name in TAGS if name != "String"]


def column(name: str, number: int = 3, storage: Storage = Storage.FIXED) -> Column:
    return Column("C", BY_NAME[name], Kind.NORMAL, storage, number, "UTF_8" if name == "String" else None)


def naive(col: Column, values: list[Any]) -> int:
    total = 0
    for value in values:
        data = struct.pack("<i", col.id)
        if value is None:
            data += b"\0"
        elif isinstance(value, str):
            data += bytes([10]) + value.encode()
        else:
            data += bytes([TAGS[col.type.name]])
            if isinstance(value, float):
                data += bytes.fromhex("000000000000f87f") if math.isnan(value) else struct.pack("<d", value)
            else:
                data += struct.pack("<q", int(value))
        total += xxhash.xxh3_128_intdigest(data)
    return total % 2**128


def plain(col: Column, raw: np.ndarray[Any, Any]) -> list[Any]:
    null = raw.dtype.type(col.type.null)
    values = [None if r == null else r.item() for r in raw]
    if col.type.name == "Boolean":
        return [None if v is None else bool(v) for v in values]
    return values


@pytest.mark.parametrize("name", FIXED)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_entries_equal_the_naive_digest(name: str, data: st.DataObject) -> None:
    col = column(name, data.draw(st.integers(0, 2**31 - 1)))
    size = np.dtype(col.type.numpy).itemsize
    raw = np.frombuffer(
        b"".join(data.draw(st.lists(st.binary(min_size=size, max_size=size), max_size=40))), col.type.numpy
    )
    assert digest_entries(col, raw) == naive(col, plain(col, raw))


@pytest.mark.parametrize("name", ["int", "long", "double", "Instant"])
def test_special_values_and_more_than_one_block(name: str) -> None:
    col = column(name)
    rng = np.random.default_rng(5)
    raw = rng.integers(-(2**31), 2**31, 70_000).astype(col.type.numpy)
    raw[::7] = col.type.null
    if raw.dtype.kind == "f":
        raw[:5] = [math.nan, -math.nan, 0.0, -0.0, math.inf]
    assert digest_entries(col, raw) == naive(col, plain(col, raw))


def test_narrow_integers_are_counted_to_the_same_digest() -> None:
    col = column("int")
    raw = np.random.default_rng(1).integers(-50, 50, 10_000).astype("<i4")
    raw[5] = col.type.null
    assert digest_entries(col, raw) == naive(col, plain(col, raw))


def test_text_as_array_dictionary_and_counts() -> None:
    col = column("String", storage=Storage.SYMBOL)
    values = ["a", None, "", "é", "\U0001f600", "a"]
    array = pa.array(values, pa.string())
    expected = naive(col, values)
    assert digest_array(col, array) == expected
    assert digest_array(col, array.dictionary_encode()) == expected
    texts = pa.array(["a", "", "é", "\U0001f600", None, "unused"])
    assert digest_counted_texts(col, texts, np.array([2, 1, 1, 1, 1, 0])) == expected


@pytest.mark.parametrize("name", FIXED)
def test_arrow_values_give_the_digest_of_the_entries(name: str) -> None:
    col = column(name)
    raw = np.random.default_rng(2).integers(0, 2, 100).astype(col.type.numpy)
    raw[3] = col.type.null
    array = pa.array(plain(col, raw), col.type.arrow)
    assert digest_array(col, array) == digest_entries(col, raw)


def test_order_does_not_count_but_number_column_and_null_do() -> None:
    col, other = column("int", 1), column("int", 2)
    one = np.array([1, 2, 2], "<i4")
    assert digest_entries(col, one) == digest_entries(col, one[::-1].copy())
    assert digest_entries(col, one) != digest_entries(col, one[:2])
    assert digest_entries(col, one) != digest_entries(other, one)
    assert digest_entries(col, np.array([0], "<i4")) != digest_entries(col, np.array([col.type.null], "<i4"))
    parts = add(digest_entries(col, one[:1]), digest_entries(col, one[1:]))
    assert parts == digest_entries(col, one)
    assert from_hex(to_hex(parts)) == parts


def test_a_type_without_codec_is_named() -> None:
    col = Column("C", data_type("LocalDate"), Kind.NORMAL, Storage.FIXED, 1)
    with pytest.raises(SchemaMismatchError, match="LocalDate"):
        digest_entries(col, np.zeros(1, "<i4"))
