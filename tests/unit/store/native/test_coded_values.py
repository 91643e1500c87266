"""What the compiled core makes of coded values and entries is what their codings make of them, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.native.codings import decode_blobs, decode_entries, encode_blobs, encode_entries
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import FixedCoding, Octets
from sparkhaven.store.types.codings.instant_array import FIRST, HEAD, VALUE, VALUE_END, VALUE_START, InstantArrays
from sparkhaven.store.types.codings.java_array import JavaArrays
from sparkhaven.store.types.datatypes import data_type
from tests.oracles import codings as oracle

PACKAGE = "io.deephaven.util.codec."
ROWS = 300  # blocks of 64, and a part of one
DAY = 86_400 * 10**9
FIXED = [
    ("LocalDate", "LocalDateCodec", "Compact"),
    ("LocalDate", "LocalDateCodec", "Full"),
    *(("LocalTime", "LocalTimeCodec", digits) for digits in "0369"),
    *(("BigDecimal", "BigDecimalCodec", f"{digits},2") for digits in (2, 6, 16, 17, 18, 19, 20, 38, 39, 57, 58, 76)),
    ("byte[]", "ByteArrayCodec", "3"),
    ("byte[]", "ByteArrayCodec", "8"),
    ("byte[]", "ByteArrayCodec", "16,notNull"),
]
ARRAYS = ["boolean", "char", "short", "int", "long", "float", "double", "byte", "java.time.Instant"]


@pytest.fixture(params=[64, 32, 0], ids=lambda width: f"{width} bytes")
def _registers(request: pytest.FixtureRequest) -> Iterator[None]:
    library = core()
    assert library is not None
    library.sh_limit(request.param)
    yield
    library.sh_limit(64)


def fixed(case: tuple[str, str, str]) -> FixedCoding:
    coding = data_type(case[0], PACKAGE + case[1], case[2]).fixed
    assert coding is not None
    return coding


def values_of(coding: FixedCoding, rng: np.random.Generator) -> pa.Array:
    kind = coding.arrow
    if pa.types.is_date(kind):
        return pa.array(rng.integers(-719_528, 2_932_897, ROWS), pa.int32()).view(kind)
    if pa.types.is_time(kind):
        unit = 10 ** (9 - coding.digits)  # type: ignore[attr-defined]
        return pa.array(rng.integers(0, DAY // unit, ROWS) * unit).view(kind)
    if pa.types.is_binary(kind):
        return pa.array([rng.bytes(coding.length) for _ in range(ROWS)], kind)  # type: ignore[attr-defined]
    most = 10**kind.precision - 1
    numbers = [int.from_bytes(rng.bytes(33), "big", signed=True) for _ in range(ROWS - 4)]
    every = [0, 1, most, -most, *(abs(n) % most // 10 ** (n % kind.precision) * (1 if n > 0 else -1) for n in numbers)]
    return pa.array([Decimal((n < 0, tuple(map(int, str(abs(n)))), -kind.scale)) for n in every], kind)


def with_nulls(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    return pa.array([None if rng.random() < 0.2 else value for value in array.to_pylist()], array.type)


def temporal_nulls(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    """Dates and times by their bitmap, since Python has not all of them."""
    bits = pa.py_buffer(np.packbits(rng.random(len(array)) > 0.2, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def plain_entries(array: pa.Array, coding: FixedCoding) -> Octets | None:
    entries, bad = oracle.encode(coding, array)
    return entries if bad is None else None


def plain_values(entries: Octets, coding: FixedCoding) -> pa.Array | None:
    array, bad = oracle.decode(coding, entries)
    return array if bad is None else None


@pytest.mark.usefixtures("_registers")
@pytest.mark.parametrize("case", FIXED, ids=" ".join)
def test_entries_there_and_back(case: tuple[str, str, str]) -> None:
    coding, rng = fixed(case), np.random.default_rng(7)
    array = values_of(coding, rng)
    parts = [array, array.slice(3, 65), array.slice(5, 1)]
    if coding.has_null:
        some_null = temporal_nulls(array, rng)
        parts += [some_null, some_null.slice(11, 130), pa.nulls(9, array.type)]
    for part in parts:
        entries = encode_entries(part, coding)
        wanted = plain_entries(part, coding)
        if part.null_count == len(part):
            assert entries is None or (entries == wanted).all()
            continue
        assert entries is not None and wanted is not None and (entries == wanted).all()
        values = decode_entries(entries, coding)
        assert values is not None and values.equals(part) and values.null_count == part.null_count
        values.validate(full=True)


@pytest.mark.usefixtures("_registers")
@pytest.mark.parametrize("case", FIXED, ids=" ".join)
def test_entries_of_any_bytes(case: tuple[str, str, str]) -> None:
    """One entry with some bytes changed: the core takes it as its coding does, or leaves it."""
    coding, rng = fixed(case), np.random.default_rng(11)
    entries = encode_entries(values_of(coding, rng), coding)
    assert entries is not None
    left = 0
    for row in range(len(entries)):
        one = entries[row : row + 1].copy()
        for _ in range(rng.integers(1, 3)):
            one[0, rng.integers(coding.width)] = rng.choice([0, 1, 2, 0x80, 0xFF, rng.integers(256)])
        found, wanted = decode_entries(one, coding), plain_values(one, coding)
        left += found is None
        assert (found is None) == (wanted is None) or (case[2] == "Full" and found is None), one.tobytes().hex()
        assert found is None or found.equals(wanted), one.tobytes().hex()
    assert left or "notNull" in case[2]


WRONG: list[tuple[tuple[str, str, str], pa.Array]] = [
    (FIXED[0], pa.array([0, -719_529], pa.int32()).view(pa.date32())),
    (FIXED[1], pa.array([0, 2_932_897], pa.int32()).view(pa.date32())),
    (FIXED[0], pa.array([-(2**31), 2**31 - 1], pa.int32()).view(pa.date32())),
    (FIXED[2], pa.array([0, 1], pa.time64("ns"))),
    (FIXED[5], pa.array([0, DAY]).view(pa.time64("ns"))),
    (FIXED[5], pa.array([-1, 0]).view(pa.time64("ns"))),
    (FIXED[18], pa.array([b"abc", b"ab"])),
    (FIXED[18], pa.array([b"abc", b""])),
    (FIXED[20], pa.array([b"0123456789abcdef", None])),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_values_that_cannot_be_stored_are_left(case: int) -> None:
    kind, array = WRONG[case]
    assert plain_entries(array, fixed(kind)) is None
    assert encode_entries(array, fixed(kind)) is None


def lists(name: str, rng: np.random.Generator) -> list[Any]:
    floats = [0.0, -0.0, float("inf"), float("nan"), 1.5]
    pick = {
        "boolean": lambda: bool(rng.random() < 0.5),
        "float": lambda: floats[rng.integers(5)],
        "double": lambda: floats[rng.integers(5)],
        "char": lambda: int(rng.integers(0xFFFF)),
        "java.time.Instant": lambda: int(rng.choice([0, -1, 10**18, rng.integers(-(2**62), 2**62)])),
    }.get(name, lambda: int(rng.integers(-100, 100)))
    null = name not in ("boolean", "byte")
    return [[None if null and rng.random() < 0.2 else pick() for _ in range(rng.integers(6))] for _ in range(ROWS)]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_there_and_back(name: str) -> None:
    coding, rng = data_type(f"{name}[]").blob, np.random.default_rng(5)
    assert coding is not None
    values = lists(name, rng)
    if name == "byte":
        values = [bytes(value % 256 for value in one) for one in values]
    array = pa.array([None if rng.random() < 0.2 else value for value in values], coding.arrow)
    for part in (array, array.slice(7, 20), array.slice(9, 1), array.drop_null()):
        made = encode_blobs(part, coding)
        ends, data, bad = coding.encode(part)
        assert bad is None and made is not None
        assert (made[0] == ends).all() and made[1].tobytes() == data.tobytes()
        borders = np.concatenate([np.zeros(1, np.int64), ends])
        back = decode_blobs(borders, pa.py_buffer(data.tobytes()), coding)
        plain, _ = coding.decode(borders, pa.py_buffer(data.tobytes()))
        if not len(data):  # null alone
            assert back is None
            continue
        assert back is not None and str(back) == str(plain) and back.null_count == part.null_count
        back.validate(full=True)


@pytest.mark.parametrize("name", ARRAYS)
def test_streams_of_any_bytes(name: str) -> None:
    coding, rng = data_type(f"{name}[]").blob, np.random.default_rng(3)
    assert coding is not None
    given = b"abc" if name == "byte" else [True, False] if name == "boolean" else [1, 2, None, 3]
    ends, data, _ = coding.encode(pa.array([given, None, given], coding.arrow))
    borders, left = np.concatenate([np.zeros(1, np.int64), ends]), 0
    for _ in range(ROWS):
        changed = data.copy()
        changed[rng.integers(len(changed))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        found = decode_blobs(borders, pa.py_buffer(changed.tobytes()), coding)
        plain, bad = coding.decode(borders, pa.py_buffer(changed.tobytes()))
        left += found is None
        assert (found is None) == (bad is not None)
        assert found is None or str(found) == str(plain)
    assert left


def test_instants_that_only_the_coding_takes() -> None:
    """References to an instant before, which Java may write, and the last second; with one more, none does."""
    coding, kind = InstantArrays(), InstantArrays.arrow
    again = HEAD + b"\0\0\0\2" + FIRST + VALUE.pack(VALUE_START, 1, 2, VALUE_END) + b"\x71\x00\x7e\x00\x03"
    ends = np.array([0, len(again)], np.int64)
    assert decode_blobs(ends, pa.py_buffer(again), coding) is None
    assert str(coding.decode(ends, pa.py_buffer(again))[0]) == str(pa.array([[10**9 + 2, 10**9 + 2]], kind))
    last = pa.array([[2**63 - 1], [-(2**63) + 1]], kind)
    made = encode_blobs(last, coding)
    assert made is not None
    ends = np.concatenate([np.zeros(1, np.int64), made[0]])
    assert decode_blobs(ends, pa.py_buffer(made[1]), coding) is None
    assert str(coding.decode(ends, pa.py_buffer(made[1]))[0]) == str(last)
    assert encode_blobs(pa.array([[0, -(2**63)]], kind), coding) is None


@pytest.mark.parametrize("name", ["short", "int", "long", "float", "double", "char", "boolean"])
def test_arrays_with_an_alias_of_null_are_left(name: str) -> None:
    coding = data_type(f"{name}[]").blob
    assert isinstance(coding, JavaArrays)
    array = pa.array([[None if name == "boolean" else coding.null]], coding.arrow)
    assert coding.unstorable(array) is not None
    assert encode_blobs(array, coding) is None


@pytest.mark.parametrize("case", [case for case in FIXED if case[0] == "BigDecimal"], ids=" ".join)
def test_numbers_with_one_digit_more_are_no_values(case: tuple[str, str, str]) -> None:
    coding = fixed(case)
    first = 10**coding.arrow.precision
    for magnitude in (first - 1, first, first + 1, first + 2):
        for above in (0, 1):
            data = magnitude.to_bytes(coding.width - 1, "big")
            entry = bytes([above]) + (data if above else bytes(0xFF - byte for byte in data))
            entries = np.frombuffer(entry, np.uint8).reshape(1, -1)
            taken = magnitude < first
            assert (plain_values(entries, coding) is not None) == (decode_entries(entries, coding) is not None) == taken
