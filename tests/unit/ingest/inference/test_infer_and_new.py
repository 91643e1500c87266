"""``schema infer`` and ``new``: with what the two write, a feed takes its sample without a bad row, value by value."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.feed import json_line, rows
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.schema.document.schema_file import load_schema
from tests.support.commands import run_json
from tests.support.ingest.inferring import Inferred, infer_and_new, json_file, with_schema
from tests.support.places import REPOSITORY

NS = 10**9
S = 1_357_016_400  # 2013-01-01T05:00:00Z
BEYOND = ["2013-01-01T00:00:00Z", "9999-12-31T00:00:00Z"]


def ns(text: str) -> int:
    """Nanoseconds of an ISO text with an offset and whole seconds."""
    return round(datetime.fromisoformat(text).timestamp()) * NS


def flights(count: int) -> list[dict[str, str]]:
    return list(itertools.islice(rows(), count))


def flight_values(name: str, texts: list[str]) -> list[Any]:
    """What the demo's columns hold, by a parse of its own."""
    found = [None if text == "NA" else text for text in texts]
    if name == "time_hour":
        return [ns(text) for text in texts]
    return found if name in ("carrier", "tailnum", "origin", "dest") else [None if t is None else int(t) for t in found]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv"])
def test_the_flights_of_the_demo(tmp_path: Path, form: str) -> None:
    some = flights(1500)
    path = tmp_path / f"flights.{form}"
    if form == "json":
        path.write_text("".join(map(json_line, some)))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(some[0]))
            writer.writeheader()
            writer.writerows(some)
    found = infer_and_new(tmp_path, path)
    assert found.bad == []
    demo = load_schema(Fs(), REPOSITORY / "conf/schemas/Nyc13.Flight.schema").schema
    assert found.types == {column.name: column.type.name for column in demo.stored}
    assert found.schema.grouping == tuple(c for c in found.schema.stored if c.name == "carrier")
    for name, got in found.columns.items():
        assert got == flight_values(name, [row[name] for row in some]), name
    assert {key.internal for key in found.keys} == {"EWR", "JFK", "LGA"}
    assert ('null = ["", "NA"]' in found.stream) == (form == "csv")
    assert "of 1,500 values are whole numbers from" in found.above("dep_time")


