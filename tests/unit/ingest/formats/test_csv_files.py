"""CSV files: dialects, headers, nulls, comments, quotes inside of fields."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.formats.csv.csv_records import Header
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.spec import ColumnSpec, CsvOptions
from sparkhaven.ingest.values.typed_rows import Value
from sparkhaven.store.errors import FeedError, SettingsError
from tests.support.ingest.ingest_cases import PLENTY, decode, schema, stream, target, values, write

AMONG = 300  # rows, so that the fast pass is used


def test_csv_dialect(tmp_path: Path) -> None:
    lines = [
        "\ufeffa;b",
        "1;NA",
        '2;"NA"',
        "",
        '3;"x;""y"""',
        '4;"two',
        'lines"',
        '5;q"r',
        '6;"open',
        "7;z",
        "8",
        '9;"c"d',
        "10;e",
    ]
    text = "\r\n".join(lines)
    options = CsvOptions(delimiter=";", null=("", "NA"))
    split = write(tmp_path / "a.csv", text)
    spec = stream(form="csv", csv=options, missing="null")
    routed, rejects = decode(split, spec, schema(a="int", b="String", c="int"))
    assert values(routed, "a") == [1, 2, 3, 4, 5, 10]
    assert values(routed, "b") == [None, "NA", 'x;"y"', "two\r\nlines", 'q"r', "e"]
    assert values(routed, "c") == [None] * 6
    assert [(row.line, row.explanation) for row in rejects.rows] == [(9, "text after a closing quote")]
    assert rejects.rows[0].payload == b'6;"open\r\n7;z\r\n8\r\n9;"c"d'


def test_csv_without_header_and_with_unknown_fields(tmp_path: Path) -> None:
    options = CsvOptions(header=False, names=("a", "b"))
    split = write(tmp_path / "a.csv", "1,2\n" * AMONG)
    routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="int"))
    assert (values(routed, "a"), rejects.ignored) == ([1] * AMONG, {"b": AMONG})


def test_csv_header_that_names_a_field_twice(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="names a field twice") as caught:
        decode(write(tmp_path / "a.csv", "a,b,a\n1,2,3\n"), stream(form="csv"), schema(a="int"))
    assert caught.value.found == "a"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a;b\n1;2\n", "has no field that a column takes"),  # another delimiter: one field, of no column
        ("1,2\n3,4\n", "has no field that a column takes"),  # no header
        ("a,b\r1,2\r3,4\r", "carriage return inside"),  # one line: its rows would be lost
    ],
)
def test_csv_header_that_would_lose_all_values(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(FeedError, match=what) as caught:
        decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="int"))
    assert str(caught.value.where).endswith("a.csv line 1")


def test_comments_and_lines_that_are_skipped(tmp_path: Path) -> None:
    text = 'export of, "today\n#x\n# a,b\na,b\n#1,c\n2,"d\n#e"\n3,#f\n#"\n4,"#g"\n'
    options = CsvOptions(skip_lines=1, comment="#")
    for extra in (0, AMONG):
        split = write(tmp_path / f"{extra}.csv", text + "5,h\n" * extra)
        spec = stream(ColumnSpec("n", meta="line"), form="csv", csv=options)
        routed, rejects = decode(split, spec, schema(a="int", b="String", n="long"))
        assert (rejects.rows, rejects.read) == ([], 3 + extra)
        assert values(routed, "a")[:3] == [2, 3, 4]
        assert values(routed, "b")[:3] == ["d\n#e", "#f", "#g"]
        assert values(routed, "n")[:3] == [6, 8, 10]


@pytest.mark.parametrize("count", [1, AMONG])
def test_delimiter_behind_the_last_field(tmp_path: Path, count: int) -> None:
    text = "a,b,\n" + "1,x,\n" * count + '2,y\n3,"z",\r\n4,,\n5,x,"",\n6,x,""\n7,x,NA\n8,x,,\n'
    options = CsvOptions(trailing_delimiter=True, null=("", "NA"))
    split = write(tmp_path / "a.csv", text)
    routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="int", b="String"))
    assert values(routed, "a") == [1] * count + [2, 3, 4]
    assert values(routed, "b") == ["x"] * count + ["y", "z", None]
    assert [row.explanation for row in rejects.rows] == [f"wrong number of fields ({n})" for n in (4, 3, 3, 4)]
    with pytest.raises(FeedError, match="lacks columns that the table stores"):
        decode(write(tmp_path / "b.csv", "a,,\n1,,\n"), stream(form="csv"), schema(a="int", b="String"))


