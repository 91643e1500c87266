"""CSV records over lines and blocks, and quotes that nothing closes."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.formats.csv.spans import RecordEnd, Spans
from sparkhaven.ingest.spec import CsvOptions, InternalRule
from tests.support.ingest.ingest_cases import decode, file_id, schema, stream, values, write
from tests.support.ingest.small_blocks import small_blocks


def test_csv_quote_that_nothing_closes_spoils_its_own_line(tmp_path: Path) -> None:
    text = 'a,b\n1,x\n2,"open\n3,y\n4\n5,z\n6,""\n'
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert (values(routed, "a"), values(routed, "b")) == ([1, 3, 5, 6], ["x", "y", "z", ""])
    reported = [(row.line, row.explanation, row.payload) for row in rejects.rows]
    assert reported == [(3, "a quoted field does not end", b'2,"open'), (5, "wrong number of fields (1)", b"4")]


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
    assert (row.line, row.explanation, row.payload) == (3, reason, record.replace("\n", end).encode())
    assert rejects.read == 3


def test_record_over_lines_that_is_refused_by_its_route_is_kept_whole(tmp_path: Path) -> None:
    text = 'a,b\n,"x\ny"\n'
    spec = stream(form="csv", internal=InternalRule("column", "a"))
    _, rejects = decode(write(tmp_path / "a.csv", text), spec, schema(a="int", b="String"))
    assert [(row.line, row.payload) for row in rejects.rows] == [(2, b',"x\ny"')]


def test_record_that_is_too_long_is_one_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 40, 100)
    record = '1,"' + "7,z\n" * 100 + '"'
    text = f"a,b\n0,a\n{record}\n9,b\n"
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [0, 9]
    (row,) = rejects.rows
    assert (row.line, row.explanation, row.size) == (3, "record too long", len(record))
    assert record.encode().startswith(row.payload or b"-")


def test_long_file_behind_a_quote_that_nothing_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 40, 100)
    rows = "".join(f"{n},x\n" for n in range(300))
    text = f'a,b\n{rows}-1,"open\n{rows}-2,"closed"\n{rows}'.replace('"closed"', '""')
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [*range(300), *range(300), -2, *range(300)]
    assert [(r.line, r.explanation, r.payload) for r in rejects.rows] == [
        (302, "a quoted field does not end", b'-1,"open')
    ]
    assert rejects.read == 902


def test_record_around_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 60, 100)
    text = 'a,b\n0,a\n1,"x\n' + "w" * 300 + '\ny"\n2,b\n' + "v" * 300 + "\n3,c\n"
    routed, rejects = decode(write(tmp_path / "a.csv", text), stream(form="csv"), schema(a="int", b="String"))
    assert values(routed, "a") == [0, 2, 3]
    reported = [(row.line, row.explanation) for row in rejects.rows]
    assert reported == [(3, "record with a line that is too long"), (7, "line too long")]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from(['1,"a', 'b"', '2,"c"', "3,d", '"', '""', '4,"e"x', '5,"f""g', "6", "", '7,h"i'])),
    block=st.integers(8, 60),
    record=st.integers(10, 80),
    count=st.integers(1, 5),
    compiled=st.booleans(),
)
def test_blocks_of_any_size_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], block: int, record: int, count: int, compiled: bool
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    split = write(path, "a,b\n" + "".join(line + "\n" for line in lines))

    def reported() -> tuple[Any, ...]:
        routed, rejects = decode(split, stream(form="csv"), schema(a="int", b="String"))
        bad = [
            (r.line, r.size) for r in sorted(rejects.rows, key=lambda r: r.line) if r.explanation != "record too long"
        ]
        return values(routed, "a"), values(routed, "b"), bad, rejects.read

    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("sparkhaven.ingest.formats.csv.csv_rows.csv_scanner", lambda *given: None)
        whole = reported()
        small_blocks(patch, block, 10**6, lines=count)
        assert reported() == whole
        small_blocks(patch, block, record)  # longer records are bad: what is left is among the rows of before
        rows, texts, _, _ = reported()
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
            spans.cut(block, np.arange(len(block)), True)
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
    small_blocks(monkeypatch, 10**6, 10**6, lines=10)
    split = write(tmp_path / "a.csv", 'a,b\n1,"' + '"",\n' * 3000 + '"\n2,c\n')
    routed, rejects = decode(split, stream(form="csv"), schema(a="int", b="String"))
    assert (values(routed, "a"), rejects.rows) == ([1, 2], [])
    assert sum(end.steps for end in ends) < 2 * 3000


def test_lines_to_skip_that_reach_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch, 20, 100)
    text = 'some "words, more\n' * 9 + "w" * 300 + "\na,b\n1,x\n"
    options = CsvOptions(skip_lines=10)
    routed, rejects = decode(
        write(tmp_path / "a.csv", text), stream(form="csv", csv=options), schema(a="int", b="String")
    )
    assert (values(routed, "a"), rejects.rows, rejects.read) == ([1], [], 1)


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
