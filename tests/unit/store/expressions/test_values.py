"""Value expressions: arithmetic, choices, functions, moved instants, exact decimals, and what is refused."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError
from sparkhaven.store.expressions.values.expression import parse_value
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage

_DECIMALS = "io.deephaven.util.codec.BigDecimalCodec"
_TYPES = {
    "s": data_type("String"),
    "b": data_type("Boolean"),
    "i": data_type("int"),
    "l": data_type("long"),
    "d": data_type("double"),
    "f": data_type("float"),
    "t": data_type("Instant"),
    "c": data_type("char"),
    "p": data_type("BigDecimal", _DECIMALS, "10,2"),
    "y": data_type("LocalDate", "io.deephaven.util.codec.LocalDateCodec"),
}
COLUMNS = [Column(name, kind, Kind.NORMAL, Storage.FIXED, number) for number, (name, kind) in enumerate(_TYPES.items())]


def rows(**values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({n: pa.array(v, _TYPES[n].arrow) for n, v in values.items()})


def values(text: str, target: str, **given_values: list[Any]) -> list[Any]:
    column = next(column for column in COLUMNS if column.name == target)
    batch = rows(**given_values)
    array = parse_value(text, COLUMNS, column).evaluate(batch)
    assert len(array) == batch.num_rows
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return list(array.to_pylist())


@pytest.mark.parametrize(
    ("text", "target", "given_values", "expected"),
    [
        ("i", "i", {"i": [1, None]}, [1, None]),
        ("7", "i", {"i": [1, None]}, [7, 7]),
        ("null", "i", {"i": [1, 2]}, [None, None]),
        ("i * 2 + 1", "i", {"i": [1, None, -3]}, [3, None, -5]),
        ("d / 4", "d", {"d": [1.0, None]}, [0.25, None]),
        ("i / 4", "d", {"i": [1, None]}, [0.25, None]),
        ("-i", "i", {"i": [1, None]}, [-1, None]),
        ("i % 3", "i", {"i": [7, -7, None]}, [1, -1, None]),
        ("i > 1 ? 0 : i", "i", {"i": [1, 2, None]}, [1, 0, None]),
        ("i > 1 ? d : i", "d", {"i": [1, 2, None], "d": [0.5, 0.5, 0.5]}, [1.0, 0.5, None]),
        ("b ? 1 : 2", "i", {"b": [True, False, None]}, [1, 2, 2]),
        ("i > 1", "b", {"i": [1, 2, None]}, [False, True, None]),
        ("isNull(i) ? 0 : i", "i", {"i": [1, None]}, [1, 0]),
        ("(i + 1).isNull()", "b", {"i": [1, None]}, [False, True]),
        ("abs(i) > 2 && !(i + 1 == 4)", "b", {"i": [-5, 3, 1]}, [True, False, False]),
        ("coalesce(i, l, 0)", "l", {"i": [None, None, 3], "l": [5, None, 4]}, [5, 0, 3]),
        ("coalesce(d, i)", "d", {"d": [None, 0.5], "i": [5, 6]}, [5.0, 0.5]),
        ("round(d)", "i", {"d": [0.5, -0.5, 1.4, None]}, [1, -1, 1, None]),
        ("floor(d) + ceil(d)", "i", {"d": [0.5, -0.5]}, [1, -1]),
        ("s + \"-\" + upper(s)", "s", {"s": ["a", None]}, ["a-A", None]),
        ("replace(trim(s), 'x', 'yy')", "s", {"s": [" axa ", None]}, ["ayya", None]),
        ("s in (\"a\", \"b\") ? 'z' : s", "s", {"s": ["a", "c", None]}, ["z", "c", None]),
        ("i = 1 ? null : s", "s", {"i": [1, 2], "s": ["a", "b"]}, [None, "b"]),
        ("t + 5", "t", {"t": [10, None]}, [15, None]),
        ("t - 5", "t", {"t": [10, None]}, [5, None]),
        ("t - \"1970-01-01T00:00:00Z\"", "l", {"t": [10, None]}, [10, None]),
        ("t > \"1970-01-01T00:00:00.000000011Z\" ? t : \"1970-01-01T00:00:01Z\"", "t", {"t": [12, 3]}, [12, 10**9]),
        ("\"1970-01-01T00:00:01Z\"", "t", {"t": [12]}, [10**9]),
        ("\"q\"", "c", {"c": [12]}, [ord("q")]),
        ("y + 1", "y", {"y": [date(2026, 2, 28), None]}, [date(2026, 3, 1), None]),
        ("y - \"2026-02-01\"", "i", {"y": [date(2026, 2, 28), None]}, [27, None]),
        ("\"2026-03-01\"", "y", {"y": [None]}, [date(2026, 3, 1)]),
        ("p * 0.1", "p", {"p": [Decimal("12.30"), None]}, [Decimal("1.230"), None]),
        ("p + 1", "p", {"p": [Decimal("12.30")]}, [Decimal("13.30")]),
        ("p - i", "p", {"p": [Decimal("12.30")], "i": [2]}, [Decimal("10.30")]),
        ("1.10", "p", {"p": [None]}, [Decimal("1.10")]),
        ("p > 1.15 ? 1.15 : p", "p", {"p": [Decimal("1.20"), Decimal("1.10")]}, [Decimal("1.15"), Decimal("1.10")]),
        ("p * 2 > 2.5 ? p : 0", "p", {"p": [Decimal("1.20"), Decimal("1.30")]}, [Decimal(0), Decimal("1.30")]),
        ("f * 1.1", "f", {"f": [1.0, None]}, [pa.scalar(1.1, pa.float32()).as_py(), None]),
        ("1 / 0", "d", {"d": [1.0]}, [math.inf]),
        ("1 == 1", "b", {"i": [1, 2]}, [True, True]),
        ("\"a\" == \"a\" ? 1 : 0", "i", {"i": [1]}, [1]),
    ],
)  # fmt: skip
def test_expressions_give_these_values(
    text: str, target: str, given_values: dict[str, list[Any]], expected: list[Any]
) -> None:
    assert values(text, target, **given_values) == expected


@pytest.mark.parametrize(
    ("text", "target", "character", "found"),
    [
        ("i +", "i", 4, "the end"),
        ("i ? 1 : 2", "i", 1, "a whole number"),
        ("b ? 1 : \"x\"", "i", 5, "a text"),
        ("b ? 1", "i", 6, "the end"),
        ("abs(s)", "i", 1, "a text"),
        ("upper(i)", "s", 1, "a whole number"),
        ("abs(i, i)", "i", 1, "2"),
        ("abbs(i)", "i", 1, "abbs"),
        ("replace(s, s, s)", "s", 1, "an expression"),
        ("unknown + 1", "i", 1, "unknown"),
        ("i # 2", "i", 3, "#"),
        ("p / 10", "p", 3, "/"),
        ("p + d", "p", 3, "a floating-point number"),
        ("b ? p : d", "p", 5, "a floating-point number"),
        ("\"not a date\"", "y", 1, "not a date"),
        ("s + 1", "s", 3, "a text"),
        ("i i", "i", 3, "i"),
        ("1e999", "d", 1, "1e999"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_position(text: str, target: str, character: int, found: str) -> None:
    column = next(column for column in COLUMNS if column.name == target)
    with pytest.raises(SchemaParseError) as caught:
        parse_value(text, COLUMNS, column)
    assert caught.value.where == f"character {character} of: {text}"
    assert found in str(caught.value.found)


@pytest.mark.parametrize(
    ("text", "given_values", "row"),
    [
        ("l + 1", {"l": [1, 2, 2**63 - 1, 2**63 - 1]}, 2),
        ("l * l", {"l": [1, 2**40]}, 1),
        ("round(d)", {"d": [0.0, 1.5, math.nan]}, 2),
        ("round(d)", {"d": [1e30, 1.5]}, 0),
        ("abs(l)", {"l": [1, -(2**63)]}, 1),
    ],
)
def test_a_result_that_its_type_does_not_hold_names_the_row(
    text: str, given_values: dict[str, list[Any]], row: int
) -> None:
    column = next(column for column in COLUMNS if column.name == "l")
    batch = pa.record_batch({n: pa.array(v, _TYPES[n].arrow) for n, v in given_values.items()})
    with pytest.raises(SchemaMismatchError) as caught:
        parse_value(text, COLUMNS, column).evaluate(batch, "row ", 100)
    assert caught.value.where == f"row {100 + row}"


_LEAVES = st.sampled_from(["i", "l", "3", "-2", "0"])
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*%"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["<", "==", ">="]), inner, inner, inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]} ? {t[3]} : {t[4]})"
        ),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        inner.map(lambda t: f"abs({t})"),
    ),
    max_leaves=12,
)


class _Number:
    """A whole number or null, with the operators of the language."""

    def __init__(self, value: int | None) -> None:
        self.value = value

    def _with(self, other: _Number, fn: Any) -> _Number:
        return _Number(None if self.value is None or other.value is None else fn(self.value, other.value))

    def __add__(self, other: _Number) -> _Number:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: _Number) -> _Number:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: _Number) -> _Number:
        return self._with(other, lambda a, b: a * b)

    def __mod__(self, other: _Number) -> _Number:
        return self._with(other, lambda a, b: None if b == 0 else int(math.fmod(a, b)))

    def compare(self, sign: str, other: _Number) -> bool:
        if self.value is None or other.value is None:
            return False
        return {"<": self.value < other.value, "==": self.value == other.value, ">=": self.value >= other.value}[sign]


def _model(text: str, row: dict[str, _Number]) -> _Number:
    """The value of a bracketed expression, by plain Python."""
    position = 0

    def take(part: str) -> bool:
        nonlocal position
        if text.startswith(part, position):
            position += len(part)
            return True
        return False

    def value() -> _Number:
        if take("coalesce("):
            one = value()
            take(", ")
            other = value()
            take(")")
            return other if one.value is None else one
        if take("abs("):
            inner = value()
            take(")")
            return _Number(None if inner.value is None else abs(inner.value))
        if take("("):
            left = value()
            sign = next(sign for sign in (" + ", " - ", " * ", " % ", " < ", " == ", " >= ") if take(sign)).strip()
            right = value()
            if sign in "+-*%":
                take(")")
                return {"+": left + right, "-": left - right, "*": left * right, "%": left % right}[sign]
            take(" ? ")
            yes = value()
            take(" : ")
            no = value()
            take(")")
            return yes if left.compare(sign, right) else no
        leaf = next(leaf for leaf in ("i", "l", "3", "-2", "0") if take(leaf))
        return row[leaf] if leaf in row else _Number(int(leaf))

    return value()


@given(_TREES, st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-9, 9))] * 2), min_size=1, max_size=5))
def test_expressions_agree_with_plain_python(text: str, pairs: list[tuple[int | None, int | None]]) -> None:
    expected = [_model(text, {"i": _Number(i), "l": _Number(number)}).value for i, number in pairs]
    given_values = {"i": [i for i, _ in pairs], "l": [number for _, number in pairs]}
    if any(value is not None and abs(value) >= 2**40 for value in expected):
        return  # the model has no bounds
    try:
        found = values(text, "l", **given_values)
    except SchemaMismatchError:
        return  # a part was too large, and the model has no bounds
    assert found == expected
