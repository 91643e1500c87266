"""Whole columns of numbers without bounds, maps, texts and row sets: the same as their values one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.values.exact_values import from_json
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.typed_columns import json_tokens
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.native.codings import unstorable_values
from sparkhaven.store.native.json_lists import text_lists
from sparkhaven.store.types.codings.decimals import FreeDecimals
from sparkhaven.store.types.codings.row_set import RowSets, encode_rows
from sparkhaven.store.types.codings.string_map import StringMaps
from tests.support.ingest.ingest_cases import target

WRITTEN = st.from_regex(r"[+-]?[0-9]{0,3}0{0,2}(\.[0-9]{0,3}0{0,2})?([eE]-?[0-9])?", fullmatch=True)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "Boolean": st.booleans(),
    "Double": st.sampled_from([1.5, float("nan"), -0.0, -1.7976931348623157e308, 1.7976931348623157e308]),
    "Float": st.sampled_from([1.5, float("nan"), -3.4028234663852886e38, 3.4028234663852886e38]),
    "Int": st.sampled_from([0, 1, -(2**31), 2**31 - 1]),
    "Long": st.sampled_from([0, 1, -(2**63), 2**63 - 1]),
    "String": st.sampled_from(["", "a"]),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(st.sampled_from("aé\U0001f600\0"), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
LISTS = st.lists(st.none() | st.text(st.sampled_from("ab\U0001f600"), max_size=3), max_size=4)


def listed(mask: Any, rows: int) -> list[bool]:
    return [False] * rows if mask is None else list(map(bool, mask))


@settings(deadline=None)
@given(texts=st.lists(st.none() | WRITTEN, min_size=1, max_size=8), whole=st.booleans(), first=st.integers(0, 3))
def test_numbers_are_those_of_single_texts(texts: list[str | None], whole: bool, first: int) -> None:
    coding, array = FreeDecimals(whole), pa.array(texts, pa.string()).slice(first)
    values, doubt = coding.parse_all(array)
    wanted, odd = coding.by_value(array)
    values.validate(full=True)
    assert listed(doubt, len(array)) == listed(odd, len(array))
    assert values.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("text", ["1" * 4000, "1" * 4001, f"0.{'0' * 3990}1", f"1.{'0' * 3998}", f"1.{'0' * 3999}"])
def test_numbers_as_long_as_a_text_may_be(text: str) -> None:
    for whole in (True, False):
        array = pa.array(["5", text], pa.string())
        values, doubt = FreeDecimals(whole).parse_all(array)
        wanted, odd = FreeDecimals(whole).by_value(array)
        assert listed(doubt, 2) == listed(odd, 2) and values.equals(wanted)


@settings(deadline=None)
@given(data=st.data(), kind=st.sampled_from([*KINDS]))
def test_maps_that_cannot_be_stored(data: st.DataObject, kind: str) -> None:
    entry = st.tuples(st.sampled_from("abcd"), st.none() | KINDS[kind])
    maps = data.draw(st.lists(st.none() | st.lists(entry, max_size=4), min_size=1, max_size=6))
    coding = StringMaps(kind)
    array = pa.array(maps, coding.arrow).slice(data.draw(st.integers(0, 2)))
    wanted = []
    for entries in array.to_pylist():
        values = [value for _, value in entries or ()]
        none = (
            None in values if kind == "String" else any(value == coding.null for value in values if value is not None)
        )
        wanted.append(len(dict(entries or ())) < len(values) or (none and kind != "Boolean"))
    assert listed(coding.unstorable(array), len(array)) == wanted


@pytest.mark.parametrize("name", ["String[]", "StringSet"])
@settings(deadline=None)
@given(given_values=st.lists(LISTS, max_size=5) | st.lists(JSON | LISTS, max_size=5))
def test_texts_are_those_of_the_exact_pass(name: str, given_values: list[Any]) -> None:
    one = target(name, "x")
    tokens = pa.array([None if value is None else json.dumps(value) for value in given_values], pa.string())
    values, doubt = json_tokens(tokens, one)
    for row, token in enumerate(tokens.to_pylist()):
        exact = None if token is None else from_json(strict_json(token), one)
        if doubt is None or not doubt[row]:
            assert not isinstance(exact, Refusal), token
            assert values[row].as_py() == exact, token


@settings(deadline=None)
@given(values=st.lists(st.none() | LISTS, min_size=1, max_size=6), escaped=st.booleans(), first=st.integers(0, 3))
def test_lists_of_texts_by_the_core(values: list[Any], escaped: bool, first: int) -> None:
    """Whatever is written with blanks or escapes, and nothing of it is in doubt."""
    one = [
        None if value is None else json.dumps(value, ensure_ascii=escaped, indent=escaped or None) for value in values
    ]
    made = text_lists(pa.array(one, pa.string()).slice(first))
    assert made is not None and made[1] is None
    made[0].validate(full=True)
    assert made[0].to_pylist() == values[first:]


@pytest.mark.parametrize(
    "token", ["[", '["a"', '["a",]', "[1]", '["a"]]', '"a"', "{}", '["\\u0000"]', '["\\ud800"]', '["\\x"]', "[[]]"]
)
def test_what_is_no_list_of_texts_is_in_doubt(token: str) -> None:
    made = text_lists(pa.array(['["a",null]', token, None, "[]"], pa.string()))
    assert made is not None and made[1] is not None
    assert made[1].tolist() == [False, True, False, False]
    assert made[0].to_pylist() == [["a", None], None, None, []]


def test_instants_that_are_not_written_in_ascii_are_in_doubt() -> None:
    moment = "2024-03-05T12:00:00Z"
    tokens = pa.array([f'["{moment}"]', f'["{moment}","２024-03-05T12:00:00Z"]', '["é"]', None, "[null]", "[1]"])
    values, doubt = json_tokens(tokens, target("java.time.Instant[]", "x"))
    assert listed(doubt, 6) == [False, True, True, False, False, True]
    assert [len(value) for value in values.to_pylist() if value][:1] == [1]


def test_row_sets_in_doubt_are_looked_at_alone() -> None:
    good = encode_rows(np.array([1, 5]), np.array([3, 900]))
    array = pa.array([good, None, b"\x09\x00\x05", b"\x20", b"", good], pa.binary())
    assert listed(unstorable_values(array, RowSets()), 6) == listed(RowSets().unstorable(array), 6)
    assert unstorable_values(array.slice(5), RowSets()) is None
