"""CSV files: dialects, headers, records over blocks."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.bad_rows import BadRow, Rejects
from ingest.content.lines import line_blocks
from ingest.formats.csv.records import Header, sort_lines
from ingest.formats.csv.rows import CsvRows
from ingest.formats.csv.spans import RecordEnd, Spans
from ingest.options.formats import CsvOptions
from ingest.spec import ColumnSpec, InternalRule
from ingest.values.refusals import Value
from store.errors import FeedError
from tests.support.ingest.ingest_cases import PLENTY, decode, file_id, schema, stream, target, values, write

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
    assert [(row.line, row.reason) for row in rejects.rows] == [(9, "text after a closing quote")]
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
        ("\na,b\n1,2\n", "has no field that a column takes"),
        ("a,b\r1,2\r3,4\r", "carriage return inside"),  # one line: its rows would be lost
    ],
)
def test_csv_header_that_would_lose_all_values(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(FeedError, match=what) as caught:
        decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="int"))
    assert str(caught.value.where).endswith("a.csv line 1")


def test_csv_quote_that_nothing_closes_spoils_its_own_line(tmp_path: Path) -> None:
    text = 'a,b\n1,x\n2,"open\n3,y\n4\n5,z\n6,""\n'
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert (values(routed, "a"), values(routed, "b")) == ([1, 3, 5, 6], ["x", "y", "z", ""])
    told = [(row.line, row.reason, row.payload) for row in rejects.rows]
    assert told == [(3, "a quoted field does not end", b'2,"open'), (5, "wrong number of fields (1)", b"4")]


WHOLE = [
    ('1,"x\n7,z\ny",2,3', "wrong number of fields (4)"),  # one too many
    ('"1\n7,z\n"', "wrong number of fields (1)"),
    ('1,"x\n7,z\ny"z', "text after a closing quote"),
    ('1,"x"y,"\n7,z\n"', "text after a closing quote"),  # a quote that opens behind the fault
    ('1,"x\n7,z\n""y"z,"7,z\n"', "text after a closing quote"),
    ('x,"\n7,z\n"', "not a number"),
]


@pytest.mark.parametrize(("record", "reason"), WHOLE, ids=range(len(WHOLE)))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_no_line_of_a_bad_record_is_a_row(tmp_path: Path, record: str, reason: str, end: str) -> None:
    text = f"a,b\n0,a\n{record}\n9,b\n".replace("\n", end)
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [0, 9]
    (row,) = rejects.rows
    assert (row.line, row.reason, row.payload) == (3, reason, record.replace("\n", end).encode())
    assert rejects.read == 3


def test_record_over_lines_that_is_refused_by_its_route_is_kept_whole(tmp_path: Path) -> None:
    text = 'a,b\n,"x\ny"\n'
    spec = stream(form="csv", internal=InternalRule("column", "a"))
    _, rejects = decode(write(tmp_path / "a.csv", text), spec, schema(a="int", b="String"))
    assert [(row.line, row.payload) for row in rejects.rows] == [(2, b',"x\ny"')]


def _blocks(monkeypatch: pytest.MonkeyPatch, block: int, record: int, lines: int = 10**6) -> None:
    """Small blocks and records, so that small files reach over their ends."""
    small = partial(line_blocks, block=block, max_line=record, lines=lines)
    monkeypatch.setattr("ingest.feeds.files.decode.line_blocks", small)
    monkeypatch.setattr(
        "ingest.feeds.files.decode.chunks", lambda fs, split: iter_chunks(Path(split.path).read_bytes(), 7)
    )
    monkeypatch.setattr("ingest.formats.csv.spans.MAX_RECORD", record)
    monkeypatch.setattr("ingest.formats.csv.rows.MAX_RECORD", record)


def iter_chunks(data: bytes, size: int) -> Iterator[bytes]:
    """The data in pieces."""
    return (data[at : at + size] for at in range(0, len(data), size))


def test_record_that_is_too_long_is_one_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _blocks(monkeypatch, 40, 100)
    record = '1,"' + "7,z\n" * 100 + '"'
    text = f"a,b\n0,a\n{record}\n9,b\n"
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [0, 9]
    (row,) = rejects.rows
    assert (row.line, row.reason, row.size) == (3, "record too long", len(record))
    assert record.encode().startswith(row.payload or b"-")


def test_long_file_behind_a_quote_that_nothing_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _blocks(monkeypatch, 40, 100)
    rows = "".join(f"{n},x\n" for n in range(300))
    text = f'a,b\n{rows}-1,"open\n{rows}-2,"closed"\n{rows}'.replace('"closed"', '""')
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [*range(300), *range(300), -2, *range(300)]
    assert [(r.line, r.reason, r.payload) for r in rejects.rows] == [(302, "a quoted field does not end", b'-1,"open')]
    assert rejects.read == 902


def test_record_around_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _blocks(monkeypatch, 60, 100)
    text = 'a,b\n0,a\n1,"x\n' + "w" * 300 + '\ny"\n2,b\n' + "v" * 300 + "\n3,c\n"
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [0, 2, 3]
    told = [(row.line, row.reason) for row in rejects.rows]
    assert told == [(3, "record with a line that is too long"), (7, "line too long")]


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from(['1,"a', 'b"', '2,"c"', "3,d", '"', '""', '4,"e"x', '5,"f""g', "6", "", '7,h"i'])),
    block=st.integers(8, 60),
    record=st.integers(10, 80),
    count=st.integers(1, 5),
)
def test_blocks_of_any_size_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block: int, record: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    split = write(path, "a,b\n" + "".join(line + "\n" for line in lines))

    def told() -> tuple[Any, ...]:
        routed, rejects = decode(split, stream(form="csv"), schema(a="int", b="String"))
        bad = [(r.line, r.size) for r in sorted(rejects.rows, key=lambda r: r.line) if r.reason != "record too long"]
        return values(routed, "a"), values(routed, "b"), bad, rejects.read

    whole = told()
    with pytest.MonkeyPatch.context() as patch:
        _blocks(patch, block, 10**6, count)
        assert told() == whole
        _blocks(patch, block, record)  # longer records are bad: what is left is among the rows of before
        rows, texts, _, _ = told()
        kept = iter(zip(whole[0], whole[1], strict=True))
        assert all(row in kept for row in zip(rows, texts, strict=True))


HOSTILE = {
    "an open quote": lambda n: '1,"open\n' + '2,"x"\n' * n,
    "an open quote, doubled ones behind": lambda n: '1,"open\n' + '2,"",z\n' * n,
    "open quotes": lambda n: '1,"open\n' * n,
    "quotes": lambda n: '"\n' * n,
    "three quotes": lambda n: '"""\n' * n,
    "text behind quotes": lambda n: '"a"b\n' * n,
    "a long line": lambda n: '1,"' + "," * n,
    "a long odd line": lambda n: 'a"b,' + '"x",' * n,
    "one long record": lambda n: '1,"' + "a,b\n" * n + '"\n',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_steps_grow_with_the_file_and_no_faster(name: str) -> None:
    def steps(n: int) -> int:
        options = CsvOptions(header=False, names=("a", "b"))
        blocks, spans = line_blocks([HOSTILE[name](n).encode()]), Spans(options)
        for block in blocks:
            _, odd = sort_lines(block, 0, options)
            spans.cut(block, odd, True)
        return spans.end.steps

    assert steps(20_000) <= 10 * steps(2_000) + 10
    assert steps(20_000) <= 20 * 20_000


