"""Conditions over dates, times, decimals and bytes: exact values, refusals, and ranges that are skipped."""

from __future__ import annotations

import operator
import pickle
import random
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.predicate.expression import TYPES, compare_columns, parse_predicate
from sparkhaven.store.types.codings.coding import coded_bounds
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

CODEC = "io.deephaven.util.codec."
TYPES_OF = {
    "d": ("LocalDate", None, None),
    "e": ("LocalDate", f"{CODEC}LocalDateCodec", "Compact"),
    "t": ("LocalTime", None, None),
    "u": ("LocalTime", f"{CODEC}LocalTimeCodec", "3"),
    "p": ("BigDecimal", f"{CODEC}BigDecimalCodec", "18,6"),
    "q": ("BigDecimal", f"{CODEC}BigDecimalCodec", "5,2"),
    "w": ("BigDecimal", f"{CODEC}BigDecimalCodec", "76,70"),
    "n": ("BigInteger", f"{CODEC}BigIntegerCodec", "20"),
    "f": ("BigDecimal", None, None),
    "b": ("byte[]", f"{CODEC}SimpleByteArrayCodec", None),
    "k": ("byte[]", None, None),
    "r": ("double[]", None, None),
    "g": ("StringSet", None, None),
    "m": ("java.util.Map", None, None),
    "o": ("com.example.Thing", None, None),
    "i": ("int", None, None),
    "l": ("long", None, None),
    "x": ("double", None, None),
    "s": ("String", None, None),
}
COLUMNS = [
    Column(name, data_type(*kind), Kind.NORMAL, Storage.FIXED, number)
    for number, (name, kind) in enumerate(TYPES_OF.items())
]
ARROW = {column.name: column.type.arrow for column in COLUMNS}
NOON = 43_200_000_000_000
SIGNS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def array(name: str, values: list[Any]) -> pa.Array:
    kind = ARROW[name]
    return pa.array(values, pa.int64()).view(kind) if pa.types.is_time(kind) else pa.array(values, kind)


def kept(text: str, **values: list[Any]) -> list[bool]:
    batch = pa.record_batch({name: array(name, value) for name, value in values.items()})
    predicate = pickle.loads(pickle.dumps(parse_predicate(text, COLUMNS)))  # as a task gets it
    return list(predicate.evaluate(batch).to_pylist())


def decimals(*texts: str | None) -> list[Decimal | None]:
    return [None if text is None else Decimal(text) for text in texts]


def test_dates() -> None:
    days = [date(2024, 3, 4), date(2024, 3, 5), date(2024, 3, 6), None]
    assert kept("d = '2024-03-05'", d=days) == [False, True, False, False]
    assert kept("d != '2024-03-05'", d=days) == [True, False, True, False]
    assert kept("'2024-03-05' < d", d=days) == [False, False, True, False]
    assert kept("d <= '2024-03-05'", d=days) == [True, True, False, False]
    assert kept("d in ('2024-03-04', '2024-03-06')", d=days) == [True, False, True, False]
    assert kept("d not in ('2024-03-04')", d=days) == [False, True, True, False]
    assert kept("d is null", d=days) == [False, False, False, True]
    assert kept("d = e", d=days, e=[date(2024, 3, 4)] * 4) == [True, False, False, False]
    assert kept("d < '0001-01-02'", d=[date(1, 1, 1)]) == [True]
    assert kept("d > '9999-12-30'", d=[date(9999, 12, 31)]) == [True]


def test_times() -> None:
    times = [NOON, NOON + 1, NOON + 500_000_000, None]
    assert kept("t = '12:00'", t=times) == [True, False, False, False]
    assert kept("t > '12:00:00'", t=times) == [False, True, True, False]
    assert kept("t in ('12:00:00.5', '12:00:00.000000001')", t=times) == [False, True, True, False]
    assert kept("t is not null and t < '12:00:00.000000001'", t=times) == [True, False, False, False]
    assert kept("t = u", t=times, u=[NOON] * 4) == [True, False, False, False]
    assert kept("u < '12:00:00.0000001'", u=[NOON, NOON + 1_000_000]) == [True, False]


