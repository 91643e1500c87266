"""The bytes of types with a codec, as Deephaven's codecs write them, in both directions; and what they refuse."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.column.charset import StoredEnds
from sparkhaven.store.format.column.coded import FEW, decode_coded, decode_coded_blobs, encode_coded, encode_coded_blobs
from sparkhaven.store.format.column.prefix import LITTLE
from sparkhaven.store.types.codings.coding import UnfitError
from sparkhaven.store.types.codings.instant_array import FIRST, HEAD, VALUE, VALUE_END, VALUE_START
from sparkhaven.store.types.datatypes import DataType, data_type

HALF_PAST_ONE = 48_600_500_000_000  # 13:30:00.5 in nanoseconds
STREAM = "aced0005 75 72 0002"  # of an array: header, the class up to its name
KNOWN: list[tuple[str, str | None, str | None, Any, str]] = [
    ("LocalDate", None, "Compact", date(2017, 8, 4), "0FC304"),
    ("LocalDate", None, "Full", date(2017, 8, 4), "7735A3C104"),
    ("LocalDate", None, "Compact", None, "FF0000"),
    ("LocalDate", None, None, None, "FF00000000"),
    ("LocalTime", None, None, HALF_PAST_ONE, "35E01DCD6500"),
    ("LocalTime", None, None, None, "800000000000"),
    ("LocalTime", None, "0", None, "800000"),
    ("BigDecimal", None, "20,8", Decimal("12.34"), "010000000000498D5880"),
    ("BigDecimal", None, "20,8", Decimal("-12.34"), "00FFFFFFFFFFB672A77F"),
    ("BigDecimal", None, "20,8", None, "00FFFFFFFFFFFFFFFFFF"),
    ("BigDecimal", None, None, "12.34", "00000002 04D2"),
    ("BigInteger", None, "18", Decimal(5), "010000000000000005"),
    ("java.util.Map", None, None, [("a", 1.5)], "00000001 00000001 61 3FF8000000000000"),
    ("byte[]", "x.SimpleByteArrayCodec", None, b"\x01\x02", "0102"),
    ("byte[]", "x.ByteArrayCodec", "2", b"\x01\x02", "000102"),
    ("byte[]", "x.ByteArrayCodec", "2", None, "FF0000"),
    ("byte[]", "x.ByteArrayCodec", "2,notNull", b"\x01\x02", "0102"),
    (
        "double[]",
        None,
        None,
        [1.5, 2.0],
        f"{STREAM} 5B44 3EA68C14AB635A1E 02 0000 78 70 00000002 3FF8000000000000 4000000000000000",
    ),
    (
        "long[]",
        None,
        None,
        [1, None],
        f"{STREAM} 5B4A 782004B512B17593 02 0000 78 70 00000002 {1:016X} 8000000000000000",
    ),
    ("com.example.Thing", None, None, b"\xac\xed", "ACED"),
]


def encoded(kind: DataType, values: list[Any]) -> tuple[bytes, bytes]:
    """What ``.dat`` and ``.bytes`` get."""
    array = (
        pa.array(values, pa.int64()).view(kind.arrow) if pa.types.is_time(kind.arrow) else pa.array(values, kind.arrow)
    )
    if kind.fixed is not None:
        return bytes(encode_coded(array, kind.fixed)), b""
    assert kind.blob is not None
    ends, data = encode_coded_blobs(array, kind.blob, 0)
    return bytes(ends), bytes(data)


def decoded(kind: DataType, dat: bytes, data: bytes) -> pa.Array:
    """The values of both files."""
    if kind.fixed is not None:
        return decode_coded(pa.py_buffer(dat), kind.fixed, "X.dat", first_row=7)
    assert kind.blob is not None
    return decode_coded_blobs(
        StoredEnds(pa.py_buffer(dat), 0, "LITTLE_ENDIAN", "X.dat", 7), pa.py_buffer(data), kind.blob
    )


@pytest.mark.parametrize(("spelling", "codec", "arguments", "value", "expected"), KNOWN)
def test_bytes_are_those_of_the_codec_and_read_back(
    spelling: str, codec: str | None, arguments: str | None, value: Any, expected: str
) -> None:
    kind = data_type(spelling, codec, arguments)
    assert pickle.loads(pickle.dumps(kind)) == kind
    dat, data = encoded(kind, [value])
    assert (data or dat) == bytes.fromhex(expected)
    read = decoded(kind, dat, data)
    read.validate(full=True)
    assert (read.view(pa.int64()) if pa.types.is_time(read.type) else read).to_pylist() == [value]


WRONG = [
    ("LocalDate", "Compact", "0FC3A4", "month 13"),
    ("LocalDate", "Compact", "0FC45E", "February 30"),
    ("LocalTime", "0", "018000", "hour 25"),
    ("LocalTime", None, "35E03B9ACA00", "a fraction of a whole second"),
    ("BigDecimal", "18,6", "020000000000000001", "a sign that is neither 0 nor 1"),
    ("BigDecimal", "18,6", "01FFFFFFFFFFFFFFFF", "more digits than the precision"),
]


@pytest.mark.parametrize(("spelling", "arguments", "entry", "what"), WRONG, ids=[case[3] for case in WRONG])
def test_bytes_that_stand_for_no_value_are_refused_with_their_row(
    spelling: str, arguments: str | None, entry: str, what: str
) -> None:
    kind = data_type(spelling, None, arguments)
    good = encoded(kind, [None])[0]
    with pytest.raises(CorruptFileError) as caught:
        decoded(kind, good + bytes.fromhex(entry), b"")
    assert caught.value.where == "X.dat, row 8"
    assert caught.value.found == bytes.fromhex(entry).hex(" ")


@pytest.mark.parametrize("cut", [1, 22, 26, 34])
def test_a_stream_that_is_cut_short_is_refused(cut: int) -> None:
    kind = data_type("double[]")
    _, data = encoded(kind, [[1.5]])
    assert len(data) == 35
    with pytest.raises(CorruptFileError, match="stand for no value"):
        decoded(kind, np.array([cut], "<i8").tobytes(), data[:cut])


@pytest.mark.parametrize(
    ("spelling", "arguments", "value"),
    [
        ("LocalDate", "Compact", np.datetime64("10000-01-01", "D").astype(int)),
        ("LocalTime", "3", 1),
        ("long[]", None, [-(2**63)]),
        ("double[]", None, [-1.7976931348623157e308]),
        ("com.example.Thing", None, b""),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_with_its_row(
    spelling: str, arguments: str | None, value: Any
) -> None:
    kind = data_type(spelling, None, arguments)
    plain = {pa.date32(): pa.int32(), pa.time64("ns"): pa.int64()}.get(kind.arrow, kind.arrow)
    array = pa.array([None, value], plain).view(kind.arrow) if plain != kind.arrow else pa.array([None, value], plain)
    with pytest.raises(SchemaMismatchError, match="row 1"):
        encode_coded(array, kind.fixed) if kind.fixed else encode_coded_blobs(array, kind.blob, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spelling", "arguments", "text", "value"),
    [
        ("LocalDate", None, "2024-02-29", 19_782),
        ("LocalDate", None, "2023-02-29", UnfitError),
        ("LocalDate", None, "0000-01-01", -719_528),
        ("LocalDate", None, "0000-02-30", UnfitError),
        ("LocalDate", None, " 2024-02-29", UnfitError),
        ("LocalTime", None, "13:30", 48_600_000_000_000),
        ("LocalTime", "3", "13:30:00.500000", HALF_PAST_ONE),
        ("LocalTime", "3", "13:30:00.0001", UnfitError),
        ("LocalTime", None, "24:00:00", UnfitError),
        ("BigDecimal", "18,6", "1e-6", Decimal("0.000001")),
        ("BigDecimal", "18,6", "1e-7", UnfitError),
        ("BigDecimal", "18,6,allowRounding", "1.0000005", Decimal("1.000001")),
        ("BigDecimal", "18,6", "1000000000000", UnfitError),
        ("BigDecimal", "18,6", "-0", Decimal(0)),
        ("BigDecimal", "18,6", "NaN", UnfitError),
        ("BigDecimal", None, "1e3", "1000"),
        ("BigDecimal", None, "1e99999", UnfitError),
        ("BigDecimal", None, "9" * 3999, "9" * 3999),
        ("BigInteger", None, "9" * 4001, UnfitError),
        ("BigInteger", None, "1.5", UnfitError),
        ("byte[]", None, "AQI=", b"\x01\x02"),
        ("byte[]", None, "AQI", UnfitError),
    ],
)
def test_what_a_text_means_is_the_same_alone_and_in_a_column(
    spelling: str, arguments: str | None, text: str, value: Any
) -> None:
    coding = data_type(spelling, None, arguments).coding
    assert coding is not None
    together, doubt = coding.parse_all(pa.array([None, text], pa.string()))
    assert (together[0].as_py(), doubt is not None and bool(doubt[0])) == (None, False)
    if value is UnfitError:
        with pytest.raises(UnfitError):
            coding.parse(text)
        assert doubt is not None and doubt[1]
        return
    assert coding.parse(text) == value
    if doubt is None:
        assert (together[1].value if pa.types.is_temporal(together.type) else together[1].as_py()) == value


@pytest.mark.parametrize("text", ["9E4000", "-9E4000", "7.7E-4000", "1." + "9" * 3990 + "E-4000", "9" * 4000])
def test_every_number_that_is_taken_is_read_again(text: str) -> None:
    coding = data_type("BigDecimal").blob
    assert coding is not None
    values = pa.array([coding.parse(text)], pa.string())
    ends, data = encode_coded_blobs(values, coding, 0)
    assert decode_coded_blobs(StoredEnds(pa.py_buffer(ends), 0, LITTLE, "here"), pa.py_buffer(data), coding).equals(
        values
    )


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("BigDecimal", bytes(4) + b"\x7f" * 1990),
        ("BigDecimal", b"\0\0\0\1" + b"\x80" + bytes(1989)),
        ("BigInteger", bytes(4) + b"\x7f" * 1990),
        ("Instant[]", HEAD + b"\0\0\0\1" + FIRST + b"w\x0d\x02" + b"\x80" + bytes(11) + b"x"),
    ],
)
def test_values_far_beyond_the_range_are_refused_with_their_row(spelling: str, value: bytes) -> None:
    coding = data_type(spelling).blob
    assert coding is not None
    ends = pa.py_buffer(np.array([len(value)], "<i8"))
    with pytest.raises(CorruptFileError, match="row 0"):
        decode_coded_blobs(StoredEnds(ends, 0, LITTLE, "here"), pa.py_buffer(value), coding)


def test_days_of_years_that_only_five_bytes_hold_are_read() -> None:
    """The compiled core takes the years 0 to 9999: those between are read with others, and by themselves."""
    coding = data_type("LocalDate", "io.deephaven.util.codec.LocalDateCodec", "Full").fixed
    assert coding is not None
    days = {
        (1970, 1, 1): 0,
        (12_345, 2, 28): 3_789_449,
        (-1, 3, 1): -719_834,
        (1969, 12, 31): -1,
        (10_000, 1, 1): 2_932_897,
    }
    packed = [(((year + 999_999_999) << 9) + (month << 5) + day).to_bytes(5, "big") for year, month, day in days]
    read = decode_coded(pa.py_buffer(b"".join(packed)), coding, "X.dat")
    assert read.view(pa.int32()).to_pylist() == list(days.values())
    wrong = (((12_345 + 999_999_999) << 9) + (2 << 5) + 30).to_bytes(5, "big")
    with pytest.raises(CorruptFileError, match="row 9") as caught:
        decode_coded(pa.py_buffer(b"".join([*packed[:2], wrong, *packed])), coding, "X.dat", first_row=7)
    assert caught.value.found == wrong.hex(" ")


def test_a_number_with_a_digit_too_many_is_refused_with_its_row() -> None:
    coding = data_type("BigDecimal", "io.deephaven.util.codec.BigDecimalCodec", "3,2").fixed
    assert coding is not None
    numbers = b"".join(number.to_bytes(16, "little") for number in (999, 0, 1000, 5))
    array = pa.Array.from_buffers(coding.arrow, 4, [None, pa.py_buffer(numbers)])
    with pytest.raises(SchemaMismatchError) as caught:
        encode_coded(array, coding)
    assert (caught.value.where, caught.value.found) == ("row 2", "10.00")


def test_values_that_only_the_exact_pass_takes_are_read_among_many() -> None:
    """A reference to an instant before, which the compiled core leaves; then a value that is none."""
    coding = data_type("Instant[]").blob
    assert coding is not None
    plain = HEAD + b"\0\0\0\1" + FIRST + VALUE.pack(VALUE_START, 7, 2, VALUE_END)
    again = HEAD + b"\0\0\0\2" + FIRST + VALUE.pack(VALUE_START, 1, 2, VALUE_END) + b"\x71\x00\x7e\x00\x03"
    values = [plain] * 5 * FEW
    values[3 * FEW + 5], values[7] = again, b""
    ends = pa.py_buffer(np.cumsum([len(value) for value in values]).astype("<i8"))
    read = decode_coded_blobs(StoredEnds(ends, 0, LITTLE, "here"), pa.py_buffer(b"".join(values)), coding)
    expected: list[list[int] | None] = [[7 * 10**9 + 2] for _ in values]
    expected[3 * FEW + 5], expected[7] = 2 * [10**9 + 2], None
    assert read.cast(pa.list_(pa.int64())).to_pylist() == expected
    values[4 * FEW + 1] = again[:-1] + b"\x09"
    ends = pa.py_buffer(np.cumsum([len(value) for value in values]).astype("<i8"))
    with pytest.raises(CorruptFileError) as caught:
        decode_coded_blobs(StoredEnds(ends, 0, LITTLE, "here"), pa.py_buffer(b"".join(values)), coding)
    assert caught.value.where == f"here, row {4 * FEW + 1}"
