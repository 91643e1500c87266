"""Where-expressions: grammar, logic of nulls and NaN, exact numbers, and what is refused."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.predicate.expression import SYNTAX, TYPES, UNKNOWN_COLUMN, parse_predicate
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage
from tests.support.docs.where_table import VALUES, kept_values

TYPES_OF = {
    "s": "String",
    "b": "Boolean",
    "i": "int",
    "y": "byte",
    "l": "long",
    "d": "double",
    "f": "float",
    "t": "Instant",
    "c": "char",
    "r": "int[]",
}
COLUMNS = [
    Column(name, data_type(kind), Kind.NORMAL, Storage.FIXED, number)
    for number, (name, kind) in enumerate(TYPES_OF.items())
]
ARROW = {c.name: c.type.arrow for c in COLUMNS}


def rows(**values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({n: pa.array(v, ARROW[n]) for n, v in values.items()})


def kept(text: str, **values: list[Any]) -> list[bool]:
    found = parse_predicate(text, COLUMNS).evaluate(rows(**values))
    assert found.null_count == 0
    return list(found.to_pylist())


@pytest.mark.parametrize("op", ["==", "=", "!=", "<", "<=", ">", ">="])
def test_a_comparison_with_null_is_never_true(op: str) -> None:
    assert not any(kept(f"i {op} 5", i=[None, None]))
    assert not any(kept(f"!(i {op} 5)", i=[None, None]))
    assert not any(kept(f"s {op} 'x'", s=[None]))
    assert not any(kept(f"i {op} l", i=[None, 1], l=[1, None]))


def test_three_valued_logic() -> None:
    assert kept("i > 1 || s == 'a'", i=[None, None, 0], s=["a", "b", None]) == [True, False, False]
    assert kept("!(i > 1 && s == 'a')", i=[None, None, 0], s=["a", "b", None]) == [False, True, True]
    assert kept("isNull(i)", i=[None, 1]) == [True, False]
    assert kept("!i.isNull() and b", i=[1, 1, 1, None], b=[True, False, None, True]) == [True, False, False, False]
    assert kept("not b or isNull(b)", b=[True, False, None]) == [False, True, True]
    assert kept("isNull(i > 1)", i=[None, 2]) == [True, False]


def test_the_page_says_which_values_are_kept() -> None:
    values = [None if value == "null" else float(value) for value in VALUES]
    said = kept_values()
    assert len(said) > 5
    for text, (here, _) in said.items():
        expression = re.sub(r"\bx\b", "d", text)
        assert [value for value, keep in zip(VALUES, kept(expression, d=values), strict=True) if keep] == here, text


def test_nan_is_above_everything_and_equal_to_itself() -> None:
    nan, inf = math.nan, math.inf
    values = [nan, inf, 1.0, None]
    assert kept("d > 5", d=values) == [True, True, False, False]
    assert kept("d >= 5", d=values) == [True, True, False, False]
    assert kept("5 < d", d=values) == [True, True, False, False]
    assert kept("d < 5", d=values) == [False, False, True, False]
    assert kept("d != 1", d=values) == [True, True, False, False]
    assert kept("isNaN(d)", d=values) == [True, False, False, False]
    assert kept("!d.isNaN()", d=values) == [False, True, True, False]
    assert kept("isNaN(i)", i=[1, None]) == [False, False]
    pairs = {"d": [nan, nan, 1.0, inf, 2.0], "f": [nan, 1.0, nan, nan, 1.0]}
    assert kept("d == f", **pairs) == [True, False, False, False, False]
    assert kept("d != f", **pairs) == [False, True, True, True, True]
    assert kept("d < f", **pairs) == [False, False, True, True, False]
    assert kept("d <= f", **pairs) == [True, False, True, True, False]
    assert kept("d > f", **pairs) == [False, True, False, False, True]
    assert kept("d >= f", **pairs) == [True, True, False, False, True]


def test_zeros_are_equal() -> None:
    assert kept("d == 0", d=[0.0, -0.0]) == [True, True]
    assert kept("d in (0)", d=[0.0, -0.0]) == [True, True]
    assert kept("d in (-0.0, 1)", d=[0.0, -0.0, 1.0]) == [True, True, True]
    assert kept("f < -0.0", f=[0.0, -0.0]) == [False, False]


def test_numbers_are_exact() -> None:
    big = 2**53
    assert kept(f"l == {big}.0", l=[big, big + 1]) == [True, False]
    assert kept("l > 2.5", l=[2, 3, None]) == [False, True, False]
    assert kept("l <= -2.5", l=[-2, -3]) == [False, True]
    assert kept("l == 2.5", l=[2, 3, None]) == [False, False, False]
    assert kept("l != 2.5", l=[2, 3, None]) == [True, True, False]
    assert kept(f"l < {2**70}", l=[2**63 - 1, None]) == [True, False]
    assert kept(f"l > -{2**70}", l=[-(2**63) + 1]) == [True]
    assert kept(f"l == {2**70}", l=[1]) == [False]
    assert kept("l < 1e300 && l > -1e300", l=[1]) == [True]
    assert kept(f"d < {big + 1}", d=[float(big), float(big + 2)]) == [True, False]
    assert kept(f"d <= {big + 1}", d=[float(big), float(big + 2)]) == [True, False]
    assert kept(f"d > {big + 1}", d=[float(big), float(big + 2), math.nan]) == [False, True, True]
    assert kept(f"d == {big + 1}", d=[float(big), float(big + 2), math.nan]) == [False, False, False]
    assert kept(f"d != {big + 1}", d=[float(big), math.nan, None]) == [True, True, False]
    assert kept(f"d in ({big + 1}, 2)", d=[float(big), 2.0]) == [False, True]
    assert kept("f == 0.1", f=[0.1]) == [False]  # the nearest float is another number, as in Java
    assert kept("y > -129 && y < 1000", y=[-127, 127]) == [True, True]
    assert kept("l in (1, 2.5, 3.0)", l=[1, 2, 3]) == [True, False, True]


def test_texts_bytes_chars_and_instants() -> None:
    assert kept("s < \"b\" && s >= 'a'", s=["a", "b", "ab", ""]) == [True, False, True, False]
    assert kept(r"s == 'it\'s' || s == `\n` || s == '\u0041\n'", s=["it's", r"\n", "A\n"]) == [True, True, True]
    assert kept("s not in ('a', \"b\")", s=["a", "c", None]) == [False, True, False]
    assert kept("s in [`a`]", s=["a", "c"]) == [True, False]
    assert kept("in(s, 'a', 'c')", s=["a", "b", None]) == [True, False, False]
    assert kept("c == 'a' || c > 65000", c=[97, 98, 65001, None]) == [True, False, True, False]
    assert kept("c in ('a', 'b')", c=[97, 99]) == [True, False]
    assert kept("b == true", b=[True, False, None]) == [True, False, False]
    assert kept("b != true", b=[True, False, None]) == [False, True, False]
    second = 1_000_000_000
    assert kept("t >= '1970-01-01T00:00:01Z'", t=[second, second - 1, None]) == [True, False, False]
    assert kept("'1969-12-31T19:00:01-05:00' == t", t=[second]) == [True]
    assert kept("t in ('1970-01-01T00:00:01Z', 5)", t=[second, 5, 6]) == [True, True, False]
    assert kept("t == 5", t=[5]) == [True]


def test_arithmetic() -> None:
    assert kept("i + l * 2 == 7", i=[1, 1, None], l=[3, 4, 3]) == [True, False, False]
    assert kept("i / 2 == 1.5", i=[3]) == [True]
    assert kept("i / l > 1000", i=[1, -1, 0], l=[0, 0, 0]) == [True, False, True]  # inf, -inf, NaN
    assert kept("i % 3 == -1", i=[-4, 4]) == [True, False]
    assert kept("i % l == 0", i=[1, 6, -(2**31) + 1], l=[0, 3, -1]) == [False, True, True]
    assert kept("isNull(i % l)", i=[1], l=[0]) == [True]
    assert kept("-i == 3 && - -3 == 3", i=[-3]) == [True]
    assert kept("l + 1 < 0", l=[2**63 - 1]) == [True]  # wraps
    assert kept("d % 1.5 == 0.5", d=[2.0]) == [True]
    assert kept("(i + 1) * 2 == 4", i=[1]) == [True]


def test_only_literals() -> None:
    assert kept("1 < 2 && 'a' != 'b'", i=[1, 2]) == [True, True]
    assert kept("true && !false", i=[1]) == [True]
    assert kept("isNaN(0.0 / 0)", i=[1]) == [True]
    predicate = parse_predicate("1 == 1", COLUMNS)
    assert predicate.columns == ()
    assert predicate.evaluate(pa.table(rows(i=[1, 2, 3]))).to_pylist() == [True] * 3
    assert predicate.may_match({})


def test_dictionaries_and_tables() -> None:
    values = pa.array(["a", "b", None, "a"]).dictionary_encode()
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), pa.array(["a", "b", "a"]))
    for array in (values, repeated):
        batch = pa.record_batch({"s": array, "i": pa.array([1, 2, 3, 4], pa.int32())})
        table = pa.Table.from_batches([batch, batch.slice(1, 2)])
        for text, expected in {
            "s == 'a'": [True, False, False, True],
            "s in ('b', 'c')": [False, True, False, False],
            "isNull(s) || i == 1": [True, False, True, False],
            "s != 'a' && i < 9": [False, True, False, False],
        }.items():
            predicate = parse_predicate(text, COLUMNS)
            assert predicate.evaluate(batch).to_pylist() == expected
            assert predicate.evaluate(table).to_pylist() == expected + expected[1:3]
            assert predicate.filter(table).num_rows == sum(expected + expected[1:3])
    assert parse_predicate("s == 'a'", COLUMNS).evaluate(pa.table({"s": pa.array([], pa.string())})).to_pylist() == []


def test_columns() -> None:
    assert parse_predicate("i > 1 && (s in ('a') || isNull(d + l))", COLUMNS).columns == ("d", "i", "l", "s")


@pytest.mark.parametrize(
    ("text", "kind", "expected", "found"),
    [
        ("", SYNTAX, "a column or a literal", "the end at character 1"),
        ("i >", SYNTAX, "a column or a literal", "the end at character 4"),
        ("i > 1 1", SYNTAX, "an operator or the end", "'1' at character 7"),
        ("i > 1 & i < 2", SYNTAX, "a column, a literal", "'&' at character 7"),
        ("i > 1; drop", SYNTAX, "a column, a literal", "';' at character 6"),
        ("s == 'a", SYNTAX, "a column, a literal", '"\'" at character 6'),
        ("(i > 1", SYNTAX, "')'", "'the end' at character 7"),
        ("i in ()", SYNTAX, "a column or a literal", "')' at character 7"),
        ("i in (l)", SYNTAX, "literals in the list", "an expression at character 8"),
        ("i in 5", SYNTAX, "'['", "'5' at character 6"),
        ("abs(i) > 1", SYNTAX, "isNull, isNaN or in", "abs at character 1"),
        ("s.length() > 1", SYNTAX, "isNull() or isNaN()", "'length' at character 2"),
        ("i == null", SYNTAX, "isNull(column)", "null at character 6"),
        ("(" * 60 + "b", SYNTAX, "at most 50 levels", "a deeper expression at character 51"),
        ("!" * 60 + "b", SYNTAX, "at most 50 levels", "a deeper expression"),
        ("-" * 60 + "1 == 1", SYNTAX, "at most 50 levels", "a deeper expression"),
        ("i == 1e999", SYNTAX, "a number that a double can hold", "1e999 at character 6"),
        ("i == " + "9" * 50, SYNTAX, "at most 40 digits", "50 digits"),
        ("Sym == 'a'", UNKNOWN_COLUMN, "a column of the table", "Sym at character 1"),
        ("i", TYPES, "a condition", "a whole number at character 1"),
        ("i && b", TYPES, "a condition before &&", "a whole number at character 1"),
        ("b || i + 1", TYPES, "a condition after ||", "a whole number at character 6"),
        ("!i", TYPES, "a condition after !", "a whole number"),
        ("s > 5", TYPES, "two of a kind for >", "a text and a whole number at character 3"),
        ("i == '5'", TYPES, "two of a kind", "a whole number and a text"),
        ("b > false", TYPES, "== or !=", "> at character 3"),
        ("s + 's' == 'a'", TYPES, "numbers for +", "a text at character 3"),
        ("t > '2013-01-01'", TYPES, "an instant with zone", "'2013-01-01' at character 3"),
        ("t > 1.5", TYPES, "two of a kind", "an Instant and a floating-point number"),
        ("c == 'ab'", TYPES, "one character", "'ab'"),
        ("r == 5", TYPES, "columns that can be compared", "r at character 3"),
        ("isNaN(s)", TYPES, "a number for isNaN", "a text"),
        (f"i + {2**64} > 1", TYPES, "a long can hold", str(2**64)),
    ],
)
def test_refused(text: str, kind: str, expected: str, found: str) -> None:
    with pytest.raises(SchemaParseError, match="expression cannot be used") as caught:
        parse_predicate(text, COLUMNS)
    assert caught.value.kind == kind
    assert expected in str(caught.value.expected)
    assert found in str(caught.value.found)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("s = AAPL", 's = "AAPL"'),
        ("s != AAPL && i > 1", 's != "AAPL" && i > 1'),
        ("AAPL == s", '"AAPL" == s'),
        ("s in (AAPL, B, C)", 's in ("AAPL", "B", "C")'),
        ("s not in [AAPL]", 's not in ["AAPL"]'),
        ("in(s, AAPL)", 'in(s, "AAPL")'),
        ("s = BRK.B", 's = "BRK.B"'),
        ("s = BRK B || b", 's = "BRK B" || b'),
        ("s = 2026-11-20", 's = "2026-11-20"'),
        ("s >= 2026-11-20 and s <= 2026-11-21", 's >= "2026-11-20" and s <= "2026-11-21"'),
        ("s = 5", 's = "5"'),
        ("s in (5, 6)", 's in ("5", "6")'),
        ("5 = s", '"5" = s'),
        ("s = Börse", 's = "Börse"'),
        ("s = “A B”", 's = "A B"'),
        ("t > 2026-11-20T14:30:00Z", 't > "2026-11-20T14:30:00Z"'),
        ("c = A", 'c = "A"'),
        ("!(s = AAPL)", '!(s = "AAPL")'),
        (
            "s in (" + ", ".join(f"W{n}" for n in range(50)) + ")",
            "s in (" + ", ".join(f'"W{n}"' for n in range(50)) + ")",
        ),
        ('i = "1"', "i = 1"),
        ("i in ('1', '2')", "i in (1, 2)"),
        ("d > '-1.5e3'", "d > -1.5e3"),
        ('b = "true"', "b = true"),
    ],
)
def test_the_error_has_the_expression_with_its_quotes(text: str, meant: str) -> None:
    with pytest.raises(SchemaParseError) as caught:
        parse_predicate(text, COLUMNS)
    hint, _, expression = str(caught.value.hint).partition("quotes: ")
    assert expression == meant
    assert hint.endswith("texts stand in " if '"' in meant else "stand without ")
    parse_predicate(expression, COLUMNS)


@pytest.mark.parametrize(
    "text",
    ["sim = 'A'", "i = AAPL", "i > 1 +", "s = 'a' s", "s = (", "t > 2026-11-20", "s == b", "b = 1", "x = y", "=", ""],
)
def test_quotes_are_proposed_only_where_they_help(text: str) -> None:
    with pytest.raises(SchemaParseError) as caught:
        parse_predicate(text, COLUMNS)
    assert "quotes: " not in str(caught.value.hint)


def test_random_expressions_without_quotes_get_back_what_was_meant() -> None:
    chance = random.Random(3)
    for _ in range(300):
        words = [chance.choice(["AAPL", "BRK.B", "a-b", "2026-11-20", "7x", "x/y"]) for _ in range(3)]
        meant = chance.choice(
            ['s == "{0}"', 'i > 1 && s != "{0}"', 's in ("{0}", "{1}") || b', '!(s < "{0}") and s > "{1}" or s = "{2}"']
        ).format(*words)
        with pytest.raises(SchemaParseError) as caught:
            parse_predicate(meant.replace('"', ""), COLUMNS)
        assert str(caught.value.hint).partition("quotes: ")[2] == meant


def test_not_in_takes_every_type() -> None:
    assert kept("b not in (true)", b=[True, False, None]) == [False, True, False]
    assert kept("b not in [true, false]", b=[True, False, None]) == [False, False, False]
    assert kept("i not in (1)", i=[1, 2, None]) == [False, True, False]
    assert kept("d not in (1)", d=[1.0, math.nan, None]) == [False, True, False]
    assert kept("s not in ('a')", s=["a", "b", None]) == [False, True, False]
    assert kept("c not in ('a')", c=[97, 98, None]) == [False, True, False]
    assert kept("t not in ('1970-01-01T00:00:00Z')", t=[0, 1, None]) == [False, True, False]


def test_hints() -> None:
    for text, hint in (
        ("i > 1 & i < 2", "write &&"),
        ("I > 1", "names and values are case-sensitive: write i"),
        ("i == null", "a comparison with null is never true"),
        ("s is null", "write isNull(column), !isNull(column)"),
        ("i between 1 and 2", "write column >= low && column <= high"),
        ("s <> 'a'", "write != for <>"),
        ("t > 2026-11-20", 'an Instant compares with a text like "2026-11-20T14:30:00Z", or with nanoseconds'),
    ):
        with pytest.raises(SchemaParseError) as caught:
            parse_predicate(text, COLUMNS)
        assert caught.value.hint == hint


def test_skipping_is_not_idle() -> None:
    """A range that plainly has no match is skipped: soundness alone would also hold for never skipping."""
    stats = {
        "i": RangeStats(0, 10, 0, low=5, high=9),
        "s": RangeStats(0, 10, 2, low="b", high="d"),
        "d": RangeStats(0, 10, 0, nans=1, low=0.5, high=1.5),
        "l": RangeStats(0, 10, 10),
        "b": RangeStats(0, 10, 0, low=False, high=False),
        "t": RangeStats(0, 10, 0, low=0, high=10),
    }
    skipped = [
        "i < 5", "i <= 4.5", "i > 9", "10 <= i", "i == 10", "i in (1, 2, 100)", "i != 7 && i > 9", "!(i >= 5)",
        "i == 5.5 && b", "s == 'a'", "s > 'd'", "s >= 'e' || i < 0", "d < 0.5", "d == 2", "l == 1", "l != 1",
        "!(l == 1)", "isNull(i)", "!isNull(l)", "b", "b == true", "t > '1970-01-01T00:00:01Z'", "!(s in ('x')) && b",
    ]  # fmt: skip
    held = [
        "i < 6", "i <= 5", "i >= 9", "9 <= i", "s <= 'b'", "s >= 'd'", "i != 5",
        "s == 'c'", "isNull(s)", "!isNull(s)", "d > 100", "d >= 2", "d != 9", "isNull(l)", "!b",
        "i + 1 < 0", "i < l", "y == 1", "isNaN(d)", "!(i == 5)", "i in (1, 6)", "t == 10", "5 == i",
    ]  # fmt: skip
    assert [text for text in skipped if parse_predicate(text, COLUMNS).may_match(stats)] == []
    assert [text for text in held if not parse_predicate(text, COLUMNS).may_match(stats)] == []


def test_a_million_rows_of_a_dictionary_are_quick() -> None:
    codes = pa.array(np.arange(1_000_000, dtype=np.int32) % 16)
    array = pa.DictionaryArray.from_arrays(codes, pa.array([f"C{i}" for i in range(16)]))
    assert parse_predicate("s in ('C1', 'C2')", COLUMNS).evaluate(pa.record_batch({"s": array})).true_count == 125_000
