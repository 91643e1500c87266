"""Each type against each kind of wrongness, in each format: the row is named, its neighbours are untouched."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import BadRow
from sparkhaven.ingest.spec import ColumnSpec
from sparkhaven.store.errors import FeedError, SchemaMismatchError
from sparkhaven.store.types.model import TableSchema
from tests.support.ingest.ingest_cases import column, decode, file_id, schema, stream, values, write
from tests.support.ingest.values import CSV_BAD, GOOD, JSON_BAD, NULLED

LONG = 2**63 - 1
AMONG = 300  # good rows on each side, so that the fast pass is used


def test_good_values_of_every_type_come_out_exactly(tmp_path: Path) -> None:
    table = schema(**{f"c_{kind}": kind for kind in GOOD})
    row = {f"c_{kind}": value for kind, (value, _) in GOOD.items()}
    split = write(tmp_path / "a.json", [row] * AMONG + [{}] + [row])
    routed, rejects = decode(split, stream(), table)
    assert rejects.bad == 0
    for kind, (_, stored) in GOOD.items():
        assert values(routed, f"c_{kind}") == [stored] * AMONG + [None, stored]
        found = routed[0].batch.column(f"c_{kind}").type
        found = found.value_type if pa.types.is_dictionary(found) else found
        assert found == column("x", kind).type.arrow


@pytest.mark.parametrize(("kind", "text", "reason"), JSON_BAD)
def test_json_value_refused(tmp_path: Path, kind: str, text: str, reason: str) -> None:
    good, stored = GOOD[kind]
    line = json.dumps({"v": good, "n": "x"})
    bad = f'{{"n":"x","v":{text}}}'
    split = write(tmp_path / "a.json", [line] * AMONG + [bad] + [line] * AMONG)
    routed, rejects = decode(split, stream(), schema(v=kind, n="String"))
    assert values(routed) == [stored] * (2 * AMONG)
    _one_bad(rejects.rows, split.path, AMONG + 1, reason, bad.encode())


@pytest.mark.parametrize(("kind", "text", "reason"), CSV_BAD)
def test_csv_value_refused(tmp_path: Path, kind: str, text: str, reason: str) -> None:
    good, stored = GOOD[kind]
    shown = "é" if kind == "String" else json.dumps(good).strip('"')
    bad = f'x,"{text}"' if "," in text else f"x,{text}"
    split = write(tmp_path / "a.csv", "n,v\n" + f"x,{shown}\n" * AMONG + bad + "\n" + f"x,{shown}\n" * AMONG)
    routed, rejects = decode(split, stream(form="csv"), schema(v=kind, n="String"))
    assert values(routed) == [stored] * (2 * AMONG)
    _one_bad(rejects.rows, split.path, AMONG + 2, reason, bad.encode())


@pytest.mark.parametrize(
    ("kind", "array", "reason"),
    [
        ("byte", pa.array([1, 128, 2]), "overflow"),
        ("int", pa.array([1, -(2**31), 2]), NULLED),
        ("int", pa.array([1.0, 3.5, 2.0]), "has a fraction"),
        ("int", pa.array([Decimal("1.0"), Decimal("3.5"), Decimal("2.0")]), "has a fraction"),
        ("long", pa.array([1, 2**63, 2], pa.uint64()), "overflow"),
        ("float", pa.array([1.0, 1e39, 2.0]), "overflow"),
        ("double", pa.array([1.0, -1.7976931348623157e308, 2.0]), NULLED),
        ("char", pa.array(["a", "ab", "b"]), "not one character"),
        ("String", pa.array(["a", "\x00", "b"]), "reads back as the empty string"),
        ("Instant", pa.array([1, 2**62, 2], pa.timestamp("us", "UTC")), "outside the range of an Instant"),
        ("Instant", pa.array([1, 2, 3], pa.timestamp("us")), "has no time zone"),
    ],
)
def test_parquet_value_refused(tmp_path: Path, kind: str, array: pa.Array, reason: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": array}), path)
    routed, rejects = decode(file_id(path), stream(form="parquet"), schema(v=kind))
    line = 1 if reason == "has no time zone" else 2
    assert rejects.rows[0].line == line
    assert (rejects.rows[0].column, rejects.rows[0].explanation) == ("v", reason)
    assert len(values(routed)) == 3 - rejects.bad


def test_parquet_values_of_many_types(tmp_path: Path) -> None:
    when = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)
    ns = 1_357_016_400_000_000_000
    arrays: dict[str, tuple[str, pa.Array, list[Any]]] = {
        "a": ("int", pa.array([1.0, None, 3.0]), [1, None, 3]),
        "b": ("long", pa.array([1, None, 3], pa.uint32()), [1, None, 3]),
        "c": ("double", pa.array([1.5, float("nan"), float("inf")], pa.float32()), [1.5, None, float("inf")]),
        "d": ("String", pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
        "e": ("Instant", pa.array([when, None, when], pa.timestamp("ms", "America/New_York")), [ns, None, ns]),
        "f": ("Boolean", pa.array([True, None, False]), [True, None, False]),
        "g": ("short", pa.array([Decimal("1.0"), None, Decimal("-2.0")]), [1, None, -2]),
        "h": ("Instant", pa.array([dt.date(2013, 1, 1)] * 3), [1_356_998_400_000_000_000 + 5 * 3600 * 10**9] * 3),
        "i": ("char", pa.array([65, None, 0xE9], pa.uint16()), [65, None, 0xE9]),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: array for name, (_, array, _) in arrays.items()} | {"extra": [1, 2, 3]}), path)
    spec = stream(ColumnSpec("h", zone="America/New_York"), form="parquet", missing="null")
    routed, rejects = decode(file_id(path), spec, schema(**{n: kind for n, (kind, _, _) in arrays.items()}, z="int"))
    assert rejects.rows == []
    assert rejects.ignored == {"extra": 3}
    for name, (_, _, expected) in arrays.items():
        found = values(routed, name)
        if name == "c":
            assert np.isnan(found[1])
            found[1] = None
        assert found == expected, name
    assert values(routed, "z") == [None] * 3


def test_parquet_chars_at_the_ends_of_the_surrogates(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    units = [*[65] * AMONG, 0xD7FF, 0xD800, 0xDBFF, 0xDFFF, 0xE000, None, 0xFFFE, 0xFFFF]
    pq.write_table(pa.table({"c": pa.array(units, pa.uint16())}), path)
    routed, rejects = decode(file_id(path), stream(form="parquet"), schema(c="char"))
    assert values(routed, "c")[AMONG:] == [0xD7FF, 0xD800, 0xDBFF, 0xDFFF, 0xE000, None, 0xFFFE]
    assert len(rejects.rows) == 1  # a number is the unit itself; only that of the null value is none


def test_parquet_column_of_another_type_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": ["1"]}), path)
    with pytest.raises(SchemaMismatchError, match="v cannot be read from this Parquet column") as caught:
        decode(file_id(path), stream(form="parquet"), schema(v="int"))
    assert (caught.value.expected, caught.value.found) == ("a number, a date or a time, for int", "v: string")


def test_damaged_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": [1] * 1000}), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FeedError, match="feed file is damaged, or not a Parquet file"):
        decode(file_id(path), stream(form="parquet"), schema(v="int"))


@pytest.mark.parametrize("charset", ["US_ASCII", "ISO_8859_1"])
def test_text_outside_the_charset(tmp_path: Path, charset: str) -> None:
    table = TableSchema("Test", "Rows", (schema().columns[0], column("v", "String", 1, charset)))
    split = write(tmp_path / "a.json", [{"v": "a"}] * AMONG + [{"v": "€"}, {"v": None}])
    routed, rejects = decode(split, stream(), table)
    assert values(routed) == ["a"] * AMONG + [None]
    assert (rejects.rows[0].explanation, rejects.rows[0].refusal.expected) == (
        "not in the charset (U+20AC)",
        f"text in {charset}",
    )


def test_one_nul_is_text_where_it_takes_two_bytes(tmp_path: Path) -> None:
    table = TableSchema("Test", "Rows", (schema().columns[0], column("v", "String", 1, "UTF_16BE")))
    routed, rejects = decode(write(tmp_path / "a.json", [{"v": "\x00"}] * AMONG), stream(), table)
    assert (values(routed), rejects.bad) == (["\x00"] * AMONG, 0)


def test_null_alias_becomes_null_when_allowed(tmp_path: Path) -> None:
    lines = [{"v": 1}] * AMONG + [{"v": -(2**31)}]
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(allow_null_alias=True), schema(v="int"))
    assert (values(routed)[-1], rejects.bad) == (None, 0)


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("s", 1357016400, 1_357_016_400_000_000_000),
        ("s", 1357016400.5, 1_357_016_400_500_000_000),
        ("ms", 1357016400001, 1_357_016_400_001_000_000),
        ("us", -1, -1_000),
        ("ns", 1357016400000000001, 1_357_016_400_000_000_001),
        ("ms", 9223372036854, 9_223_372_036_854_000_000),
    ],
)
def test_units_of_instants(tmp_path: Path, unit: Any, value: Any, expected: int) -> None:
    for count in (1, AMONG):
        split = write(tmp_path / f"{count}.json", [{"v": value}] * count)
        routed, rejects = decode(split, stream(ColumnSpec("v", unit=unit)), schema(v="Instant"))
        assert (values(routed), rejects.rows) == ([expected] * count, [])


def test_repeated_hour_is_its_first_passing_and_skipped_hour_is_refused(tmp_path: Path) -> None:
    lines = ["2013-11-03 01:30:00", "2013-03-10 02:30:00", "2013-03-10 03:00", "2013-03-10"] * AMONG
    split = write(tmp_path / "a.json", [{"v": line} for line in lines])
    routed, rejects = decode(split, stream(ColumnSpec("v", zone="America/New_York")), schema(v="Instant"))
    hours = [dt.datetime(2013, 11, 3, 5, 30), dt.datetime(2013, 3, 10, 7), dt.datetime(2013, 3, 10, 5)]
    assert values(routed) == [round(h.replace(tzinfo=dt.UTC).timestamp()) * 10**9 for h in hours] * AMONG
    assert rejects.bad == AMONG
    assert rejects.rows[0].explanation == "this local time does not exist"
    assert rejects.rows[0].refusal.expected == "a time that the clocks of America/New_York have shown"


def test_json_lines_that_are_no_objects(tmp_path: Path) -> None:
    good = '{"v":1}'
    odd = [
        "[1]",
        "5",
        "{",
        '{"v":1}{"v":2}',
        '{"v":1,}',
        '{"v":1} {"v":2}',
        '{"x":NaN}',
        '{"x":[1,]}',
        "null",
        '{"v":01}',
    ]
    split = write(tmp_path / "a.json", [good] * AMONG + odd + ["", "   ", good])
    routed, rejects = decode(split, stream(), schema(v="int"))
    assert values(routed) == [1] * (AMONG + 1)
    assert [row.line for row in rejects.rows] == list(range(AMONG + 1, AMONG + len(odd) + 1))
    assert {row.column for row in rejects.rows} == {None}
    assert rejects.read == AMONG + len(odd) + 1
    assert "NaN is no JSON value" in rejects.rows[6].explanation


def test_last_of_two_equal_keys_counts_and_unknown_fields_are_counted(tmp_path: Path) -> None:
    lines = ['{"v":1,"x":{"a":[1,2]}}'] * AMONG + ['{"v":1,"v":2}', '{"v":1,"v":null,"y":1}', '{"v":3,"z":null}']
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(ignore=("y",)), schema(v="int"))
    assert values(routed) == [1] * AMONG + [2, None, 3]
    assert rejects.ignored == {"x": AMONG, "z": 1}
    assert rejects.counts() == {"ignored_fields": AMONG + 1, "ignored.x": AMONG, "ignored.z": 1}


@pytest.mark.parametrize(
    "odd", ['{"v":1,"n":"x",}', '{"v":[1,],"n":"x"}', '{"v":1,"n":"x","y":NaN}', '{"v":1,"n":"x","y":[1,]}']
)
def test_one_line_that_only_a_lenient_parser_takes(tmp_path: Path, odd: str) -> None:
    lines = ['{"v":1,"n":"x"}'] * AMONG + [odd] + ['{"v":1,"n":"x"}'] * AMONG
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(), schema(v="int", n="String"))
    assert values(routed) == [1] * (2 * AMONG)
    assert [row.line for row in rejects.rows] == [AMONG + 1]
    assert rejects.rows[0].explanation.startswith("not JSON")


@pytest.mark.parametrize("odd", ['{"v":1,"v":2}', '{"v":1,"n":"a","v":2}', "{}", '{"v":2,"y":","}', '{"n":"{,","v":2}'])
def test_one_line_of_another_shape(tmp_path: Path, odd: str) -> None:
    lines = ['{"v":1,"n":"x"}'] * AMONG + [odd] + ['{"v":1,"n":"x"}'] * AMONG
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(), schema(v="int", n="String"))
    expected = json.loads(odd)
    assert rejects.rows == []
    assert values(routed) == [1] * AMONG + [expected.get("v")] + [1] * AMONG
    assert values(routed, "n") == ["x"] * AMONG + [expected.get("n")] + ["x"] * AMONG
    assert rejects.ignored == ({"y": 1} if "y" in expected else {})


def test_a_broken_line_of_letters_that_take_several_bytes(tmp_path: Path) -> None:
    for shift in range(4):
        broken = '{"v":"' + "x" * shift + "\ufeff\u20ac" * 100 + '",}}'
        lines = ['{"v":"a"}'] * AMONG + [broken] + ['{"v":"b"}']
        routed, rejects = decode(write(tmp_path / f"{shift}.json", lines), stream(), schema(v="String"))
        assert (values(routed), rejects.bad) == (["a"] * AMONG + ["b"], 1)


def test_escaped_marks_cannot_hide_a_second_key(tmp_path: Path) -> None:
    hidden = r'{"v":"\u002c","v":"b"}'  # the text found has a comma that the line has not
    lines = ['{"v":"a"}'] * AMONG + [hidden]
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(), schema(v="String"))
    assert (values(routed), rejects.bad) == (["a"] * AMONG + ["b"], 0)


@pytest.mark.parametrize("depth", [500, 501, 100_000])
@pytest.mark.parametrize("shape", ['{"v":1,"x":%s}', '{"v":1,"x":"\\"[",%s}'])
@pytest.mark.parametrize("among", [0, AMONG])
def test_what_is_nested_too_deeply_does_not_depend_on_the_neighbours(
    tmp_path: Path, depth: int, shape: str, among: int
) -> None:
    if "," in shape[10:]:
        inner = '"y":' + '{"a":' * (depth - 1) + "1" + "}" * (depth - 1)
    else:
        inner = "[" * (depth - 1) + "]" * (depth - 1)
    lines = ['{"v":1}'] * among + [shape % inner]
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(), schema(v="int"))
    assert [row.explanation for row in rejects.rows] == (["nested too deeply"] if depth > 500 else [])
    assert sum(len(each.batch) for each in routed) == len(lines) - rejects.bad


def test_a_number_too_large_for_decimal_is_shown_as_it_is_written(tmp_path: Path) -> None:
    split = write(tmp_path / "a.json", ['{"v":-2.5e9999999999999999999}'])
    _, rejects = decode(split, stream(), schema(v="long"))
    assert rejects.rows[0].value == "-2.5e9999999999999999999"


def test_brackets_in_texts_are_no_nesting(tmp_path: Path) -> None:
    line = json.dumps({"v": "[{" * 2000 + '\\"' * 3})
    routed, rejects = decode(write(tmp_path / "a.json", [line] * AMONG), stream(), schema(v="String"))
    assert (len(values(routed)), rejects.bad) == (AMONG, 0)


def test_whole_numbers_written_as_decimals(tmp_path: Path) -> None:
    lines = [f'{{"v":{n}.0}}' for n in range(AMONG)] + ['{"v":3.0000000000000000001}', '{"v":1e-400}', '{"v":7}']
    routed, rejects = decode(write(tmp_path / "a.json", lines), stream(), schema(v="long"))
    assert values(routed) == [*range(AMONG), 7]
    assert [row.explanation for row in rejects.rows] == ["has a fraction"] * 2


def test_bytes_that_are_no_utf8_spoil_one_line(tmp_path: Path) -> None:
    good = b'{"v":"a"}\n'
    split = write(tmp_path / "a.json", good * AMONG + b'{"v":"\xff"}\n' + good)
    routed, rejects = decode(split, stream(), schema(v="String"))
    assert values(routed) == ["a"] * (AMONG + 1)
    assert (rejects.rows[0].line, rejects.rows[0].explanation) == (AMONG + 1, "not UTF-8 (at byte 6)")
    assert rejects.rows[0].value == r'{"v":"\xff"}'


def _one_bad(rows: list[BadRow], file: str, line: int, reason: str, payload: bytes) -> None:
    assert [(row.file, row.line, row.column, row.explanation) for row in rows] == [(file, line, "v", reason)]
    assert rows[0].payload == payload
