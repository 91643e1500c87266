"""Maps, bytes, Booleans and characters of JSON by the compiled core: what it takes, the exact pass takes too.

It takes all that is plain.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.coded_values import coded_text, coded_texts
from sparkhaven.ingest.values.exact_values import from_json, integer_range
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.typed_columns import compiled_values, json_tokens
from sparkhaven.ingest.values.typed_rows import Refusal, typed_array
from sparkhaven.store.types.codings.row_set import RowSets, encode_rows
from tests.support.ingest.ingest_cases import target

MAPS = {kind: f"java.util.Map String{kind}MapCodec" for kind in ("Boolean", "Double", "Float", "Int", "Long", "String")}
BYTES = ("byte[]", "byte[] SimpleByteArrayCodec", "byte[] ByteArrayCodec 4", "io.deephaven.engine.rowset.RowSet")
KINDS = ("boolean[]", "char[]", *BYTES, *MAPS.values())
BLANKS = st.sampled_from(["", "", "", " ", "\t \r"])
WHOLES = ["0", "-0", "127", "128", "-128", "-129", "2147483647", "-2147483648", str(2**63 - 1), str(-(2**63))]
FLOATS = ["1.0", "1e2", "0.5", "3.4028234e38", "1e39", "1e400", "-1.7976931348623157e308", "01", "1.", "+1", "NaN"]
ODD = ["\\u0041", "\\u0000", "\\uffff", "\\ud83d\\ude00", "\\ud800", "\\n", "\\x"]
NUMBERS = st.sampled_from(WHOLES + FLOATS)
TEXTS = st.sampled_from(['"a"', '""', '"é"', '"😀"', '"\uffff"', '"ab"', *map('"{}"'.format, ODD), '"\t"', '"a', "'a'"])
WORDS = st.sampled_from(["true", "false", "null", "True", "nul", "[]", "{}", "[1]", ""])
VALUES = st.one_of(NUMBERS, TEXTS, WORDS)
KEYS = st.one_of(st.integers(0, 30).map(lambda n: f'"k{n}"'), TEXTS)
ENCODED = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())
LETTERS = st.text(st.sampled_from("AQIDzZ+/=-_ \\é\x7f"), max_size=9)


@st.composite
def tokens(draw: st.DrawFn) -> str | None:
    """A JSON value as the scanner cuts it out, or a text that is none."""
    chosen = draw(st.integers(0, 9))
    if chosen == 0:
        return draw(st.none() | VALUES)
    if chosen < 3:
        return f'"{draw(LETTERS | ENCODED)}"'
    same = draw(st.sampled_from([VALUES, NUMBERS, TEXTS, WORDS]))
    if chosen < 6:
        inner = [draw(BLANKS) + draw(same) + draw(BLANKS) for _ in range(draw(st.integers(0, 4)))]
        return f"[{','.join(inner) or draw(BLANKS)}{draw(st.sampled_from(['', '', '', ',', ']']))}]"
    many = draw(st.sampled_from([0, 1, 2, 3, 16, 17, 20]))
    entries = [
        f"{draw(BLANKS)}{draw(KEYS)}{draw(BLANKS)}:{draw(BLANKS)}{draw(same)}{draw(BLANKS)}" for _ in range(many)
    ]
    return f"{{{','.join(entries) or draw(BLANKS)}{draw(st.sampled_from(['', '', '', ',', '}']))}}}"


def exact_of(token: str, one: Target) -> Any:
    """The value of the exact pass, or a Refusal; ValueError: the text is no JSON."""
    return from_json(strict_json(token), one)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(given_tokens=st.lists(tokens(), min_size=1, max_size=8), skipped=st.integers(0, 3))
@example(
    given_tokens=['"AQ=="', '"AR=="', '"AQI="', '"AQJ="', '"AQID"', '"A==="', '"AQ="', '"=AQI"', '"AQ=I"'], skipped=0
)
@example(given_tokens=['"AQIDBA=="', '"AQIDBAU="', "[1,2,-3]", "[128]", "[-128,127]", "[null]", '"', '""'], skipped=0)
@example(
    given_tokens=['{"a";1}', '{"a":1;"b":2}', '{"a":1]', '{"a":1,}', "{,}", "{", '{"a"', '{"a":', '{"a":1'], skipped=0
)
@example(
    given_tokens=[
        '{"a":null,"a":1}',
        '{"c":5,"d":6}',
        "{}}",
        '{"a":1,"a":1}',
        '{"a":3}}',
        '{"b":2} ',
        '["a":1}',
        '{"a":4}',
    ],
    skipped=0,
)
@example(given_tokens=['{"a":"x"}', '{"a":"x","a":"y"}', '{"a":"x","b":y}', '{"c":"z"}'], skipped=0)
@example(given_tokens=["[1]]", "[]]", "[1}", "[", "[256]", "[-129]", '"AQIDx', 'AQID"', '""', '"', "[1]"], skipped=0)
@example(given_tokens=['{"a":1,"a":2}', '{"a":true,"b":null}', '{"a":"x","\\u0061":"y"}', '{"":""}', "{}"], skipped=0)
def test_values_are_those_of_the_exact_pass(kind: str, given_tokens: list[str | None], skipped: int) -> None:
    one = target(kind, "x")
    texts = pa.array(given_tokens, pa.string()).slice(min(skipped, len(given_tokens) - 1))
    coding = one.column.type.coding
    assert coding is not None
    values, doubt = compiled_values(texts, coding) or (None, None)
    assert values is not None
    values.validate(full=True)
    for row, token in enumerate(texts.to_pylist()):
        if doubt is None or not doubt[row]:
            exact = None if token is None else exact_of(token, one)
            assert not isinstance(exact, Refusal), token
            assert str(values.slice(row, 1)) == str(typed_array([exact], one)), token


def plain(kind: str) -> st.SearchStrategy[Any]:
    """What JSON writes for a value that the core does not leave."""
    letters = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
    if kind == "boolean[]":
        return st.lists(st.booleans())
    if kind == "char[]":
        return st.lists(
            st.none() | st.characters(max_codepoint=0xFFFE, exclude_categories=["Cs"], exclude_characters="\0")
        )
    if kind.endswith("RowSet"):
        return st.integers(0, 9).map(lambda row: base64.b64encode(encode_rows(*np.array([[row], [row + 5]]))).decode())
    if kind in BYTES:
        size = {"min_size": 4, "max_size": 4} if kind.endswith("4") else {"min_size": 1, "max_size": 9}
        encoded = st.binary(**size).map(lambda data: base64.b64encode(data).decode())
        return encoded | st.lists(st.integers(-128, 127), max_size=5) if kind == "byte[]" else encoded
    number = {
        "Boolean": st.none() | st.booleans(),
        "String": letters,
        "Int": st.none() | st.integers(*integer_range("int")),
        "Long": st.none() | st.integers(*integer_range("long")),
    }
    name = kind.removeprefix("java.util.Map String").removesuffix("MapCodec")
    return st.dictionaries(letters, number.get(name, st.none() | st.floats(-(2.0**90), 2.0**90, width=32)), max_size=20)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ascii_only", [True, False])
@settings(deadline=None)
@given(data=st.data())
def test_plain_values_are_never_in_doubt(kind: str, ascii_only: bool, data: st.DataObject) -> None:
    one, rows = target(kind, "x"), data.draw(st.lists(st.none() | plain(kind), min_size=1, max_size=6))
    texts = [None if row is None else json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    values, doubt = json_tokens(pa.array(texts, pa.string()), one)
    assert doubt is None and values.null_count == rows.count(None)
    assert values.equals(typed_array([None if text is None else exact_of(text, one) for text in texts], one))


@pytest.mark.parametrize("kind", BYTES)
@settings(deadline=None)
@given(
    given_texts=st.lists(st.none() | LETTERS | st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode()))
)
def test_base64_of_fields_is_that_of_the_exact_pass(kind: str, given_texts: list[str | None]) -> None:
    coding = target(kind, "x").column.type.coding
    assert coding is not None
    values, doubt = coded_texts(pa.array(given_texts, pa.string()), coding)
    for row, text in enumerate(given_texts):
        exact = None if text is None else coded_text(text, coding, False, from_json)
        if doubt is None or not doubt[row]:
            assert values[row].as_py() == exact, text
        elif coding.domain != RowSets.domain:
            assert isinstance(exact, Refusal) or base64.b64encode(exact).decode() != text


@pytest.mark.parametrize("count", [2, 16, 17, 100])
def test_a_key_that_comes_again_is_in_doubt(count: int) -> None:
    keys = [f"key {number}" for number in range(count)]
    objects = [keys, [*keys[:-1], keys[0]], [*keys[:-1], keys[-2]], keys[:1]]
    texts = ["{" + ",".join(f"{json.dumps(key)}:1" for key in one) + "}" for one in objects]
    coding = target(MAPS["Long"], "x").column.type.coding
    assert coding is not None
    _, doubt = compiled_values(pa.array(texts, pa.string()), coding) or (None, None)
    assert doubt is not None and doubt.tolist() == [False, True, True, False]