JSON: list[tuple[str, list[Any], str, list[Any], str]] = [
    (
        "whole numbers",
        [1, None, -43, 1301],
        "int",
        [1, None, -43, 1301],
        "3 of 4 values are whole numbers from -43 to 1,301, 1 is null",
    ),
    ("large ones", [1, 2**40], "long", [1, 2**40], "from 1 to 1,099,511,627,776"),
    ("near the end of int", [1, 2**31 - 1], "long", [1, 2**31 - 1], "an int would leave them little room"),
    ("the null of int", [1, -(2**31)], "long", [1, -(2**31)], ""),
    ("beyond long", [1, 2**70], "BigInteger", ["1", str(2**70)], "a long has no room for them"),
    ("1 and 1.0", [1, 1.0, 2.5], "double", [1.0, 1.0, 2.5], "1 of them without a fraction"),
    ("booleans", [True, None, False], "Boolean", [True, None, False], "2 of 3 values are booleans"),
    ("texts", ["a", "", None], "String", ["a", "", None], "2 different"),
    ("nothing", [None, None], "String", [None, None], "all 2 values are null"),
    ("iso", ["2013-01-01T05:00:00Z", "2013-01-01T06:00:00+01:00"], "Instant", [S * NS, S * NS], "ISO instants"),
    ("local", ["2013-01-01T05:00:00", "2013-01-01 05:00"], "Instant", [S * NS, S * NS], "--zone"),
    (
        "a pattern",
        ["01.02.2013 05:00:00", "14.02.2013 05:00:00"],
        "Instant",
        [ns("2013-02-01T05:00:00Z"), ns("2013-02-14T05:00:00Z")],
        "%d.%m.%Y",
    ),
    ("days or months", ["01/02/2013 05:00:00"], "String", ["01/02/2013 05:00:00"], "both fit"),
    ("dates", ["2013-01-01", "1500-01-02"], "LocalDate", [date(2013, 1, 1), date(1500, 1, 2)], "dates"),
    ("no dates", ["2013-01-01", "2013-02-30"], "String", ["2013-01-01", "2013-02-30"], "texts"),
    ("times of day", ["05:00", "05:00:01.5"], "LocalTime", [time(5), time(5, 0, 1, 500_000)], "times of day"),
    ("no times", ["05:00", "24:00"], "String", ["05:00", "24:00"], "texts"),
    ("beyond 2262", BEYOND, "String", BEYOND, ""),
    ("letters", ["B", "S"] * 60, "char", ["B", "S"] * 60, "single letters"),
    ("few letters", ["B", "S"], "String", ["B", "S"], ""),
    ("ids as texts", ["17", "18"], "String", ["17", "18"], ""),
    ("some in quotes", [17, "18", ""], "long", [17, 18, None], "in quotes"),
    ("arrays", [[1, 2.5], None, []], "double[]", [[1, 2.5], None, []], "arrays"),
    ("arrays of whole numbers", [[1, None], [2**40]], "long[]", [[1, None], [2**40]], "arrays"),
    ("arrays of texts", [["a", None]], "String[]", [["a", None]], "arrays"),
    ("arrays of booleans", [[True], [False]], "boolean[]", [[True], [False]], "arrays"),
    ("arrays of several kinds", [[1, "a"], [[2]]], "String", ['[1, "a"]', "[[2]]"], "JSON text"),
    ("empty arrays", [[], []], "String", ["[]", "[]"], "JSON text"),
    ("a conflict", [1, "x", True], "String", ["1", "x", "true"], "values conflict: 1 whole numbers, first 1 ("),
    ("object or not", [{"a": 1}, 5], "String", ['{"a": 1}', "5"], "values conflict"),
    ("no keys", [{}, None], "String", ["{}", None], "objects"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("values", "kind", "stored", "said"), [case[1:] for case in JSON], ids=[c[0] for c in JSON])
def test_values_of_json(tmp_path: Path, values: list[Any], kind: str, stored: list[Any], said: str) -> None:
    path = json_file(tmp_path / "a.json", [{"v": value} for value in values])
    found = infer_and_new(tmp_path, path)
    assert (found.bad, found.types, found.columns) == ([], {"v": kind}, {"v": stored})
    assert said.replace("--", "- -") in found.above("v")


@pytest.mark.parametrize(
    ("texts", "kind", "stored"),
    [
        (["1.50", "-12.345", "7"], "BigDecimal", [Decimal("1.5"), Decimal("-12.345"), Decimal(7)]),
        (["0.000000000000000000012", "1e3"], "BigDecimal", [Decimal("0.000000000000000000012"), Decimal(1000)]),
        (["7", "12345678901234567890"], "BigInteger", ["7", "12345678901234567890"]),
    ],
)
@pytest.mark.parametrize("form", ["json", "parquet"])
def test_numbers_in_quotes_are_texts_with_the_type_that_holds_them(
    tmp_path: Path, form: str, texts: list[str], kind: str, stored: list[Any]
) -> None:
    path = tmp_path / f"a.{form}"
    if form == "json":
        json_file(path, [{"v": text} for text in texts])
    else:
        pq.write_table(pa.table({"v": texts}), path)
    found = infer_and_new(tmp_path, path)
    said = re.search(r'write (dataType="\w+"( objectCodec="[\w.]+" objectCodecArguments="[0-9,]+")?)', found.above("v"))
    assert found.types["v"] == "String" and said is not None
    file = tmp_path / "Test.Rows.schema"
    file.write_text(found.xml.replace('name="v" dataType="String"', f'name="v" {said[1]}'))
    again = with_schema(tmp_path, path, file)
    assert (again.bad, again.types["v"], again.columns["v"]) == ([], kind, stored)


@pytest.mark.parametrize(
    ("kind", "given", "setting", "stored"),
    [
        ("LocalDate", [17_382, 0], 'unit = "d"', [date(2017, 8, 4), date(1970, 1, 1)]),
        ("LocalDate", [1_501_804_800_000], 'unit = "ms"', [date(2017, 8, 4)]),
        ("LocalTime", ["133000"], 'format = "%H%M%S"', [time(13, 30)]),
        ("LocalTime", ["1:30 PM"], 'format = "%I:%M %p"', [time(13, 30)]),
        ("Instant[]", [["2026-11-20T14:30:00"]], 'zone = "UTC"', None),
        ("Instant[]", [[1_700_000_000]], 'unit = "s"', None),
    ],
)
def test_settings_are_found_for_dates_times_and_arrays(
    tmp_path: Path, kind: str, given: list[Any], setting: str, stored: list[Any] | None
) -> None:
    json_file(tmp_path / "a.json", [{"v": value} for value in given])
    file = tmp_path / "Test.Rows.schema"
    file.write_text(
        '<Table namespace="Test" name="Rows" storageType="NestedPartitionedOnDisk"><Column name="Date" '
        f'dataType="String" columnType="Partitioning"/><Column name="v" dataType="{kind}"/></Table>'
    )
    found = with_schema(tmp_path, tmp_path / "a.json", file)
    assert (found.bad, setting in found.stream) == ([], True)
    assert stored is None or found.columns["v"] == stored


@pytest.mark.parametrize("texts", [["1.5", "x"], ["007", "8"], ["1,5", "2"], ["", "1"], ["NaN", "1.5"]])
def test_texts_that_are_no_plain_numbers_are_texts_alone(tmp_path: Path, texts: list[str]) -> None:
    json_file(tmp_path / "a.json", [{"v": text} for text in texts])
    assert "Big" not in infer_and_new(tmp_path, tmp_path / "a.json").above("v")


@pytest.mark.parametrize(
    ("texts", "arguments", "stored"),
    [
        (["1", "0.12345678901234567890"], "38,20", [Decimal(1), Decimal("0.12345678901234567890")]),
        (["1.5", f"{10**40}.25"], "76,2", [Decimal("1.50"), Decimal(f"{10**40}.25")]),
        (["1.5", "1e-100"], None, [1.5, 1e-100]),
        (["1.5", f"{10**80}.25"], None, ["1.5", f"{10**80}.25"]),
    ],
)
@pytest.mark.parametrize("form", ["json", "csv"])
def test_digits_that_a_double_would_lose(
    tmp_path: Path, form: str, texts: list[str], arguments: str | None, stored: list[Any]
) -> None:
    path = tmp_path / f"a.{form}"
    lines = ["v", *texts] if form == "csv" else [f'{{"v":{text}}}' for text in texts]
    path.write_text("".join(f"{line}\n" for line in lines))
    found = infer_and_new(tmp_path, path)
    (column,) = found.schema.stored
    lost = not isinstance(stored[0], float)
    assert (found.bad, found.types["v"], found.columns["v"]) == ([], "BigDecimal" if lost else "double", stored)
    assert (column.type.origin is not None) == lost == ("a double would lose digits" in found.above("v"))
    assert column.type.origin is None or column.type.origin.arguments == arguments


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_with_the_name_of_a_moment(tmp_path: Path, unit: str, scale: int) -> None:
    path = json_file(tmp_path / "a.jsonl", [{"trade_time": S * scale, "n": S * scale, "order_id": S * scale}])
    found = infer_and_new(tmp_path, path)
    assert found.bad == [] and found.types == {"trade_time": "Instant", "n": "long", "order_id": "long"}
    assert found.columns["trade_time"] == [S * NS] and f"in {unit} since 1970" in found.above("trade_time")
    assert f"instants in {unit} since 1970, write" in found.above("n") and "write" not in found.above("order_id")
    assert [key.value for key in found.keys] == ["2013-01-01"]
    file = tmp_path / "Test.Rows.schema"
    file.write_text(file.read_text().replace('"n" dataType="long"', '"n" dataType="Instant"'))
    assert with_schema(tmp_path, path, file).columns["n"] == [S * NS]


def test_objects_become_columns_of_their_fields(tmp_path: Path) -> None:
    lines = [
        {"trade": {"price": 268.5, "size": 100, "venue": {"name": "X"}}, "sym": "A", "a.b": 1, "extra": {}},
        {"trade": None, "sym": "A"},
        {"trade": {"price": 1}, "sym": None, "late": [1]},
    ]
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", lines))
    assert found.bad == []
    assert found.columns == {
        "trade__price": [268.5, None, 1.0],
        "trade__size": [100, None, None],
        "trade__venue__name": ["X", None, None],
        "sym": ["A", "A", None],
        "a_b": [1, None, None],
        "extra": ["{}", None, None],
        "late": [None, None, [1]],
    }
    assert "of field trade.price" in found.above("trade__price")


def test_names_that_no_column_can_have(tmp_path: Path) -> None:
    names = [
        "Date",
        "date",
        "ignore",
        "class",
        "i",
        "9lives",
        "größe",
        "a b",
        "a_b",
        "日本",
        "-->",
        "${HOME}",
        'q"uo\te',
        "\n",
        "A B",
    ]
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", [{name: n for n, name in enumerate(names)}]))
    assert found.bad == []
    assert sorted(value for (value,) in found.columns.values()) == list(range(len(names)))
    assert list(found.columns)[:10] == [
        "Date_2", "date_3", "ignore_", "class_", "i_", "_9lives", "groe", "a_b", "a_b_2", "field",
    ]  # fmt: skip


def test_what_no_stream_file_can_name_is_reported_and_left_out(tmp_path: Path) -> None:
    lines = ['{"": 1, "\\ud800": 2, "x\\\\": 3, "v": 4}', '{"v": 5}']
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", lines))
    assert found.bad == [] and found.columns == {"x_": [3, None], "v": [4, 5]}
    assert found.xml.count("left out, field") == 2


def test_a_text_that_nothing_can_store_is_a_bad_row_that_is_reported(tmp_path: Path) -> None:
    lines = ['{"v": "a"}', '{"v": "\\u0000"}', '{"v": "b\\ud800"}', "not json", '{"v": "-->"}']
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", lines))
    assert found.columns == {"v": ["a", "-->"]} and len(found.bad) == 3
    assert "2 of the sample cannot be stored in any type and are bad rows" in found.above("v")
    assert "1 records cannot be read, first a.json line 4" in found.xml


CSV: list[tuple[str, list[str], str, list[Any]]] = [
    ("whole numbers", ["1", "", "-3"], "int", [1, None, -3]),
    ("NA", ["1", "NA", "2"], "int", [1, None, 2]),
    ("fractions", ["1", "2.5", "1e3"], "double", [1.0, 2.5, 1000.0]),
    ("codes", ["02134", "10001"], "String", ["02134", "10001"]),
    ("booleans", ["true", "False", ""], "Boolean", [True, False, None]),
    ("a conflict", ["1", "x", "2013-01-01"], "String", ["1", "x", "2013-01-01"]),
    ("blanks", [" 5", "6 "], "long", [5, 6]),
    ("thousands", ['"1,234.5"', "7"], "double", [1234.5, 7.0]),
    ("comma", ['"1.234,5"', '"0,25"'], "double", [1234.5, 0.25]),
    ("instants", ["2013-01-01T05:00:00Z", ""], "Instant", [S * NS, None]),
    ("NA among texts", ["NA", "x", "y"], "String", ["NA", "x", "y"]),
    ("quotes", ['"a""b"', '"x\ny"', "z"], "String", ['a"b', "x\ny", "z"]),
    ("nothing", ["", ""], "String", [None, None]),
]


@pytest.mark.parametrize(("texts", "kind", "stored"), [case[1:] for case in CSV], ids=[case[0] for case in CSV])
def test_values_of_csv(tmp_path: Path, texts: list[str], kind: str, stored: list[Any]) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(("n,v\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts))).encode()))
    found = infer_and_new(tmp_path, path)
    assert found.bad == [] and found.types["v"] == kind and found.columns["v"] == stored


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.psv", "|")])
def test_delimiters_are_found(tmp_path: Path, name: str, mark: str) -> None:
    (tmp_path / name).write_text(f"a{mark}b{mark}c\n1{mark}2,5{mark}x\n")
    found = infer_and_new(tmp_path, tmp_path / name)
    assert found.bad == [] and found.columns == {"a": [1], "b": [2.5], "c": ["x"]}


def test_types_that_parquet_declares(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i8": pa.array([-128, None], pa.int8()),
            "i32": pa.array([1, -(2**31)], pa.int32()),
            "u64": pa.array([1, 2**64 - 1], pa.uint64()),
            "f32": pa.array([1.5, float("nan")], pa.float32()),
            "f64": pa.array([1.5, None]),
            "flag": [True, None],
            "dec": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "at": pa.array([S, S + 86_400], pa.timestamp("s", "UTC")),
            "local": pa.array([S, None], pa.timestamp("s")),
            "day": pa.array([15_706, None], pa.date32()),
            "far": pa.array([datetime(9999, 12, 31, tzinfo=UTC), None], pa.timestamp("ms", "UTC")),
            "text": pa.array(["a", None]).dictionary_encode(),
            "iso": ["2013-01-01T05:00:00Z", None],
            "none": pa.nulls(2),
            "list": [[1], None],
            "lists": [[[1]], None],
            "clock": pa.array([1000, None], pa.time32("ms")),
            "lasting": pa.array([1000, None], pa.duration("us")),
            "bytes": [b"\xff", None],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    found = infer_and_new(tmp_path, tmp_path / "a.parquet")
    assert found.bad == []
    assert found.types == {
        "i8": "short", "i32": "long", "u64": "BigInteger", "f32": "float", "f64": "double", "flag": "Boolean",
        "dec": "BigDecimal", "at": "Instant", "local": "Instant", "day": "LocalDate", "far": "Instant",
        "text": "String", "iso": "Instant", "none": "String", "list": "long[]", "clock": "LocalTime",
        "lasting": "long", "lists": "String",
    }  # fmt: skip
    assert found.columns["i8"] == [-128, None] and found.columns["i32"] == [1, -(2**31)]
    assert found.columns["local"] == [S * NS, None] and found.columns["day"] == [date(2013, 1, 1), None]
    assert found.columns["far"] == [2**63 - 1, None] and found.columns["dec"] == [Decimal("1.50"), None]
    assert found.columns["list"] == [[1], None] and "binary_as_text" in found.xml
    assert 'ignore = ["bytes"]' in found.stream and "lossy" not in found.stream
    assert found.columns["u64"] == [Decimal(1), Decimal(2**64 - 1)] and found.columns["clock"] == [time(0, 0, 1), None]
    arguments = {c.name: c.type.origin.arguments for c in found.schema.stored if c.type.origin is not None}
    assert arguments == {"u64": "20", "dec": "10,2", "day": None, "list": None, "clock": "3"}


def test_several_files_of_which_one_lacks_a_field(tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    (feed / "1.csv").write_text("a,b\n1,x\n")
    (feed / "2.csv").write_text("b,a,c\ny,2,2.5\n")
    (feed / "_hidden.csv").write_text("zzz\n")
    for source in (feed, f"{feed}/*.csv"):
        found = infer_and_new(tmp_path, source)
        assert found.bad == [] and found.columns == {"a": [1, 2], "b": ["x", "y"], "c": [None, 2.5]}
        assert 'missing_columns = "null"' in found.stream and "some files do not declare" in found.above("c")


def test_a_row_is_enough(tmp_path: Path) -> None:
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", [{"a": 1, "s": "x", "at": "2013-01-01T05:00:00Z"}]))
    assert found.bad == [] and found.types == {"a": "int", "s": "String", "at": "Instant"}


def test_the_column_for_dates_is_the_event_and_has_no_nulls(tmp_path: Path) -> None:
    days = ["2013-01-05T00:00:00Z", "2013-01-02T00:00:00Z"]
    lines = [
        {"created": days[1], "event_time": f"2013-01-0{n}T05:00:00Z", "sent": None if n == 2 else days[0]}
        for n in (1, 2, 3)
    ]
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", lines), new=("--zone", "America/New_York"))
    assert [key.value for key in found.keys] == ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert 'value = { column = "event_time", zone = "America/New_York" }' in found.stream


def test_dates_give_the_date_and_stay_dates(tmp_path: Path) -> None:
    lines = [{"day": f"2013-01-0{n}", "n": n} for n in (1, 2)]
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", lines))
    assert found.bad == [] and found.columns["day"] == [date(2013, 1, 1), date(2013, 1, 2)]
    assert [key.value for key in found.keys] == ["2013-01-01", "2013-01-02"]


def test_a_feed_of_today_is_measured_by_the_wall_clock(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    found = infer_and_new(tmp_path, json_file(tmp_path / "a.json", [{"at": now.isoformat()}]))
    assert "clock" not in found.stream


def test_symbols_texts_and_grouping(tmp_path: Path) -> None:
    lines = [
        {"uuid": f"u{n}", "note": "x" * 300, "sym": "ABCDEFGH"[n % 8] * 2, "venue": "XY"[n % 2] * 3}
        for n in range(1200)
    ]
    path = json_file(tmp_path / "a.json", lines)
    found = infer_and_new(tmp_path, path)
    assert found.bad == []
    storage = {column.name: column.storage.value for column in found.schema.stored}
    assert storage == {"uuid": "blob", "note": "blob", "sym": "symbol", "venue": "symbol"}
    assert [column.name for column in found.schema.grouping] == ["sym"]
    assert {key.internal for key in found.keys} == {"XXX", "YYY"}
    wishes = ("--grouping", "venue", "--no-symbols", "note", "--partition-column", "Day")
    chosen = infer_and_new(tmp_path, path, more=(*wishes, "--key-formula", "${autobalance_single}"))
    assert [column.name for column in chosen.schema.grouping] == ["venue"] and chosen.bad == []
    assert chosen.schema.partitioning is not None and chosen.schema.partitioning.name == "Day"
    assert chosen.schema.key_formula == "${autobalance_single}"


def test_the_same_sample_gives_the_same_bytes(tmp_path: Path) -> None:
    def once(place: str) -> Inferred:
        base = tmp_path / place
        base.mkdir()
        lines = [{"s": f"v{n % 7}", "n": n, "o": {"k": n / 2}, "at": f"2013-01-01T05:00:{n:02d}Z"} for n in range(50)]
        return infer_and_new(base, json_file(base / "a.json", lines))

    first, second = once("one"), once("two")
    assert (first.xml, first.stream) == (second.xml, second.stream)


def test_json_output_has_the_schema_and_the_reasons(tmp_path: Path) -> None:
    path = json_file(tmp_path / "rows.json", [{"v": 1, "w": "x"}])
    code, found = run_json(tmp_path, "schema", "infer", str(path))
    assert code == 0 and found["table"] == "Sample.Rows" and found["rows"] == 1 and found["whole"] is True
    assert [(c["name"], c["field"], c["type"]) for c in found["columns"]] == [("v", "v", "int"), ("w", "w", "String")]
    assert found["schema"].startswith('<Table namespace="Sample" name="Rows"')
    assert json.dumps(found)
