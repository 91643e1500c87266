"""CSV files: dialects, headers, records over blocks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ingest.spec import CsvOptions
from store.errors import FeedError
from tests.ingest_cases import decode, file_id, schema, stream, values, write

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
    routed, rejects = decode(split, stream(form="csv", csv=options), schema(a="int", b="String", c="int"))
    assert values(routed, "a") == [1, 2, 3, 4, 5, 7, 10]
    assert values(routed, "b") == [None, "NA", 'x;"y"', "two\r\nlines", 'q"r', "z", "e"]
    assert values(routed, "c") == [None] * 7
    assert [(row.line, row.reason) for row in rejects.rows] == [
        (9, "a quoted field does not end"),
        (11, "wrong number of fields (1)"),
        (12, "text after a closing quote"),
    ]


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
