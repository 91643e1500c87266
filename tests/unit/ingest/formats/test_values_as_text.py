"""``as_text``: of JSON the source text byte for byte, of binary formats one canonical text that JSON readers take."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sparkhaven.ingest.bad_rows import Rejects, as_batch
from sparkhaven.ingest.content.lines import line_blocks
from sparkhaven.ingest.feeds.files.decode import requeue_file_rows
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.binary_records import from_binary
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import ColumnSpec, TextForm
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.ingest.values.json_text import Moment, WireValue, json_text, plain_text
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.instants import DAY_NS
from tests.support.ingest.ingest_cases import PLENTY, decode, schema, stream, target, values, write
from tests.support.ingest.messages import Fake
from tests.support.ingest.messages import decode as decode_messages

TEXT = TextForm(as_text=True)
SOURCES = [
    "0.0000001",
    "0.00000000",
    "1e5",
    "-0",
    "-0.0",
    "1E+05",
    "1.50",
    "123456789012345678901234567890",
    "1e-400",
    "2.5e9999999999999999999",
    "true",
    "false",
    '{"px":0.00000012,"q":"0.10"}',
    "[1e5,1.0e-3]",
    '{"a":1,"a":2}',
    '{ "a" : [ 1 ,\t2 ] }',
    "[]",
    "{ }",
    r'{"\u00e9":"\ud83d\ude00","é":"\/"}',
    '[["}",",",":","\\"]",{"]":"{"}]]',
    "[null, true]",
    "[" * 300 + "]" * 300,
    "1" * 5000,
]


@pytest.mark.parametrize("compiled", [True, False])
def test_json_as_it_stands(compiled: bool) -> None:
    one = replace(target("String"), form=TEXT)
    inner = replace(target("String", "w"), source="o.v", form=replace(TEXT, trim=True))
    lines = [f'{{"x":[{{"v":0}}], "v": 7 ,"v" :  {text} ,"o":{{"v":1}}, "o":{{ "v":{text}\t}}}}' for text in SOURCES]
    lines += [f'{{"v":{text},"o":{{"\\u0076":{text}}}}}' for text in SOURCES]
    block = next(line_blocks(["\n".join(lines).encode()]))
    rejects = Rejects(PLENTY)
    rows = JsonDecoder([one, inner], ["x"], compiled=compiled).decode(block, "f", rejects)
    assert rejects.rows == []
    assert [column.to_pylist() for column in rows.columns] == [SOURCES * 2, SOURCES * 2]


def test_texts_and_nulls_stay_what_they_are(tmp_path: Path) -> None:
    spec = stream(ColumnSpec("v", form=TEXT))
    routed, _ = decode(write(tmp_path / "a.json", ['{"v":"1e5"}', '{"v":null}', "{}"]), spec, schema(v="String"))
    assert values(routed) == ["1e5", None, None]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16le", "windows-1252"])
def test_of_other_encodings_the_characters_stand(tmp_path: Path, encoding: str) -> None:
    spec = stream(ColumnSpec("v", form=TEXT), form="json")
    options = replace(spec.feed, encoding=encoding)  # type: ignore[type-var]
    split = write(tmp_path / "a.json", '{"v": { "é" : 1e5 }}\n'.encode(encoding))
    routed, _ = decode(split, replace(spec, feed=options), schema(v="String"))
    assert values(routed) == ['{ "é" : 1e5 }']


def test_values_and_keys_of_messages() -> None:
    specs = [ColumnSpec("v", form=TEXT), ColumnSpec("k", source="k", of="key", form=TEXT)]
    message = Fake(0, b'{"v":[1e5, 0.0000001]}', b'{"k":{"a":1,"a":2}}')
    _, rejects, found = decode_messages([message], {"v": "String", "k": "String"}, specs, key_format="json")
    assert (rejects.rows, found) == ([], {"v": ["[1e5, 0.0000001]"], "k": ['{"a":1,"a":2}']})


def test_a_rejected_row_shows_the_source_and_gives_it_again(tmp_path: Path) -> None:
    spec = stream(ColumnSpec("v", form=TEXT))
    line = '{"v": {"a":1e5,"a":0.0000001}, "n": 1E+2}'
    split = write(tmp_path / "a.json", [line.replace("1E+2", "1.50E-7")])
    _, rejects = decode(split, spec, schema(v="String", n="long"))
    (bad,) = rejects.rows
    assert (bad.value, bad.payload) == ("1.50E-7", line.replace("1E+2", "1.50E-7").encode())
    (row,) = as_batch([replace(bad, payload=line.encode(), time_ns=0)]).to_pylist()
    targets = resolve_targets(spec, schema(v="String", n="long"))
    again = requeue_file_rows(
        "f", [row], Decoding(spec, FilesOptions("/feed"), tuple(targets), strict=spec.strict), 0, Rejects(PLENTY)
    )
    assert again.rows.columns[0].to_pylist() == ['{"a":1e5,"a":0.0000001}']


AT = 1_795_184_400_000_000  # 2026-11-20T14:20:00Z, in us
CANONICAL: list[tuple[Any, str]] = [
    (b"\xff\x00AB", "/wBBQg=="),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (1.5, "1.5"),
    (1e300, "1e+300"),
    (0.1, "0.1"),
    (-0.0, "-0.0"),
    (True, "true"),
    (7, "7"),
    (2**70, str(2**70)),
    (Decimal("0.00000010"), "0.00000010"),
    (Decimal("0E-8"), "0.00000000"),
    (Decimal("-12.50"), "-12.50"),
    (Moment("instant", AT, 1000), "2026-11-20T14:20:00Z"),
    (Moment("instant", AT + 120, 1000), "2026-11-20T14:20:00.000120Z"),
    (Moment("local time", AT * 1000 + 1, 1), "2026-11-20T14:20:00.000000001"),
    (Moment("date", 20777, DAY_NS), "2026-11-20"),
    (Moment("date", -719529, DAY_NS), "-0001-12-31"),
    (Moment("time of day", 34200000, 10**6), "09:30:00"),
    (Moment("instant", 253402300800000, 10**6), "10000-01-01T00:00:00Z"),
    (WireValue("duration", "P1M2DT3.004S"), "P1M2DT3.004S"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ('é"', 'é"'),
]


@pytest.mark.parametrize(("value", "text"), CANONICAL, ids=[str(n) for n in range(len(CANONICAL))])
def test_canonical_texts(value: Any, text: str) -> None:
    one = replace(target("String"), form=TEXT)
    assert plain_text(value) == from_binary(value, one) == text
    nested = from_binary({"a": [value, None], "b": {}}, one)
    assert isinstance(nested, str)
    plain = isinstance(value, bool | int | Decimal) or (isinstance(value, float) and value - value == 0)
    assert nested == f'{{"a":[{text if plain else json.dumps(text, ensure_ascii=False)},null],"b":{{}}}}'
    assert json.loads(nested, parse_constant=pytest.fail)["a"][1] is None
    assert json_text([value]) == nested[5 : nested.index(",null")] + "]"


def test_what_has_no_text_is_refused() -> None:
    one = replace(target("String"), form=TEXT)
    refused = from_binary([Moment("time of day", 86_400_000, 10**6)], one)
    assert isinstance(refused, Refusal) and refused.explanation == "no time of day (86400000)"
    assert from_binary(None, one) is None
