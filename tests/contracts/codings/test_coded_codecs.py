"""Every type with a codec passes the suite of codecs, with each form of its arguments."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sparkhaven.store.types.codings.row_set import encode_rows
from sparkhaven.store.types.codings.string_map import CODECS
from sparkhaven.store.types.datatypes import CODED, data_type
from sparkhaven.store.types.model import Column, Storage
from tests.contracts.codings.coded_codecs import ANY_TEXT, TEXTS, ArrayContract, CodedContract, SetContract
from tests.support.tables import naive_codecs

EPOCH = date(1970, 1, 1).toordinal()
YEAR_0, FIRST, LAST = (-719_528, date.min.toordinal() - EPOCH, date.max.toordinal() - EPOCH)
DAY = 86_400 * 10**9
DAYS = [0, -1, FIRST, LAST, YEAR_0, *(date(y, m, d).toordinal() - EPOCH for y, m, d in ((2000, 2, 29), (1900, 3, 1)))]
FLOATS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, None]


class TestCompactDates(CodedContract):
    spelling, arguments, null = "LocalDate", "Compact", b"\xff\0\0"
    decode = naive_codecs.compact_date
    borders, unstorable = DAYS, [YEAR_0 - 1, LAST + 1, 2**31 - 1]
    damaged = ((2024 << 9) + (2 << 5) + 30).to_bytes(3, "big")

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.integers(YEAR_0, LAST)


class TestFullDates(CodedContract):
    spelling, arguments, null = "LocalDate", "Full", b"\xff\0\0\0\0"
    decode = naive_codecs.full_date
    borders, unstorable = DAYS, [YEAR_0 - 1, LAST + 1]
    damaged = (((2024 + 999_999_999) << 9) + (13 << 5) + 1).to_bytes(5, "big")

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.integers(YEAR_0, LAST)


class TimeContract(CodedContract):
    spelling = "LocalTime"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        unit = 10 ** (9 - int(self.arguments or 9))
        return st.integers(0, DAY // unit - 1).map(lambda count: count * unit)


class TestNanoTimes(TimeContract):
    null, decode = b"\x80\0\0\0\0\0", naive_codecs.time_of_day(9)
    borders, unstorable = [0, DAY - 1, 1, 45_000_000_000_001], [-1, DAY]
    damaged = (24 << 42).to_bytes(6, "big")


class TestMicroTimes(TimeContract):
    arguments, null, decode = "6", b"\x80\0\0\0\0", naive_codecs.time_of_day(6)
    borders, unstorable = [0, DAY - 1000, 1000], [1, DAY]
    damaged = (60 << 26).to_bytes(5, "big")


class TestMilliTimes(TimeContract):
    arguments, null, decode = "3", b"\x80\0\0\0", naive_codecs.time_of_day(3)
    borders, unstorable = [0, DAY - 10**6, 10**6], [1000]
    damaged = (1000).to_bytes(4, "big")


class TestSecondTimes(TimeContract):
    arguments, null, decode = "0", b"\x80\0\0", naive_codecs.time_of_day(0)
    borders, unstorable = [0, DAY - 10**9, 10**9], [10**6]
    damaged = (60).to_bytes(3, "big")


class DecimalContract(CodedContract):
    spelling = "BigDecimal"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        precision, scale = column.type.arrow.precision, column.type.arrow.scale
        limit = 10**precision - 1
        return st.integers(-limit, limit).map(lambda number: _number(number, scale))


def _number(digits: int, scale: int) -> Decimal:
    sign, plain = digits < 0, Decimal(abs(digits)).as_tuple().digits
    return Decimal((sign, plain, -scale))


def _borders(precision: int, scale: int) -> list[Decimal]:
    most = 10**precision - 1
    return [_number(number, scale) for number in (0, 1, -1, most, -most, 2**31, -(2**31))]


class TestDecimals(DecimalContract):
    arguments, null, decode = "18,6", b"\0" + b"\xff" * 8, naive_codecs.bounded_decimal(6)
    borders, damaged = _borders(18, 6), b"\x02"


class TestRoundedDecimals(DecimalContract):
    arguments, null, decode = "38,10,allowRounding", b"\0" + b"\xff" * 16, naive_codecs.bounded_decimal(10)
    borders, damaged = _borders(38, 10), b"\x01" + b"\xff" * 16


class TestWideDecimals(DecimalContract):
    arguments, null, decode = "76,20", b"\0" + b"\xff" * 32, naive_codecs.bounded_decimal(20)
    borders, damaged = _borders(76, 20), b"\x01" + b"\xff" * 32


class TestWholeNumbers(DecimalContract):
    spelling, arguments, null = "BigInteger", "20", b"\0" + b"\xff" * 9
    decode = naive_codecs.bounded_decimal(0)
    borders, damaged = _borders(20, 0), b"\x03"


class TestFreeDecimals(CodedContract):
    spelling, storage, decode = "BigDecimal", Storage.BLOB, naive_codecs.free_decimal
    borders = ["0", "-0.001", "12.5", "1" + "0" * 60, "-128", "127", "255", "0." + "0" * 50 + "7", "-" + "9" * 90]
    damaged = b"\x7f\xff\xff\xff"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        values = st.tuples(st.integers(-(10**50), 10**50), st.integers(0, 60))
        return values.map(lambda pair: naive_codecs.free_decimal(_stripped(*pair)))


def _stripped(unscaled: int, scale: int) -> bytes:
    while unscaled % 10 == 0 and scale:
        unscaled, scale = unscaled // 10, scale - 1
    return scale.to_bytes(4, "big") + unscaled.to_bytes(30, "big", signed=True)


class TestFreeWholeNumbers(CodedContract):
    spelling, storage, decode = "BigInteger", Storage.BLOB, naive_codecs.free_decimal
    borders = ["0", "-1", "127", "128", "-128", "-129", "255", "256", str(10**80), str(-(2**255))]
    damaged = b"\0\0\0\x01"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.integers(-(10**80), 10**80).map(str)


class BytesContract(CodedContract):
    spelling = "byte[]"
    decode = naive_codecs.as_bytes

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.binary(min_size=1, max_size=40)


class TestSimpleBytes(BytesContract):
    codec, storage = "SimpleByteArrayCodec", Storage.BLOB
    borders, unstorable = [b"\0", b"\xff" * 300, bytes(range(256))], [b""]


class TestBytes(BytesContract):
    codec, storage = "ByteArrayCodec", Storage.BLOB
    borders, unstorable = [b"\0", b"\xff" * 300, bytes(range(256))], [b""]


class TestFixedBytes(BytesContract):
    codec, arguments, null = "ByteArrayCodec", "4", b"\xff\0\0\0\0"
    decode = naive_codecs.flagged_bytes
    borders, unstorable, damaged = [b"\0" * 4, b"\xff" * 4, b"abcd"], [b"abc", b""], b"\x01"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.binary(min_size=4, max_size=4)


class TestByteStreams(CodedContract):
    spelling, storage, decode = "byte[]", Storage.BLOB, naive_codecs.array_stream("B")
    borders, damaged = [b"", b"\0", b"\xff" * 300, bytes(range(256))], b"\xac\xed\x00\x06"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.binary(max_size=40)


class TestBooleanArrays(ArrayContract):
    spelling, decode, elements, borders = "boolean[]", naive_codecs.array_stream("Z"), [True, False], [[True]]
    unstorable = [[True, None]]


class TestCharArrays(ArrayContract):
    spelling, decode, borders = "char[]", naive_codecs.array_stream("C"), [[0x41]]
    elements, unstorable = [0x41, 0, 0xFFFE, 0xD800, None], [[0xFFFF]]


class TestShortArrays(ArrayContract):
    spelling, decode, borders = "short[]", naive_codecs.array_stream("S"), [[1]]
    elements, unstorable = [0, None, -(2**15) + 1, 2**15 - 1], [[0, -(2**15)]]


class TestIntArrays(ArrayContract):
    spelling, decode, borders = "int[]", naive_codecs.array_stream("I"), [[1]]
    elements, unstorable = [0, None, -(2**31) + 1, 2**31 - 1], [[0, -(2**31)]]


class TestLongArrays(ArrayContract):
    spelling, decode, borders = "long[]", naive_codecs.array_stream("J"), [[1]]
    elements, unstorable = [0, None, -(2**63) + 1, 2**63 - 1], [[0, -(2**63)]]


class TestFloatArrays(ArrayContract):
    spelling, decode, borders = "float[]", naive_codecs.array_stream("F"), [[1.5]]
    elements, unstorable = FLOATS, [[naive_codecs.ELEMENTS["F"][1]]]


class TestDoubleArrays(ArrayContract):
    spelling, decode, borders = "double[]", naive_codecs.array_stream("D"), [[1.5]]
    elements, unstorable = FLOATS, [[naive_codecs.ELEMENTS["D"][1]]]


class TestTextArrays(CodedContract):
    spelling, storage, decode = "String[]", Storage.BLOB, naive_codecs.text_array_stream
    borders = [["a"], [], [None], TEXTS, ["a", "a", None, "a"], ["z" * 70_000, "\0" * 33_000]]
    damaged = b"\xac\xed\x00\x06"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.lists(st.none() | ANY_TEXT, max_size=5)


class TestInstantArrays(ArrayContract):
    spelling, decode, borders = "Instant[]", naive_codecs.instant_array_stream, [[1]]
    elements = [None, 0, -1, 1, -(10**9), 2**63 - 1, -(2**63) + 1, 1_700_000_000_123_456_789]
    unstorable = [[0, -(2**63)]]


class MapContract(CodedContract):
    spelling, storage = "Map", Storage.BLOB
    values: list[Any]
    damaged = b"\xff\xff\xff\xff"

    def boundaries(self, column: Column) -> list[Any]:
        return [
            [(text, self.values[0]) for text in TEXTS],
            [],
            [(f"k{number}", value) for number, value in enumerate(self.values)],
        ]

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        return st.dictionaries(ANY_TEXT, st.sampled_from(self.values), max_size=4).map(lambda value: [*value.items()])


class TestBooleanMaps(MapContract):
    codec, decode, borders = "StringBooleanMapCodec", naive_codecs.text_map("Boolean"), [[("a", True)]]
    values = [True, False, None]


class TestDoubleMaps(MapContract):
    codec, decode, borders = "StringDoubleMapCodec", naive_codecs.text_map("Double"), [[("a", 1.5)]]
    values, unstorable = FLOATS, [[("a", naive_codecs.ELEMENTS["D"][1])]]


class TestFloatMaps(MapContract):
    codec, decode, borders = "StringFloatMapCodec", naive_codecs.text_map("Float"), [[("a", 1.5)]]
    values, unstorable = FLOATS, [[("a", naive_codecs.ELEMENTS["F"][1])]]


class TestIntMaps(MapContract):
    codec, decode, borders = "StringIntMapCodec", naive_codecs.text_map("Int"), [[("a", 1)]]
    values, unstorable = [0, None, -(2**31) + 1, 2**31 - 1], [[("a", -(2**31))]]


class TestLongMaps(MapContract):
    codec, decode, borders = "StringLongMapCodec", naive_codecs.text_map("Long"), [[("a", 1)]]
    values, unstorable = [0, None, -(2**63) + 1, 2**63 - 1], [[("a", -(2**63))]]


class TestTextMaps(MapContract):
    codec, decode, borders = "StringStringMapCodec", naive_codecs.text_map("String"), [[("a", "b")]]
    values, unstorable = TEXTS, [[("a", None)], [("a", "b"), ("a", "c")]]


class TestRowSets(CodedContract):
    spelling, storage, decode = "RowSet", Storage.BLOB, naive_codecs.row_set
    borders = [*map(bytes.fromhex, ("20", "0c0320", "1c0400fc06fe20", "0a000186a00affd3bfe020", "0c000cfc0c060cfe20"))]
    unstorable, damaged = [b"", b"\x21", b"\x20\x20", b"\x0c\xff\x20", b"\x0c\x03"], b"\x38"

    def strategy(self, column: Column) -> st.SearchStrategy[Any]:
        rows = st.sets(st.integers(0, 10**6), max_size=6).map(lambda found: np.array(sorted(found), np.int64) * 2)
        return rows.map(lambda starts: encode_rows(starts, starts + 1))


class TestOpaqueBytes(BytesContract):
    spelling, storage = "com.example.Thing", Storage.BLOB
    borders, unstorable = [b"\0", b"\xac\xed\x00\x05", b"\xff" * 300], [b""]


class TestSets(SetContract):
    pass


def _suites(suite: Any) -> list[type[CodedContract]]:
    return [suite, *(lower for direct in suite.__subclasses__() for lower in _suites(direct))]


def test_no_type_with_a_codec_is_without_its_class() -> None:
    suites = [suite for suite in _suites(CodedContract) if suite.__name__.startswith("Test")]
    names = {data_type(suite.spelling).name for suite in suites}
    assert names | {"StringSet"} == {row.name for row in CODED} | {"com.example.Thing"}
    assert {suite.codec for suite in suites} >= {*CODECS}
    storages = {(suite.storage, data_type(suite.spelling).name) for suite in suites}
    assert {name for storage, name in storages if storage is Storage.FIXED} >= {"LocalDate", "LocalTime", "byte[]"}
    assert {
        (storage, name) for storage in (Storage.FIXED, Storage.BLOB) for name in ("BigDecimal", "BigInteger")
    } < storages