ONE_FIELD = [
    "S\nx\n\ny\n",
    "S\r\nx\r\n\r\ny\r\n",
    'S\n\n""\nx\n',
    "S\nx\n\n\n",
    "S\n\n",
    "S\n",
    "S\n\nx",
    'S\n"two\n\nlines"\n\n',
]


@pytest.mark.parametrize("text", ONE_FIELD)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("header", [True, False])
def test_an_empty_line_of_a_file_with_one_field_is_a_record(
    tmp_path: Path, text: str, compiled: bool, header: bool
) -> None:
    """As DuckDB reads it. pandas writes ``""`` for a null, so that no line is empty."""
    body = text if header else text.partition("\n")[2]
    options = CsvOptions() if header else CsvOptions(header=False, names=("S",))
    rejects, decoder = Rejects(PLENTY), CsvDecoder([target("String", "S")], [], options, compiled=compiled)
    found: list[object] = []
    for block in line_blocks([body.encode()]):
        rows, used = decoder.decode(block, "f", rejects)
        assert used == len(block) == len(rows) + decoder.lines_left
        found += rows.columns[0].to_pylist()
    (tmp_path / "a.csv").write_text(body, newline="")
    dialect = f"header = {header}, auto_detect = false, columns = {{'S': 'VARCHAR'}}, allow_quoted_nulls = false"
    assert found == [row[0] for row in duckdb.sql(f"FROM read_csv('{tmp_path}/a.csv', {dialect})").fetchall()]


def test_an_empty_line_may_be_a_bad_row_of_its_own(tmp_path: Path) -> None:
    split = write(tmp_path / "a.csv", "a\n1\n\n3\n")
    routed, rejects = decode(split, stream(form="csv", csv=CsvOptions(null=("NA",))), schema(a="int"))
    assert values(routed, "a") == [1, 3]
    assert [(row.line, row.value, row.payload) for row in rejects.rows] == [(3, "", b"")]


@pytest.mark.parametrize("count", [1, AMONG])
@pytest.mark.parametrize("head", ["\n", "\r\n\n", "\ufeff\n", "#x\n\n#y\n\n"])
def test_blank_lines_before_the_header_are_passed_over(tmp_path: Path, head: str, count: int) -> None:
    split = write(tmp_path / "a.csv", f"{head}a,b\n" + "1,x\n" * count)
    spec = stream(ColumnSpec("n", meta="line"), form="csv", csv=CsvOptions(comment="#"))
    routed, rejects = decode(split, spec, schema(a="int", n="long"))
    assert (values(routed, "a"), rejects.rows) == ([1] * count, [])
    assert values(routed, "n")[0] == head.count("\n") + 2


@pytest.mark.parametrize("count", [1, AMONG])
@pytest.mark.parametrize("head", ["a,b,,", ",a,,b", "a,b,x,x", "a,b, , "])
def test_fields_that_no_column_takes_may_share_a_name(tmp_path: Path, head: str, count: int) -> None:
    fields = {"a": "1", "b": "y"}
    line = ",".join(fields.get(name, "z") for name in head.split(","))
    for options in (CsvOptions(), CsvOptions(header=False, names=tuple(head.split(",")))):
        split = write(tmp_path / "a.csv", (f"{head}\n" if options.header else "") + f"{line}\n" * count)
        routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="int", b="String"))
        assert (values(routed, "a"), values(routed, "b"), rejects.rows) == ([1] * count, ["y"] * count, [])


@pytest.mark.parametrize("count", [1, AMONG])
@pytest.mark.parametrize("mark", ["\x01", "\x1f", "\t", " ", "\x7f", "|"])
def test_delimiters(tmp_path: Path, mark: str, count: int) -> None:
    rows = f"1{mark}x\n" * count + f'2{mark}"y{mark}\nz"\n'
    split = write(tmp_path / "a.csv", f"a{mark}b\n{rows}")
    for compiled in (True, False):
        block = next(line_blocks([rows.encode()]))
        options = CsvOptions(header=False, names=("a", "b"), delimiter=mark)
        decoder = CsvDecoder([target("int", "a"), target("String", "b")], [], options, compiled=compiled)
        made = decoder.decode(block, "f", Rejects(PLENTY))[0]
        assert made.columns[1].to_pylist() == ["x"] * count + [f"y{mark}\nz"]
    routed, _ = decode(split, stream(form="csv", csv=CsvOptions(delimiter=mark)), schema(a="int", b="String"))
    assert values(routed, "b") == ["x"] * count + [f"y{mark}\nz"]


