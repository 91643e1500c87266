"""Conditions against DuckDB, which is asked of the same rows, and skipping against reading everything."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.epochs.state.statistics import join
from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError
from sparkhaven.store.expressions.duckdb_engine import evaluated
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

TYPES_OF = {"s": "String", "b": "Boolean", "i": "int", "l": "long", "d": "double", "f": "float"}
COLUMNS = [
    Column(name, data_type(kind), Kind.NORMAL, Storage.FIXED, number)
    for number, (name, kind) in enumerate(TYPES_OF.items())
]
ARROW = {c.name: c.type.arrow for c in COLUMNS}
NUMBERS = ["i", "l", "d", "f"]
INTS = [0, 1, -1, 7, 2**31 - 1]
LONGS = [0, 1, -7, 2**53, 2**53 + 1, 2**63 - 1]
FLOATS = [0.0, -0.0, 1.0, 1.5, -7.25, math.inf, -math.inf, math.nan, float(2**53)]
VALUES = {
    "s": st.sampled_from(["", "a", "ab", "b", "\uffee", "\U0001f600"]),
    "b": st.booleans(),
    "i": st.sampled_from(INTS),
    "l": st.sampled_from(LONGS),
    "d": st.sampled_from(FLOATS),
    "f": st.sampled_from(FLOATS[:-1]),
}
ROWS = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
WRITTEN = ["0", "-0.0", "1", "1.5", "-7", "7.0", str(2**53 + 1), "9e15", str(2**70), "-1e300"]
COMPUTED = ["'nan'::double", "'nan'::float", "'inf'::double", "-'inf'::double", "null", "null::int"]
LITERALS = st.sampled_from([*WRITTEN, *COMPUTED])
OPS = ["=", "<>", "<", "<=", ">", ">="]
Row = dict[str, Any]
Tree = tuple[Any, ...]


def text_of(tree: Tree) -> str:
    op = tree[0]
    if op in ("and", "or"):
        return f"({text_of(tree[1])} {op} {text_of(tree[2])})"
    if op == "not":
        return f"not ({text_of(tree[1])})"
    if op == "is null":
        return f"{tree[1]} is null"
    if op == "in":
        return f"{tree[1]} in ({', '.join(tree[2])})"
    if op == "between":
        return f"{tree[1]} between {tree[2]} and {tree[3]}"
    if op == "column":
        return str(tree[1])
    return f"{tree[1]} {op} {tree[2]}"


def wanted(text: str, rows: list[Row]) -> list[bool]:
    """The rows that DuckDB keeps."""
    kept: list[bool] = evaluated(f"coalesce({text}, false)", batch(rows, False)).to_pylist()
    return kept


TEXT_LITERALS = st.sampled_from(["'a'", "'b'", "''", "'\uffff'"])
LEAVES: st.SearchStrategy[Tree] = st.one_of(
    st.tuples(st.sampled_from(OPS), st.sampled_from(NUMBERS), LITERALS),
    st.tuples(st.sampled_from(OPS), LITERALS, st.sampled_from(NUMBERS)),
    st.tuples(st.sampled_from(OPS), st.sampled_from(["i", "d", "f"]), st.sampled_from(["i", "d", "f"])),
    st.tuples(st.sampled_from(OPS), st.just("s"), TEXT_LITERALS),
    st.tuples(st.just("is null"), st.sampled_from(list(TYPES_OF))),
    st.tuples(st.just("between"), st.sampled_from(NUMBERS), LITERALS, LITERALS),
    st.tuples(st.just("like"), st.just("s"), st.sampled_from(["'a%'", "'%b'", "'a'", "''", "'_b%'", "'\uffee%'"])),
    st.tuples(st.just("="), st.just("abs(i) % 2"), st.sampled_from(["0", "1"])),
    st.tuples(st.just("column"), st.sampled_from(["b", "null", "null::boolean", "null is null", "1 = null"])),
    st.tuples(st.just("in"), st.sampled_from(NUMBERS), st.lists(LITERALS, min_size=1, max_size=3)),
    st.tuples(st.just("in"), st.just("s"), st.lists(TEXT_LITERALS, min_size=1, max_size=3)),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=6,
)


def batch(rows: list[Row], dictionary: bool) -> pa.RecordBatch:
    columns = {name: pa.array([row[name] for row in rows], ARROW[name]) for name in TYPES_OF}
    if dictionary:
        columns["s"] = columns["s"].dictionary_encode()
    return pa.record_batch(columns)


def stats_of(name: str, rows: list[Row], start: int = 0) -> RangeStats:
    values = [row[name] for row in rows if row[name] is not None]
    real = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
    found = RangeStats(start, start + len(rows), len(rows) - len(values), len(values) - len(real))
    return replace(found, low=min(real), high=max(real)) if real else found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(TREES, st.lists(ROWS, min_size=1, max_size=6), st.booleans())
def test_evaluation_and_skipping(tree: Tree, rows: list[Row], dictionary: bool) -> None:
    predicate = parse_predicate(text_of(tree), COLUMNS)
    expected = wanted(predicate.text, rows)
    assert predicate.evaluate(batch(rows, dictionary)).to_pylist() == expected, predicate.text
    stats: dict[str, RangeStats | None] = {name: stats_of(name, rows) for name in TYPES_OF}
    if not predicate.may_match(stats):
        assert not any(expected), predicate.text
    if predicate.all_match(stats):
        assert all(expected), predicate.text


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(TREES, st.lists(ROWS, min_size=2, max_size=6), st.data())
def test_skipping_by_joined_and_by_missing_statistics(tree: Tree, rows: list[Row], draw: st.DataObject) -> None:
    predicate = parse_predicate(text_of(tree), COLUMNS)
    cut = draw.draw(st.integers(1, len(rows) - 1))
    stats: dict[str, RangeStats | None] = {}
    for name in TYPES_OF:
        known = draw.draw(st.sampled_from(["joined", "unknown bounds", "none", "absent"]))
        found = join(stats_of(name, rows[:cut]), stats_of(name, rows[cut:], cut))
        if known != "absent":
            stats[name] = {"joined": found, "unknown bounds": replace(found, low=None, high=None)}.get(known)
    if not predicate.may_match(stats):
        assert not any(wanted(predicate.text, rows)), predicate.text
    if predicate.all_match(stats):
        assert all(wanted(predicate.text, rows)), predicate.text


@settings(max_examples=200, deadline=None)
@given(st.text("sbidl()[].,=!<>&|+-*/%'\"` 0129eN\\isnulaintrue:?;", max_size=30))
def test_any_text_is_an_expression_or_an_error_with_a_kind(text: str) -> None:
    try:
        predicate = parse_predicate(text, COLUMNS)
    except SchemaParseError as error:
        assert error.kind in ("syntax", "unknown column", "types")
    else:
        row = dict.fromkeys(TYPES_OF)
        try:
            assert len(predicate.evaluate(batch([row, row], False))) == 2
        except SchemaMismatchError as error:
            assert error.where == "row 0"
