"""Arrays of plain values by the compiled core: what it takes, the exact pass takes too; it takes all plain ones."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.values.exact_values import from_json, integer_range
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.typed_columns import json_tokens
from sparkhaven.ingest.values.typed_rows import Refusal, typed_array
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from tests.support.ingest.ingest_cases import target

NAMES = ("short", "int", "long", "float", "double")
BLANKS = st.sampled_from(["", "", " ", "\t \n"])
NUMBERS = st.one_of(
    st.integers(-130, 130).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["-0", "1e5", "5.0", "1e400", "0.1e-400", "123456789012345678901234567890", "1.5E+3"]),
)
ELEMENTS = st.one_of(NUMBERS, NUMBERS, st.sampled_from(["null", "null", '"1"', "true", "[1]", "{}"]))


@st.composite
def arrays(draw: st.DrawFn) -> str | None:
    """A JSON value as the scanner cuts it out."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, "5", '"[1]"', "{}", "true"]))
    spaced = (draw(BLANKS) + element + draw(BLANKS) for element in draw(st.lists(ELEMENTS, max_size=5)))
    return f"[{','.join(spaced) or draw(BLANKS)}]"


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(tokens=st.lists(arrays(), max_size=8), skipped=st.integers(0, 3))
def test_lists_are_those_of_the_exact_pass(name: str, tokens: list[str | None], skipped: int) -> None:
    one = target(f"{name}[]", "x")
    given_tokens = pa.array(tokens, pa.string()).slice(min(skipped, len(tokens)))
    values, doubt = json_tokens(given_tokens, one)
    values.validate(full=True)
    for row, token in enumerate(given_tokens.to_pylist()):
        exact = None if token is None else from_json(strict_json(token), one)
        if doubt is None or not doubt[row]:
            assert not isinstance(exact, Refusal), token
            assert str(values.slice(row, 1)) == str(typed_array([exact], one)), token


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(data=st.data())
def test_plain_lists_are_never_in_doubt(name: str, data: st.DataObject) -> None:
    whole = name in INTEGER_BITS
    numbers = st.integers(*integer_range(name)) if whole else st.floats(-(2.0**90), 2.0**90, width=32)
    rows = data.draw(st.lists(st.none() | st.lists(st.none() | numbers, max_size=6), max_size=6))
    one = target(f"{name}[]", "x")
    tokens = pa.array([None if row is None else json.dumps(row) for row in rows], pa.string())
    values, doubt = json_tokens(tokens, one)
    assert doubt is None and values.equals(pa.array(rows, one.column.type.arrow))