def test_record_over_many_blocks_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[RecordEnd] = []
    init = RecordEnd.__init__

    def noted(self: RecordEnd, options: CsvOptions) -> None:
        init(self, options)
        ends.append(self)

    monkeypatch.setattr(RecordEnd, "__init__", noted)
    _blocks(monkeypatch, 10**6, 10**6, lines=10)
    split = write(tmp_path / "a.csv", 'a,b\n1,"' + '"",\n' * 3000 + '"\n2,c\n')
    routed, rejects = decode(split, stream(form="csv"), schema(a="int", b="String"))
    assert (values(routed, "a"), rejects.rows) == ([1, 2], [])
    assert sum(end.steps for end in ends) < 2 * 3000


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


def test_lines_to_skip_that_reach_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _blocks(monkeypatch, 20, 100)
    text = 'some "words, more\n' * 9 + "w" * 300 + "\na,b\n1,x\n"
    options = CsvOptions(skip_lines=10)
    routed, rejects = decode(
        write(tmp_path / "a.csv", text), stream(form="csv", csv=options), schema(a="int", b="String")
    )
    assert (values(routed, "a"), rejects.rows, rejects.read) == ([1], [], 1)


@pytest.mark.parametrize("count", [1, AMONG])
def test_delimiter_behind_the_last_field(tmp_path: Path, count: int) -> None:
    text = "a,b,\n" + "1,x,\n" * count + '2,y\n3,"z",\r\n4,,\n5,x,"",\n6,x,""\n7,x,NA\n8,x,,\n'
    options = CsvOptions(trailing_delimiter=True, null=("", "NA"))
    split = write(tmp_path / "a.csv", text)
    routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="int", b="String"))
    assert values(routed, "a") == [1] * count + [2, 3, 4]
    assert values(routed, "b") == ["x"] * count + ["y", "z", None]
    assert [row.reason for row in rejects.rows] == [f"wrong number of fields ({n})" for n in (4, 3, 3, 4)]
    with pytest.raises(FeedError, match="names a field twice"):
        decode(write(tmp_path / "b.csv", "a,,\n1,,\n"), stream(form="csv"), schema(a="int", b="String"))


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
    st.lists(
        st.lists(st.text(alphabet='ab,"\n\r ;#é', max_size=6), min_size=3, max_size=3),
        min_size=1,
        max_size=12,
    ),
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


@pytest.mark.slow
def test_csv_record_over_the_end_of_a_block(tmp_path: Path) -> None:
    wide = "x" * 500_000
    rows = "".join(f'{n},"{wide}\n{wide}"\n' for n in range(40))  # 40 MB: several blocks
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(("a,b\n" + rows).encode(), 1))
    routed, rejects = decode(file_id(path), stream(form="csv"), schema(a="int", b="String"))
    assert rejects.rows == []
    assert values(routed, "a") == list(range(40))
    assert set(values(routed, "b")) == {f"{wide}\n{wide}"}


class Counting(CsvRows):
    """Counts the records that are read character by character."""

    exact = 0

    def one(self, raw: bytes, header: Header, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        self.exact += 1
        return super().one(raw, header, file, number, rejects)


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
    assert [(row.line, row.reason) for row in rejects.rows] == [
        (number, reason) for number, (_, reason) in enumerate(lines, 1) if isinstance(reason, str)
    ]
    assert decoder.exact == len(rejects.rows)
