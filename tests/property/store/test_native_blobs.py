"""What the compiled core makes of texts, maps, numbers without bounds and row sets is what their codings make of them.

Bytes that somebody changed are taken as the codings take them, or left to them.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkhaven.store.native.codings import decode_blobs, doubtful_sets, encode_blobs
from sparkhaven.store.types.codings.coding import BlobCoding
from sparkhaven.store.types.codings.decimals import FreeDecimals, plain_text
from sparkhaven.store.types.codings.row_set import RowSets, encode_rows
from sparkhaven.store.types.codings.string_array import HEAD, StringArrays
from sparkhaven.store.types.codings.string_map import StringMaps

TEXT = st.one_of(
    st.text(st.sampled_from("\0aé€\U0001f600\U0010ffff퟿￿"), max_size=12),
    st.sampled_from(["", "a" * 8, "b" * 300]),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Boolean": st.booleans(),
    "Double": st.floats(),
    "Float": st.floats(width=32),
    "Int": st.integers(-(2**31), 2**31 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "String": TEXT,
}
DIGITS = st.integers(-(10**80), 10**80) | st.integers(0, 300).map(lambda n: 10**n) | st.integers(-300, 300)
POWERS = st.integers(0, 700).map(lambda n: 1 << n)
NUMBERS = st.builds(lambda number, scale: Decimal(number).scaleb(scale), DIGITS, st.integers(-60, 60)).map(plain_text)
WHOLES = st.one_of(DIGITS, POWERS, POWERS.map(lambda n: -n), POWERS.map(lambda n: -n - 1)).map(str)
CODINGS: list[BlobCoding] = [
    StringArrays(),
    *map(StringMaps, VALUES),
    FreeDecimals(whole=False),
    FreeDecimals(whole=True),
    RowSets(),
]


def row_set(steps: list[tuple[int, int]]) -> bytes:
    edges = np.cumsum([step for pair in steps for step in pair], dtype=np.int64).reshape(-1, 2)
    return encode_rows(edges[:, 0].copy(), edges[:, 1].copy())


STEP = st.one_of(st.integers(1, 3), st.integers(1, 200), st.integers(1, 70_000), st.integers(1, 2**40))


def values_of(coding: BlobCoding) -> st.SearchStrategy[Any]:
    if isinstance(coding, StringArrays):
        return st.lists(st.none() | TEXT, max_size=6)
    if isinstance(coding, StringMaps):
        value = VALUES[coding.kind] if coding.kind == "String" else st.none() | VALUES[coding.kind]
        keys = TEXT | st.integers(0, 40).map(str)
        return st.dictionaries(keys, value, max_size=20).map(lambda entries: [*entries.items()])
    if isinstance(coding, FreeDecimals):
        return WHOLES if coding.whole else NUMBERS | WHOLES
    return st.lists(st.tuples(STEP, STEP), max_size=10).map(row_set)


@st.composite
def parts(draw: st.DrawFn) -> tuple[BlobCoding, pa.Array]:
    """Values of a coding, null among them, as an array or as part of one."""
    coding = draw(st.sampled_from(CODINGS))
    values = draw(st.lists(st.none() | values_of(coding), min_size=1, max_size=6))
    array = pa.array(values, coding.arrow)
    return coding, array.slice(draw(st.integers(0, len(values) - 1)))


def borders(ends: Any) -> Any:
    return np.concatenate([np.zeros(1, np.int64), ends])


def same(one: pa.Array, other: pa.Array) -> bool:
    """Equal, and NaN as NaN."""
    return (
        one.type == other.type and one.null_count == other.null_count and str(one.to_pylist()) == str(other.to_pylist())
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(parts())
def test_values_there_and_back(case: tuple[BlobCoding, pa.Array]) -> None:
    coding, array = case
    ends, data, bad = coding.encode(array)
    made = encode_blobs(array, coding)
    if bad is not None:
        assert made is None
        return
    if made is not None:
        assert (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
    else:  # none of the lists has an element
        assert not any(array.to_pylist())
    back = decode_blobs(borders(ends), pa.py_buffer(data.tobytes()), coding)
    plain, _ = coding.decode(borders(ends), pa.py_buffer(data.tobytes()))
    if back is None:
        assert not len(data)
        return
    back.validate(full=True)
    assert same(back, plain)
    assert same(back, array)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    parts(),
    st.lists(
        st.tuples(st.floats(0, 0.999), st.sampled_from([0, 1, 2, 0x20, 0x71, 0x7C, 0x80, 0xC0, 0xED, 0xFF])), max_size=3
    ),
)
def test_bytes_of_any_kind(case: tuple[BlobCoding, pa.Array], changes: list[tuple[float, int]]) -> None:
    """The core takes no bytes that the coding refuses, and makes the same of others."""
    coding, array = case
    ends, data, _ = coding.encode(array.drop_null())
    changed = np.array(data)
    for where, byte in changes:
        if len(changed):
            changed[int(where * len(changed))] = byte
    made = decode_blobs(borders(ends), pa.py_buffer(changed.tobytes()), coding)
    plain, bad = coding.decode(borders(ends), pa.py_buffer(changed.tobytes()))
    if made is not None:
        made.validate(full=True)
        assert bad is None and same(made, plain)


@pytest.mark.parametrize(
    "text", ["1", "-1", "0", "-0", "00", "-00.00", "0.50", "100", "-1200", "007.070", "128", "-128", "-129"]
)
def test_numbers_as_they_may_be_written(text: str) -> None:
    for whole in (True, False):
        if whole and "." in text:
            continue
        array = pa.array([text, None, text], pa.string())
        made, plain = encode_blobs(array, FreeDecimals(whole)), FreeDecimals(whole).encode(array)
        assert made is not None and made[1].tobytes() == plain[1].tobytes()


@pytest.mark.parametrize("text", ["", "-", "+1", "1.", ".5", "1..2", "1e5", " 1", "1_0", "٣", "1" * 4003])
def test_texts_that_are_no_plain_numbers_are_left(text: str) -> None:
    assert encode_blobs(pa.array(["1", text], pa.string()), FreeDecimals(whole=False)) is None


@pytest.mark.parametrize(
    ("unscaled", "scale"),
    [
        (0, 5),
        (0, -5),
        (12, 8000),
        (-12, -3900),
        (10**4001, 0),
        (1200, 1),
        (-1200, 3),
        (1, -8001),
        (1, 8001),
        (10**4003, 0),
        (1, -4001),
        (1, -4002),
    ],
)
def test_numbers_as_java_may_write_them(unscaled: int, scale: int) -> None:
    data = scale.to_bytes(4, "big", signed=True) + unscaled.to_bytes(unscaled.bit_length() // 8 + 2, "big", signed=True)
    ends, coding = np.array([0, len(data)], np.int64), FreeDecimals(whole=False)
    plain, bad = coding.decode(ends, pa.py_buffer(data))
    made = decode_blobs(ends, pa.py_buffer(data), coding)
    assert (made is None) == (bad is not None)
    assert made is None or made.equals(plain)


def test_texts_that_come_again_need_more_room() -> None:
    """Java writes an object once, and then its number."""
    long = (
        b"\x74\x03\xe8"
        + b"x" * 1000
        + b"\x74\x00\x02\xc3\xa9"
        + b"\x71\x00\x7e\x00\x02" * 50
        + b"\x71\x00\x7e\x00\x03\x70"
    )
    stream = HEAD + (54).to_bytes(4, "big") + long
    ends = np.array([0, len(stream), 2 * len(stream)], np.int64)
    made = decode_blobs(ends, pa.py_buffer(2 * stream), StringArrays())
    assert made is not None and made.to_pylist() == [["x" * 1000, "é", *50 * ["x" * 1000], "é", None]] * 2
    for handle in (b"\x00\x7e\x00\x01", b"\x00\x7e\x00\x04", b"\xff\xff\xff\xff"):
        wrong = stream[:-5] + handle + b"\x70"
        assert decode_blobs(ends[:2], pa.py_buffer(wrong), StringArrays()) is None


def test_texts_beyond_a_length_of_two_bytes() -> None:
    texts = ["b" * 65_535, "c" * 65_536, "\0" * 40_000, "é" * 32_767 + "a", "é" * 32_768, "\U0001f600" * 11_000]
    array = pa.array([texts, texts[:1], [None, *texts]], StringArrays.arrow)
    made, (ends, data, _) = encode_blobs(array, StringArrays()), StringArrays().encode(array)
    assert made is not None and (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
    back = decode_blobs(borders(ends), pa.py_buffer(data.tobytes()), StringArrays())
    assert back is not None and back.equals(array)


def test_numbers_of_very_many_digits() -> None:
    texts = [str(10**3900), str(-(10**4001) + 1), f"0.{'0' * 3900}1", str(-(2**9000)), str(7**4000), str(2**13_000)]
    array, coding = pa.array(texts, pa.string()), FreeDecimals(whole=False)
    made, (ends, data, _) = encode_blobs(array, coding), coding.encode(array)
    assert made is not None and (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
    back = decode_blobs(borders(ends), pa.py_buffer(data.tobytes()), coding)
    assert back is not None and back.equals(array)


@pytest.mark.parametrize("kind", ["Boolean", "Double", "Float", "Int", "Long", "String"])
@pytest.mark.parametrize("count", [2, 16, 17, 40])
def test_maps_with_a_key_twice_are_left(kind: str, count: int) -> None:
    coding = StringMaps(kind)
    value: Any = {"Boolean": True, "String": "v"}.get(kind, 1)
    entries = [(f"k{number}", value) for number in range(count)]
    assert encode_blobs(pa.array([entries, entries], coding.arrow), coding) is not None
    assert encode_blobs(pa.array([entries, [*entries[:-1], entries[0]]], coding.arrow), coding) is None
    if kind != "Boolean":
        assert encode_blobs(pa.array([entries, [("k", coding.null)]], coding.arrow), coding) is None


def test_floats_that_signal_are_left() -> None:
    data = b"\0\0\0\1\0\0\0\1k\x7f\x80\0\1"
    assert decode_blobs(np.array([0, len(data)], np.int64), pa.py_buffer(data), StringMaps("Float")) is None
    quiet = data[:-3] + b"\xc0\0\1"
    made = decode_blobs(np.array([0, len(quiet)], np.int64), pa.py_buffer(quiet), StringMaps("Float"))
    assert made is not None and math.isnan(made.to_pylist()[0][0][1])


def test_which_row_sets_are_in_doubt() -> None:
    good, wrong = row_set([(1, 2), (3, 400)]), b"\x09\x00\x05"
    array = pa.array([good, None, wrong, b"\x20", b""], pa.binary())
    doubt = doubtful_sets(array)
    assert doubt is not None and doubt.tolist() == [False, False, True, False, True]
