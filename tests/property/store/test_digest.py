"""Digests equal those made row by row with the xxhash library."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.digest import (
    TAGS,
    add,
    digest_array,
    digest_counted_texts,
    digest_entries,
    digest_values,
    from_hex,
    to_hex,
)
from sparkhaven.store.native import digests
from sparkhaven.store.native.library import address, core
from sparkhaven.store.types.datatypes import BY_NAME, data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.guard_pages import guarded
from tests.support.native_values import LANES, limited


@pytest.fixture(params=LANES, autouse=True)
def _each_width(request: pytest.FixtureRequest) -> Iterator[None]:
    with limited(request.param):
        yield


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int", "long", "float", "double", "Instant"])
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


@pytest.mark.parametrize("width", [2047, 2048, 2049, 5000])
def test_integers_about_the_width_that_is_counted(width: int) -> None:
    col = column("int")
    raw = (np.arange(20_000) % (width + 1) - 100).astype("<i4")
    assert digest_entries(col, raw) == naive(col, plain(col, raw))


def test_text_as_array_dictionary_and_counts() -> None:
    col = column("String", storage=Storage.SYMBOL)
    values = ["a", None, "", "é", "\U0001f600", "a"]
    array = pa.array(values, pa.string())
    expected = naive(col, values)
    nulls = pa.array([None, "a"]), np.array([3, 2])
    assert digest_counted_texts(col, *nulls) == naive(col, [None, None, None, "a", "a"])
    assert digest_array(col, array) == expected
    assert digest_array(col, array.dictionary_encode()) == expected
    texts, counts = pa.array(["a", "", "é", "\U0001f600", None, "unused"]), np.array([2, 1, 1, 1, 1, 0])
    assert digest_counted_texts(col, texts, counts) == expected


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.text(max_size=20), max_size=20), st.booleans(), st.data())
def test_texts_in_any_layout(values: list[str | None], wide: bool, data: st.DataObject) -> None:
    col = column("String", storage=Storage.BLOB)
    array = pa.array(values, pa.large_string() if wide else pa.string())
    low = data.draw(st.integers(0, len(values)))
    part = array.slice(low, data.draw(st.integers(0, len(values) - low)))
    assert digest_array(col, part) == naive(col, part.to_pylist())


def test_texts_of_every_length() -> None:
    """Each kind of XXH3: to 3, 8, 16, 128, 240 bytes, and stripes in blocks of 1,024."""
    col = column("String", storage=Storage.BLOB)
    text = "".join(chr(33 + at * at % 90) for at in range(5000))
    for size in [*range(300), *range(1000, 1100), *range(2030, 2060), 3059, 4091, 4092, 5000]:
        array = pa.array([text[:size]])
        assert digest_array(col, array) == naive(col, array.to_pylist()), size


@pytest.mark.campaign
@pytest.mark.parametrize("name", FIXED)
def test_nothing_is_read_behind_fixed_entries(name: str) -> None:
    col = column(name)
    for size in (1, 7, 8193):
        with guarded(np.ones(size, col.type.numpy)) as entries:
            assert digest_entries(col, entries) == naive(col, plain(col, entries))


@pytest.mark.campaign
@pytest.mark.parametrize("length", [*range(1, 20), 32, 300])
@pytest.mark.parametrize("nullable", [True, False])
def test_entries_of_a_codec(length: int, nullable: bool) -> None:
    """As they lie in the file, the last of them at the end of the memory."""
    arguments = f"{length}" if nullable else f"{length},notNull"
    kind = data_type("byte[]", "io.deephaven.util.codec.ByteArrayCodec", arguments)
    col = Column("C", kind, Kind.NORMAL, Storage.FIXED, 3)
    assert kind.fixed is not None
    rows = np.random.default_rng(length).integers(0, 256, (70, kind.fixed.width)).astype(np.uint8)
    if nullable:
        rows[:, 0] = 0
        rows[::3] = np.frombuffer(kind.fixed.null, np.uint8)
    for count in (0, 1, 2, 70):
        wanted = sum(
            xxhash.xxh3_128_intdigest(struct.pack("<iB", 3, 0) if value == kind.fixed.null else b"\3\0\0\0\x0b" + value)
            for value in map(bytes, rows[-count:] if count else [])
        )
        with guarded(rows[-count:] if count else rows[:0]) as entries:
            assert digest_entries(col, entries) == wanted % 2**128


def test_nothing_is_read_behind_texts() -> None:
    col = column("String", storage=Storage.BLOB)
    for size in [*range(1, 40), 123, 124, 235, 236, 1019, 1020, 1300]:
        with guarded(np.full(size, 97, np.uint8)) as data, guarded(np.array([0, size], np.int32)) as ends:
            buffers = [
                None,
                pa.foreign_buffer(ends.ctypes.data, ends.nbytes),
                pa.foreign_buffer(data.ctypes.data, size),
            ]
            array = pa.StringArray.from_buffers(1, buffers[1], buffers[2])
            assert digest_array(col, array) == naive(col, ["a" * size])


def test_offsets_outside_of_the_data_are_refused() -> None:
    for ends in ([0, 9, 6], [0, -1, 2], [3, 1, 6]):
        array = pa.StringArray.from_buffers(2, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(b"abcdef"))
        with pytest.raises(ValueError, match="outside of its data"):
            digests.text_sum(b"12345", array)


def stored(values: list[bytes]) -> pa.Array:
    """Values as they lie in a file behind others, which an offset of the data leaves out."""
    ends = np.cumsum([0, *map(len, values)]).astype(np.int64)
    parts = [pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), [None, *parts])


TEXT = column("String", storage=Storage.BLOB)
TEXTS = st.one_of(st.none(), st.just("\0\0"), st.text(max_size=20).filter(lambda text: text != "\0"))


@given(st.lists(TEXTS, max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_values_of_files_are_their_texts(texts: list[str | None], first: int, count: int) -> None:
    values = stored([b"" if text is None else (text.encode() or b"\0") for text in texts]).slice(first, count)
    taken = texts[first:][:count]
    assert digest_values(TEXT, values) == (naive(TEXT, taken), taken.count(None))


@pytest.mark.campaign
@pytest.mark.parametrize(
    "odd", [b"\xff", b"abcdefgh\x80", b"\xc3", b"\xed\xa0\x80", b"abcdefg\xf4\x90\x80\x80", b"\xc0\x80"]
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_values_that_are_no_text_are_left_to_the_decoder(odd: bytes, at: int) -> None:
    values = [b"one", b"", b"three"]
    values.insert(at, odd)
    assert digest_values(TEXT, stored(values)) is None


def test_a_character_does_not_go_on_in_the_next_value() -> None:
    assert digest_values(TEXT, stored([b"\xc3", b"\xa9"]).slice(0, 1)) is None
    assert digest_values(TEXT, stored([b"\xc3\xa9", b""])) == (naive(TEXT, ["é", None]), 1)


@pytest.mark.campaign
@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
@pytest.mark.parametrize("odd", ["é", "plain", None, ""])
def test_one_value_of_many_is_of_another_kind(count: int, odd: str | None) -> None:
    """What is ASCII is looked at by blocks of values."""
    for place in {0, count // 2, count - 1}:
        texts: list[str | None] = [f"text {number}" for number in range(count)]
        texts[place] = odd
        values = [b"" if text is None else (text.encode() or b"\0") for text in texts]
        assert digest_values(TEXT, stored(values)) == (naive(TEXT, texts), texts.count(None))
        values[place] = b"half \xc3"
        assert digest_values(TEXT, stored(values)) is None


def test_a_character_does_not_go_on_in_the_next_block() -> None:
    values = [b"text"] * 600
    values[255:257] = b"\xc3", b"\xa9"
    assert digest_values(TEXT, stored(values)) is None


def test_nothing_is_read_behind_values() -> None:
    for size in range(70):
        text = "x" * size + "é"
        octets = np.frombuffer(text.encode(), np.uint8)
        with guarded(octets) as data, guarded(np.array([0, len(octets)], np.int64)) as ends:
            parts = [pa.foreign_buffer(part.ctypes.data, part.nbytes) for part in (ends, data)]
            array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, *parts])
            assert digest_values(TEXT, array) == (naive(TEXT, [text]), 0)


@pytest.mark.parametrize("ends", [[0, 4], [1, 4], [-1, 2], [2, 1], [0, 2**62]])
def test_values_outside_of_the_data_are_not_read(ends: list[int]) -> None:
    library, total = core(), np.zeros(2, np.uint64)
    with guarded(np.frombuffer(b"abc", np.uint8)) as data, guarded(np.array(ends, np.int64)) as held:
        where = address(held), 1, address(data), len(data), None, address(total)
        assert library.sh_digest_values(0, *where) == -1
    assert total.tolist() == [0, 0]


@pytest.mark.parametrize("name", FIXED)
def test_arrow_values_give_the_digest_of_the_entries(name: str) -> None:
    col = column(name)
    raw = np.random.default_rng(2).integers(0, 2, 100).astype(col.type.numpy)
    raw[3] = col.type.null
    array = pa.array(plain(col, raw), col.type.arrow)
    assert digest_array(col, array) == digest_entries(col, raw)


def test_values_that_are_nulls_in_files_are_values_in_arrow() -> None:
    col = column("long")
    assert digest_array(col, pa.array([-(2**63), None, -(2**63)])) == naive(col, [-(2**63), None, -(2**63)])


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
