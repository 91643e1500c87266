"""Types with a codec through every way in: nothing becomes null, is rounded, wrapped or cut without a word."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.formats.parquet.typed_values import SourceColumn, exact_value, typed_values
from sparkhaven.ingest.spec import ColumnSpec, TextForm
from sparkhaven.ingest.values.typed_rows import Refusal, typed_array
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.types.model import TableSchema
from tests.support.ingest.coded_doors import (
    TYPED,
    avro_records,
    csv_files,
    data_frame,
    json_files,
    protobuf_records,
)
from tests.support.ingest.coded_texts import DAY, FRACTION, INEXACT, JSON, JSON_TYPE, MIN_DOUBLE, NO, NULLED, OVER, TYPE
from tests.support.ingest.conversions.values import BAD
from tests.support.ingest.ingest_cases import decode, file_id, schema, stream, target

FAR, NO_ZONE, NO_MOMENT = "outside-the-range-of-an-instant", "has-no-time-zone", "not-an-instant"
MICROS = pa.list_(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize("kind", JSON)
def test_json(tmp_path: Path, kind: str) -> None:
    """Each text stands among rows that are good, once for the scanner and once for the exact pass."""
    assert json_files(tmp_path, kind, [*JSON[kind]]) == [*JSON[kind].values()]


@pytest.mark.parametrize("kind", JSON)
def test_csv_writes_arrays_and_maps_as_json_and_others_without_quotes(tmp_path: Path, kind: str) -> None:
    cases = {}
    for text, value in JSON[kind].items():
        nested = text.startswith(("[", "{")) and kind not in ("LocalDate Compact", "BigDecimal 6,2")
        if nested and not kind.startswith(("byte[] ", "com.")):
            cases[text] = NO if value == "not-json" else value
        elif text.startswith('"') and (kind == "byte[]" or "[]" not in kind) and "\\" not in text and len(text) > 2:
            cases[text.strip('"')] = value
    assert csv_files(tmp_path, kind, [*cases]) == [*cases.values()]


ALIASES: dict[str, dict[str, Any]] = {
    "short[]": {"[1,-32768]": [1, None]},
    "char[]": {'["\uffff"]': [None]},
    "double[]": {f"[{MIN_DOUBLE!r},2]": [None, 2.0]},
    "java.util.Map StringIntMapCodec": {'{"a":-2147483648}': [("a", None)]},
}


@pytest.mark.parametrize("kind", ALIASES)
def test_an_element_equal_to_null_is_null_if_that_is_allowed(tmp_path: Path, kind: str) -> None:
    assert json_files(tmp_path, kind, [*ALIASES[kind]], alias=True) == [*ALIASES[kind].values()]


INT_LISTS = pa.list_(pa.int64())
DATES = pa.array([0, -719_162, 2_932_896, -719_163, 2_932_897, None], pa.int32())
MAPS = pa.map_(pa.string(), pa.float64())
# column type, Arrow array, outcomes; BAD: the file is refused
ARROW: list[tuple[str, pa.Array, list[Any]]] = [
    ("LocalDate Compact", pa.array([DAY, None]), [DAY, None]),
    ("LocalDate Compact", DATES.view(pa.date32())[:3], [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    ("LocalDate Compact", pa.array([-719_528, -719_163], pa.int32()).view(pa.date32()), [-719_528, -719_163]),
    ("LocalDate", pa.array(["0000-02-29", "0000-02-30", "-0001-01-01"]), [-719_469, NO, NO]),
    ("LocalDate Compact", pa.array([2_932_897, -719_529], pa.int32()).view(pa.date32()), [INEXACT, INEXACT]),
    ("LocalDate", pa.array(["2024-02-29", "x"]), [DAY, NO]),
    ("LocalDate", pa.array([0], pa.timestamp("us", "UTC")), [BAD]),
    ("LocalDate", pa.array([1]), [BAD]),
    ("LocalTime 3", pa.array([1, None], pa.time32("ms")), [1_000_000, None]),
    ("LocalTime 3", pa.array([1000, 1], pa.time64("us")), [1_000_000, INEXACT]),
    ("LocalTime", pa.array([1], pa.time64("ns")), [1]),
    ("LocalTime", pa.array([1]), [BAD]),
    ("BigDecimal 6,2", pa.array([Decimal("1.50"), Decimal("1.505")], pa.decimal128(9, 3)), [Decimal("1.50"), INEXACT]),
    ("BigDecimal 6,2", pa.array([Decimal("99999.00"), None], pa.decimal256(40, 2)), [OVER, None]),
    ("BigDecimal 6,2", pa.array([2**63, 5], pa.uint64()), [OVER, Decimal("5.00")]),
    ("BigDecimal 6,2", pa.array([1.5]), [BAD]),
    ("BigDecimal 6,2", pa.array(["1.50", "1.555", "x"]), [Decimal("1.50"), INEXACT, NO]),
    ("BigDecimal", pa.array([Decimal("1.50")], pa.decimal128(9, 2)), ["1.5"]),
    ("BigInteger 20", pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
    ("BigInteger", pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(9, 2)), [INEXACT, "2"]),
    ("byte[]", pa.array([b"\x80", b"", None]), [b"\x80", b"", None]),
    ("byte[]", pa.array([b"abc"], pa.binary(3)), [b"abc"]),
    ("byte[]", pa.array([[1]]), [BAD]),
    ("byte[] SimpleByteArrayCodec", pa.array([b"a", b""]), [b"a", NO]),
    ("byte[] ByteArrayCodec 2", pa.array([b"ab", b"a", None]), [b"ab", NO, None]),
    ("com.example.Thing", pa.array([b"a", b""], pa.large_binary()), [b"a", NO]),
    ("boolean[]", pa.array([[True], [None], None]), [[True], NO, None]),
    ("boolean[]", pa.array([[0, 1], [2]]), [[False, True], "neither-0-nor-1"]),
    ("char[]", pa.array([["a", None], ["ab"]]), [[97, None], "not-one-character"]),
    ("char[]", pa.array([[97], [0xFFFF], [0x10000]], pa.list_(pa.uint32())), [[97], NULLED, "not-one-character"]),
    ("short[]", pa.array([[1, None], [2**15], [-(2**15)]]), [[1, None], OVER, NULLED]),
    ("int[]", pa.array([[1], [2**31], None], INT_LISTS), [[1], OVER, None]),
    ("int[]", pa.array([[1.0], [1.5], [math.nan]]), [[1], FRACTION, "not-a-finite-number"]),
    ("int[]", pa.array([["5"]]), [BAD]),
    ("int[]", pa.array([[True]]), [BAD]),
    ("int[]", pa.array([[0]], pa.list_(pa.timestamp("us"))), [BAD]),
    ("long[]", pa.array([[2**64 - 1], [5]], pa.list_(pa.uint64())), [OVER, [5]]),
    ("long[]", pa.array([[Decimal("5.00")], [Decimal("5.50")]]), [[5], FRACTION]),
    ("long[]", pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2)), [[1, 2], [3, 4], None]),
    ("float[]", pa.array([[0.1], [0.5], [math.inf], [1e39]]), [INEXACT, [0.5], [math.inf], OVER]),
    ("double[]", pa.array([[2**53 + 1], [2**53]]), [INEXACT, [float(2**53)]]),
    ("double[]", pa.array([[MIN_DOUBLE], [-0.0]], pa.large_list(pa.float64())), [NULLED, [-0.0]]),
    (
        "Instant[]",
        pa.array([[1, None], [2**61], None, []], MICROS),
        [[1000, None], FAR, None, []],
    ),
    ("Instant[]", pa.array([[-(2**63)], [5]], pa.list_(pa.timestamp("ns", "Asia/Tokyo"))), [NULLED, [5]]),
    ("Instant[]", pa.array([["1970-01-01T00:00:01Z", None], ["1970-01-01"]]), [[10**9, None], NO_ZONE]),
    ("Instant[]", pa.array([[1]], pa.list_(pa.timestamp("us"))), [BAD]),
    ("Instant[]", pa.array([[1]]), [BAD]),
    ("RowSet", pa.array([b"\x20", b"\x0c\x03\x20", b"", b"\x21", None]), [b"\x20", b"\x0c\x03\x20", NO, NO, None]),
    ("RowSet", pa.array(["DAMg", "IQ=="]), [b"\x0c\x03\x20", NO]),
    ("String[]", pa.array([["a", None, "\x00"], None]), [["a", None, "\x00"], None]),
    ("String[]", pa.array([[1]]), [BAD]),
    ("String[]", pa.array([b"\xff"]).view(pa.string()), [BAD]),
    ("StringSet", pa.array([["a", "a"], [None], [str(n) for n in range(65)]]), [["a", "a"], NO, OVER]),
    (
        "java.util.Map",
        pa.array([[("a", 1.5), ("b", None)], [("a", MIN_DOUBLE)], None], MAPS),
        [[("a", 1.5), ("b", None)], NULLED, None],
    ),
    (  # of a key twice the last value counts, as in JSON, and as Spark reads it
        "java.util.Map",
        pa.array(
            [[("a", 1), ("b", None), ("a", 2)], None, [], [("a", 2**53 + 1), ("a", 3)], [("a", 3), ("a", 2**53 + 1)]],
            pa.map_(pa.string(), pa.int64()),
        ),
        [[("a", 2.0), ("b", None)], None, [], [("a", 3.0)], INEXACT],
    ),
    (
        "java.util.Map StringLongMapCodec",
        pa.array([[("a", 1)], [("", 1), ("", 2), ("a", 5), ("", 3)]], pa.map_(pa.string(), pa.int64())),
        [[("a", 1)], [("", 3), ("a", 5)]],
    ),
    ("java.util.Map", pa.array([[(1, 1.5)]], pa.map_(pa.int64(), pa.float64())), [BAD]),
    ("java.util.Map", pa.array([{"a": 1.5}]), [BAD]),
    (
        "java.util.Map StringStringMapCodec",
        pa.array([[("a", None)], [("a", "b")]], pa.map_(pa.string(), pa.string())),
        [NO, [("a", "b")]],
    ),
]


@pytest.mark.parametrize("door", TYPED)
@pytest.mark.parametrize("case", range(len(ARROW)), ids=[f"{kind} of {array.type}" for kind, array, _ in ARROW])
def test_typed_values(tmp_path: Path, door: str, case: int) -> None:
    kind, array, expected = ARROW[case]
    outcomes = TYPED[door](tmp_path, kind, array, False)
    if door == "requeue":  # the payload is text, whose values have no type: what was refused need not be
        assert [value for value, wanted in zip(outcomes, expected, strict=True) if not isinstance(wanted, str)] == [
            wanted for wanted in expected if not isinstance(wanted, str)
        ]
        return
    assert outcomes == expected


@pytest.mark.parametrize("case", range(len(ARROW)), ids=[f"{kind} of {array.type}" for kind, array, _ in ARROW])
def test_whole_columns_and_single_values_agree_where_not_in_doubt(case: int) -> None:
    kind, array, _ = ARROW[case]
    one, source = target(kind), SourceColumn(plain(array))
    values, doubt = typed_values(source, one)
    for row in range(len(array)):
        if doubt is None or not doubt[row]:
            single = exact_value(source, row, one, False)
            assert not isinstance(single, Refusal), (row, single)
            assert str(typed_array([single], one)) == str(values.slice(row, 1)), row


SPARK = {
    "LocalDate": ("date", pa.array([DAY]), [DAY]),
    "LocalTime": ("interval day to second", pa.array([1], pa.duration("us")), [BAD]),
    "BigDecimal 6,2": ("decimal(9,3)", pa.array([Decimal("1.505"), Decimal("1.500")]), [INEXACT, Decimal("1.50")]),
    "byte[] SimpleByteArrayCodec": ("binary", pa.array([b"a", b""]), [b"a", NO]),
    "double[]": ("array<double>", pa.array([[math.inf], [MIN_DOUBLE]]), [[math.inf], NULLED]),
    "int[]": ("array<bigint>", pa.array([[2**31], [7]]), [OVER, [7]]),
    "Instant[]": ("array<timestamp>", pa.array([[1, None]], MICROS), [[1000, None]]),
    "StringSet": ("array<string>", pa.array([["a"], [None]]), [["a"], NO]),
    "java.util.Map": ("map<string,double>", pa.array([[("a", 1.0)]], MAPS), [[("a", 1.0)]]),
}


@pytest.mark.parametrize("kind", SPARK)
def test_data_frame(tmp_path: Path, kind: str) -> None:
    spark, array, expected = SPARK[kind]
    assert data_frame(tmp_path, kind, array, spark) == expected


def _logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


AVRO: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("LocalDate Compact", _logical("int", "date"), [DAY, dt.date(1, 1, 1)], [DAY, dt.date(1, 1, 1)]),
    ("LocalDate", "string", ["2024-02-29", "2024-02-30"], [DAY, NO]),
    ("LocalDate", "int", [1], [NO]),
    ("LocalDate", _logical("long", "timestamp-millis"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], [TYPE]),
    ("LocalTime 3", _logical("long", "time-micros"), [dt.time(0, 0, 1), dt.time(0, 0, 0, 1)], [10**9, INEXACT]),
    ("LocalTime", _logical("int", "time-millis"), [dt.time(0, 0, 1)], [10**9]),
    (
        "BigDecimal 6,2",
        _logical("bytes", "decimal", precision=9, scale=3),
        [Decimal("1.500"), Decimal("1.505")],
        [Decimal("1.50"), INEXACT],
    ),
    ("BigDecimal 6,2", "double", [0.5], [TYPE]),
    ("BigDecimal 6,2", "long", [10000, 7], [OVER, Decimal("7.00")]),
    ("BigInteger", "long", [-(2**63)], [str(-(2**63))]),
    ("byte[] SimpleByteArrayCodec", "bytes", [b"a", b""], [b"a", NO]),
    ("byte[]", "bytes", [b"\x80", b""], [b"\x80", b""]),
    ("byte[] ByteArrayCodec 4", {"type": "fixed", "name": "F", "size": 4}, [b"abcd"], [b"abcd"]),
    ("com.example.Thing", "bytes", [b"a"], [b"a"]),
    ("RowSet", "bytes", [b"\x20", b"\x21"], [b"\x20", NO]),
    ("byte[]", _list("int"), [[1]], [TYPE]),
    ("int[]", _list("long"), [[1], [2**31], [-(2**31)]], [[1], OVER, NULLED]),
    ("int[]", _list(["null", "int"]), [[1, None]], [[1, None]]),
    ("int[]", "string", ["[1]"], [TYPE]),
    ("float[]", _list("double"), [[0.5], [0.1], [math.inf]], [[0.5], INEXACT, [math.inf]]),
    ("double[]", _list("float"), [[0.5]], [[0.5]]),
    ("boolean[]", _list("boolean"), [[True]], [[True]]),
    ("long[]", _list(_logical("long", "timestamp-millis")), [[dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]], [TYPE]),
    ("Instant[]", _list(_logical("long", "timestamp-nanos")), [[1, 2**62], [-(2**63)]], [[1, 2**62], NULLED]),
    ("Instant[]", _list(["null", _logical("long", "timestamp-millis")]), [[1, None], [2**60]], [[10**6, None], FAR]),
    ("Instant[]", _list(_logical("long", "local-timestamp-millis")), [[1]], [NO_ZONE]),
    ("Instant[]", _list("string"), [["1970-01-01T00:00:00.000000001Z"]], [[1]]),
    ("String[]", _list("string"), [["a", ""]], [["a", ""]]),
    ("StringSet", _list({"type": "enum", "name": "E", "symbols": ["A", "B"]}), [["B", "A"]], [["B", "A"]]),
    ("java.util.Map", {"type": "map", "values": "double"}, [{"a": 1.5}, {"a": MIN_DOUBLE}], [[("a", 1.5)], NULLED]),
    ("java.util.Map", _list("double"), [[1.5]], [NO]),
]


@pytest.mark.parametrize("case", range(len(AVRO)), ids=[f"{kind} of {avro}" for kind, avro, _, _ in AVRO])
def test_avro(tmp_path: Path, case: int) -> None:
    kind, avro, given, expected = AVRO[case]
    assert avro_records(tmp_path, kind, given, avro) == expected


PROTOBUF: list[tuple[str, str, list[str], list[Any]]] = [
    ("LocalDate", "string v", ['v: "2024-02-29"', 'v: "x"'], [DAY, NO]),
    ("LocalDate", "google.protobuf.StringValue v", ['v { value: "2024-02-29" }', ""], [DAY, None]),
    ("BigDecimal 6,2", "string v", ['v: "1.505"', 'v: "1.5"'], [INEXACT, Decimal("1.50")]),
    ("BigDecimal 6,2", "int64 v", ["v: 10000", "v: -1"], [OVER, Decimal("-1.00")]),
    ("BigInteger 20", "uint64 v", [f"v: {2**64 - 1}"], [Decimal(2**64 - 1)]),
    ("byte[] SimpleByteArrayCodec", "bytes v", ['v: "ab"', ""], [b"ab", NO]),
    ("byte[]", "google.protobuf.BytesValue v", ['v { value: "ab" }', ""], [b"ab", None]),
    ("int[]", "repeated int64 v", ["v: 1 v: 2", "", f"v: {2**31}", f"v: {-(2**31)}"], [[1, 2], [], OVER, NULLED]),
    ("float[]", "repeated double v", ["v: 0.5", "v: 0.1", "v: nan"], [[0.5], INEXACT, "nan"]),
    ("double[]", "google.protobuf.ListValue v", ["v { values { number_value: 1.5 } }", ""], [[1.5], None]),
    ("double[]", "google.protobuf.ListValue v", ['v { values { string_value: "1" } }'], [JSON_TYPE]),
    ("boolean[]", "repeated bool v", ["v: true"], [[True]]),
    ("Instant[]", "repeated google.protobuf.Timestamp v", ["v { seconds: 1 nanos: 1 } v {}", ""], [[10**9 + 1, 0], []]),
    ("Instant[]", "repeated string v", ['v: "1970-01-01T00:00:01Z"', 'v: "x"'], [[10**9], NO_MOMENT]),
    ("String[]", "repeated string v", ['v: "a" v: ""'], [["a", ""]]),
    ("String[]", "repeated Side v", ["v: BUY"], [["BUY"]]),
    ("StringSet", "repeated string v", ['v: "a"'], [["a"]]),
    ("java.util.Map", "map<string, double> v", ['v { key: "a" value: 1.5 }'], [[("a", 1.5)]]),
    (
        "java.util.Map",
        "google.protobuf.Struct v",
        ['v { fields { key: "a" value { number_value: 1.5 } } }'],
        [[("a", 1.5)]],
    ),
]


@pytest.mark.parametrize("case", range(len(PROTOBUF)), ids=[f"{kind} of {field}" for kind, field, _, _ in PROTOBUF])
def test_protobuf(tmp_path: Path, case: int) -> None:
    kind, field, given, expected = PROTOBUF[case]
    outcomes = protobuf_records(tmp_path, kind, given, field)
    assert ["nan" if str(value) == "[nan]" else value for value in outcomes] == expected


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("LocalDate", "int32 v"),
        ("LocalDate", "google.protobuf.Timestamp v"),
        ("BigDecimal 6,2", "double v"),
        ("byte[]", "repeated int32 v"),
        ("int[]", "int32 v"),
        ("int[]", "repeated string v"),
        ("Instant[]", "repeated int64 v"),
        ("String[]", "map<string, string> v"),
        ("java.util.Map", "map<int32, double> v"),
        ("java.util.Map", "repeated double v"),
    ],
)
def test_a_field_of_protobuf_that_cannot_fit_is_refused_beforehand(tmp_path: Path, kind: str, field: str) -> None:
    with pytest.raises(SettingsError, match="column v"):
        protobuf_records(tmp_path, kind, [""], field)


@pytest.mark.parametrize("door", ["parquet", "delta"])
def test_null_where_the_codec_has_none_is_a_bad_row(tmp_path: Path, door: str) -> None:
    outcomes = TYPED[door](tmp_path, "byte[] ByteArrayCodec 2,notNull", pa.array([b"ab", None, b"cd"]), False)
    assert outcomes == [b"ab", "null-where-the-column-stores-none", b"cd"]


def test_a_value_of_one_column_in_doubt_harms_none_of_another(tmp_path: Path) -> None:
    """The row goes to the exact pass with all of its columns, where each good value must stay one."""
    arrays = {
        "LocalDate": pa.array([719_162, -719_500], pa.int32()).view(pa.date32()),
        "LocalTime": pa.array([1, 2], pa.time32("ms")),
        "byte[]": pa.array([b"\x80", b""]),
        "byte[] ByteArrayCodec 2": pa.array([b"ab", b"cd"]),
        "double[]": pa.array([[0.5, math.nan], None]),
        "java.util.Map": pa.array([[("a", 1.5)], None], MAPS),
    }
    columns = {name: target(kind, name) for name, kind in zip("abcdef", arrays, strict=True)}
    table = TableSchema("Test", "Rows", (*schema(n="int").columns, *(one.column for one in columns.values())))
    path = tmp_path / "a.parquet"
    doubted = pa.array(["1e2", "1e2"])
    pq.write_table(pa.table({"n": doubted, **dict(zip("abcdef", arrays.values(), strict=True))}), path)
    spec = stream(ColumnSpec("n", form=TextForm(quoted=True)), form="parquet")
    routed, rejects = decode(file_id(path), spec, table)
    assert [str(row) for row in rejects.rows] == []
    for name, array in zip("abcdef", arrays.values(), strict=True):
        wanted = array.cast(target(list(arrays)[ord(name) - 97]).column.type.arrow)
        assert str(routed[0].batch.column(name)) == str(wanted)