def test_decimals_are_exact() -> None:
    prices = decimals("0.1", "0.100001", "-0.1", "12.34", None)
    assert kept("p = 0.1", p=prices) == [True, False, False, False, False]
    assert kept("p = '0.1'", p=prices) == [True, False, False, False, False]
    assert kept("p = 1e-1 or p = -.1", p=prices) == [True, False, True, False, False]
    assert kept("p > 0.1", p=prices) == [False, True, False, True, False]
    assert kept("p > 0.10000000000000000001", p=prices) == [False, True, False, True, False]
    assert kept("p >= 0.10000000000000000001", p=prices) == [False, True, False, True, False]
    assert kept("p < 0.10000000000000000001", p=prices) == [True, False, True, False, False]
    assert kept("p < - - -0.09999999999", p=prices) == [False, False, True, False, False]
    assert kept("p = 0.1000001", p=prices) == [False] * 5
    assert kept("p != 0.1000001", p=prices) == [True, True, True, True, False]
    assert kept("p in (0.1, 12.34, 0.1000001, '-0.1')", p=prices) == [True, False, True, True, False]
    assert kept("p < 1e300 and p > '-1e999999'", p=prices) == [True, True, True, True, False]
    assert kept("p > '1e-999999999' and p < 1", p=prices) == [True, True, False, False, False]
    assert kept("p > 1000000000000", p=decimals("999999999999.999999")) == [False]
    assert kept("p < 1000000000000", p=decimals("999999999999.999999")) == [True]
    assert kept("p in (1000000000000, 1e300)", p=decimals("1")) == [False]
    assert kept("n = 10000000000000000001", n=decimals("10000000000000000001", "10000000000000000000")) == [
        True,
        False,
    ]
    assert kept("n > 1.5 and n <= '2'", n=decimals("1", "2", "3")) == [False, True, False]
    seventy = "0." + "1" * 70
    assert kept(f"w = {seventy}", w=decimals(seventy, seventy[:-1] + "2")) == [True, False]
    assert kept(f"w in ('{seventy}')", w=decimals(seventy, "1")) == [True, False]
    assert kept("q = 5", q=decimals("5", "5.01")) == [True, False]


def test_decimals_with_columns() -> None:
    assert kept("p = q", p=decimals("1.25", "1.250001", None), q=decimals("1.25", "1.25", "1")) == [True, False, False]
    assert kept("p < n", p=decimals("1.5", "2.5"), n=decimals("2", "2")) == [True, False]
    assert kept("p > l", p=decimals("1.5", "2.5"), l=[2, 2]) == [False, True]
    assert kept("i + 1 >= q", i=[1, 2, None], q=decimals("2.5", "2.5", "0")) == [False, True, False]
    assert compare_columns("<", COLUMNS[4], COLUMNS[5]).text == "p < q"


def test_bytes() -> None:
    values = [b"\x00\xff", b"", None, b"ab"]
    for name in ("b", "k", "o"):
        assert kept(f"{name} = from_base64('YWI=')", **{name: values}) == [False, False, False, True]
        assert kept(f"{name} <> 'ab'::BLOB", **{name: values}) == [True, True, False, False]
        assert kept(rf"{name} in (''::BLOB, '\x00\xFF'::BLOB)", **{name: values}) == [True, True, False, False]
        assert kept(f"{name} > 'a'::BLOB", **{name: values}) == [False, False, False, True]
    wide = pa.record_batch({"b": pa.array(values, pa.large_binary())})
    assert parse_predicate("b = 'ab'::BLOB", COLUMNS).evaluate(wide).to_pylist() == [False, False, False, True]
    assert kept("b = k", b=values, k=[b"\x00\xff"] * 4) == [True, False, False, False]


def test_any_column_can_be_null() -> None:
    assert kept("f is null or r is null", f=["1", None, "2"], r=[[], [1.0], None]) == [False, True, True]
    assert kept("m is not null", m=[[("a", 1.0)], None]) == [True, False]
    assert kept("g is not null", g=[["a"], []]) == [True, True]


@pytest.mark.parametrize(
    ("text", "kind", "expected", "found"),
    [
        ("d > 5", TYPES, "two of a kind for >", "a date and a whole number at character 1"),
        ("d > '2024-02-30'", TYPES, "a date of the years", "'2024-02-30'"),
        ("d in ('2024-03-05', '5.3.2024')", TYPES, "a date of the years", "'5.3.2024'"),
        ("d = t", TYPES, "two of a kind", "a date and a time of the day"),
        ("d = s", TYPES, "two of a kind", "a date and a text"),
        ("t = '25:00'", TYPES, "a time of the day", "'25:00'"),
        ("t = '12:00:00.0000000001'", TYPES, "at most 9 digits", "0000000001"),
        ("p > 'x'", TYPES, "a number like 12.34", "'x'"),
        ("p > true", TYPES, "two of a kind", "a decimal and true or false"),
        ("w > x", TYPES, "a decimal of at most 38 digits, or one that is cast", "w at character 1"),
        ("abs(w) > 1", TYPES, "a decimal of at most 38 digits, or one that is cast", "w at character 5"),
        ("w = 1e0", TYPES, "a decimal of at most 38 digits, or one that is cast", "w at character 1"),
        ("w > n", TYPES, "at most 76 digits on both sides", "90 digits"),
        ("b = 'x'", TYPES, "two of a kind for =", "bytes and a text"),
        ("f = 1", TYPES, "values that can be compared", "f at character 1"),
        ("r in (1)", TYPES, "values that can be compared", "r"),
        ("g = 'a'", TYPES, "values that can be compared", "g"),
        ("m", TYPES, "a condition", "a value that is not compared"),
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
        ("d > 2024-03-05", "d > '2024-03-05'"),
        ("d in (2024-03-05, 2024-03-06)", "d in ('2024-03-05', '2024-03-06')"),
        ("t <= 13:30:00.5", "t <= '13:30:00.5'"),
    ],
)
def test_the_error_has_the_expression_with_its_quotes(text: str, meant: str) -> None:
    with pytest.raises(SchemaParseError) as caught:
        parse_predicate(text, COLUMNS)
    assert str(caught.value.hint).endswith(f"n SQL: {meant}")