@pytest.mark.parametrize("mark", ["\n", "\r", "\0", "é", ""])
def test_delimiters_that_are_none(mark: str) -> None:
    with pytest.raises(SettingsError, match="delimiter of a CSV feed is not one character"):
        CsvDecoder([target("int")], [], CsvOptions(delimiter=mark))


@pytest.mark.parametrize("count", [1, AMONG])
def test_null_in_quotes(tmp_path: Path, count: int) -> None:
    text = '"a","b"\n' + '"1","NA"\n' * count + '"",""\n2,NA\n'
    options = CsvOptions(null=("", "NA"), quoted_null=True)
    split = write(tmp_path / "a.csv", text)
    routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="int", b="String"))
    assert (values(routed, "a"), values(routed, "b")) == ([1] * count + [None, 2], [None] * (count + 2))
    routed, rejects = decode(split, stream(form="csv"), schema(a="int", b="String"))
    assert (values(routed, "b"), len(rejects.rows)) == (["NA"] * count + ["NA"], 1)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.text(alphabet='ab,"\n\r ;#é', max_size=6), min_size=3, max_size=3), min_size=1, max_size=12),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_csv_module_writes_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], quoting: Any, end: str
) -> None:
    if quoting == csv.QUOTE_MINIMAL:  # the module does not quote a lone carriage return before a line feed
        rows = [[text.replace("\r", "") for text in row] for row in rows]
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator=end).writerows(rows)
    split = write(tmp_path_factory.mktemp("csv") / "a.csv", ("a,b,c\n" + out.getvalue()).encode())
    options = CsvOptions(null=())
    routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="String", b="String", c="String"))
    assert rejects.rows == []
    assert list(zip(*(values(routed, name) for name in "abc"), strict=True)) == [tuple(row) for row in rows]


class Counting(CsvDecoder):
    """Counts the records that are read character by character."""

    exact = 0

    def values_of(self, raw: bytes, header: Header, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        self.exact += 1
        return super().values_of(raw, header, file, number, rejects)


@pytest.mark.parametrize("q", ['"', "'", "^"])
@pytest.mark.parametrize("d", [",", "|", "]"])
def test_quotes_inside_of_a_field_leave_a_line_on_the_fast_path(q: str, d: str) -> None:
    lines = (
        (f"5{q} pipe{d}x{d}1", [f"5{q} pipe", "x", "1"]),
        (f"say {q}hi{q}{d}{q}{q}{q}{d}{q}{d}1", [f"say {q}hi{q}", f"{q}{d}", "1"]),
        (f"a{q}{q}b{d}{q}c{d}{q}{q}d{q}{d}{q}e{q}", [f"a{q}{q}b", f"c{d}{q}d", "e"]),
        (f" {q}y{q}{d}z{q}{d}", [f" {q}y{q}", f"z{q}", None]),
        (f"{q}a{q}b{d}c{d}d", "text after a closing quote"),
        (f"a{q}b{d}c", "wrong number of fields (2)"),
        (f"a{q}b{d}{q}c", "a quoted field does not end"),
    )
    options = CsvOptions(header=False, names=("a", "b", "c"), quote=q, delimiter=d)
    decoder = Counting([target("String", name) for name in options.names], [], options)
    (block,) = line_blocks(["".join(f"{text}\n" for text, _ in lines).encode()])
    rejects = Rejects(PLENTY)
    rows, _ = decoder.decode(block, "f", rejects)
    found = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    assert [list(row) for row in found] == [values for _, values in lines if isinstance(values, list)]
    assert [(row.line, row.explanation) for row in rejects.rows] == [
        (number, reason) for number, (_, reason) in enumerate(lines, 1) if isinstance(reason, str)
    ]
    assert decoder.exact == len(rejects.rows)