def number_of(name: str, value: Any) -> Fraction:
    """A value or the text of a literal as a number, by other means than the expression has."""
    if isinstance(value, date) or (isinstance(value, str) and name == "d"):
        return Fraction((date.fromisoformat(str(value)) - date(1970, 1, 1)).days)
    if name == "t" and isinstance(value, str):
        hour, minute, second = value.split(":")
        return (int(hour) * 60 + int(minute)) * 60 * 10**9 + Fraction(second) * 10**9
    return Fraction(value)


def random_value(chance: random.Random, name: str) -> tuple[Any, str]:
    """A value, and a literal for one like it."""
    if name == "d":
        day = date(2024, 1, 1) + timedelta(chance.randrange(-3, 4))
        return day, f"'{day}'"
    if name == "t":
        below = chance.randrange(3)
        return NOON + below, f"'12:00:00.00000000{below}'"
    number = Decimal(chance.randrange(-30, 31)).scaleb(-1)
    return number, f"{number}{chance.choice(['', '0', '0001'])}" if chance.random() < 0.7 else f"'{number}'"


@pytest.mark.parametrize("name", ["d", "t", "p", "q", "w"])
def test_random_comparisons_are_those_of_exact_numbers_and_skip_nothing_that_matches(name: str) -> None:
    chance, skipped = random.Random(name), 0
    for _ in range(300):
        values = [
            None if chance.random() < 0.2 else random_value(chance, name)[0] for _ in range(chance.randrange(1, 4))
        ]
        column = array(name, values)
        literals = [random_value(chance, name)[1] for _ in range(2)]
        sign = chance.choice([*SIGNS, "in"])
        text = f"{name} {sign} {literals[0]}" if sign != "in" else f"{name} in ({', '.join(literals)})"
        bounds = [number_of(name, literal.strip("'")) for literal in literals]
        expected = []
        for value in values:
            number = None if value is None else number_of(name, value)
            true = number in bounds if sign == "in" else number is not None and SIGNS[sign](number, bounds[0])
            expected.append(number is not None and true)
        predicate = parse_predicate(text, COLUMNS)
        assert predicate.evaluate(pa.record_batch({name: column})).to_pylist() == expected, (text, values)
        nulls = column.null_count
        low, high = (None, None) if nulls == len(values) else coded_bounds(column) or (None, None)
        stats = {name: RangeStats(0, len(values), nulls, low=low, high=high)}
        assert predicate.may_match(stats) or not any(expected), (text, values)
        inverted = parse_predicate(f"not ({text})", COLUMNS)
        held = inverted.evaluate(pa.record_batch({name: column})).to_pylist()
        assert inverted.may_match(stats) or not any(held), (text, values)
        skipped += not predicate.may_match(stats)
    assert skipped > 30


def test_skipping_is_not_idle() -> None:
    days = [(date(2024, 3, day) - date(1970, 1, 1)).days for day in (5, 9)]
    stats = {
        "d": RangeStats(0, 10, 0, low=days[0], high=days[1]),
        "t": RangeStats(0, 10, 2, low=NOON, high=NOON + 5),
        "p": RangeStats(0, 10, 0, low=-1_500_000, high=2_500_000),
        "n": RangeStats(0, 10, 10),
        "b": RangeStats(0, 10, 0),
    }
    skipped = [
        "d < '2024-03-05'", "d = '2024-03-10'", "'2024-03-09' < d", "d in ('2024-03-04', '2024-03-10')", "d is null",
        "t < '12:00'", "t > '12:00:00.000000005'", "p > 2.5", "p < '-1.5'", "p = 2.5000001", "p in (3, -1.6)",
        "n = 1", "n is not null", "b is null",
    ]  # fmt: skip
    held = [
        "d <= '2024-03-05'", "d in ('2024-03-04', '2024-03-09')", "t is null", "t >= '12:00:00.000000005'",
        "p >= 2.5", "p < -1.4999999", "p > 2.4999999", "n is null", "b = 'ab'::BLOB", "p = q", "not (d = '2024-03-05')",
    ]  # fmt: skip
    assert [text for text in skipped if parse_predicate(text, COLUMNS).may_match(stats)] == []
    assert [text for text in held if not parse_predicate(text, COLUMNS).may_match(stats)] == []
