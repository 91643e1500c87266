"""What a column is set to: SQL over its row, the types of its values, and what is refused."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.errors import SchemaMismatchError, SchemaParseError
from sparkhaven.store.expressions.predicate.expression import parse_value
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
        ("case when i > 1 then 0 else i end", "i", {"i": [1, 2, None]}, [1, 0, None]),
        ("if(b, 1, 2)", "i", {"b": [True, False, None]}, [1, 2, 2]),
        ("i > 1", "b", {"i": [1, 2, None]}, [False, True, None]),
        ("coalesce(i, l, 0)", "l", {"i": [None, None, 3], "l": [5, None, 4]}, [5, 0, 3]),
        ("round(d)", "i", {"d": [0.5, -0.5, 1.4, None]}, [1.0, -1.0, 1.0, None]),
        ("s || '-' || upper(s)", "s", {"s": ["a", None]}, ["a-A", None]),
        ("replace(trim(s), 'x', 'yy')", "s", {"s": [" axa ", None]}, ["ayya", None]),
        ("case when s in ('a', 'b') then 'z' else s end", "s", {"s": ["a", "c", None]}, ["z", "c", None]),
        ("make_timestamp_ns(epoch_ns(t) + 5)", "t", {"t": [10, None]}, [15, None]),
        ("epoch_ns(t) - 5", "l", {"t": [10, None]}, [5, None]),
        ("'1970-01-01T00:00:01Z'", "t", {"t": [12]}, ["1970-01-01T00:00:01Z"]),
        ("chr(c)", "c", {"c": [65]}, ["A"]),
        ("y + 1", "y", {"y": [date(2026, 2, 28), None]}, [date(2026, 3, 1), None]),
        ("y - date '2026-02-01'", "i", {"y": [date(2026, 2, 28), None]}, [27, None]),
        ("p * 0.1", "p", {"p": [Decimal("12.30"), None]}, [Decimal("1.230"), None]),
        ("p + 1", "p", {"p": [Decimal("12.30")]}, [Decimal("13.30")]),
        ("p - i", "p", {"p": [Decimal("12.30")], "i": [2]}, [Decimal("10.30")]),
        ("1.10", "p", {"p": [None]}, [Decimal("1.10")]),
        ("least(p, 1.15)", "p", {"p": [Decimal("1.20"), Decimal("1.10")]}, [Decimal("1.15"), Decimal("1.10")]),
        ("f * 1.1", "f", {"f": [1.0, None]}, [pa.scalar(1.1, pa.float32()).as_py(), None]),
        ("d * 1.1", "f", {"d": [1.0, None]}, [pa.scalar(1.1, pa.float32()).as_py(), None]),
        ("d", "f", {"d": [0.1]}, [0.1]),
        ("1 = 1", "b", {"i": [1, 2]}, [True, True]),
        ("S || s", "s", {"s": ["a"]}, ["aa"]),
    ],
)
def test_expressions_give_these_values(
    text: str, target: str, given_values: dict[str, list[Any]], expected: list[Any]
) -> None:
    assert values(text, target, **given_values) == expected


@pytest.mark.parametrize(
    ("text", "target", "character", "found"),
    [
        ("i +", "i", 3, "syntax error"),
        ("i == 1", "b", 3, "=="),
        ("b && b", "b", 3, "&&"),
        ("abs(s)", "i", 1, "abs"),
        ("abbs(i)", "i", 1, "abbs"),
        ("i + unknown", "i", 5, "unknown"),
        ("i i", "i", 1, "i i"),
        ("sum(i)", "i", 1, "aggregates"),
        ("row_number() over ()", "i", 1, "a window"),
        ("(select 1)", "i", 1, "a query inside"),
        ("random()", "d", 1, "random"),
    ],
)
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
        ("cast(d as bigint)", {"d": [0.0, 1.5, math.nan]}, 2),
        ("cast(d as bigint)", {"d": [1e30, 1.5]}, 0),
        ("l % i", {"l": [1, 2, 3], "i": [1, 0, 0]}, 1),
        ("s::int", {"s": ["1", "x"]}, 1),
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


@pytest.mark.parametrize(
    ("text", "target", "sql"),
    [
        ("s == 'a' ? 'b' : 'c'", "s", "CASE WHEN s = 'a' THEN 'b' ELSE 'c' END"),
        ("s + '!'", "s", "s || '!'"),
        ('s + "!"', "s", "s || '!'"),
        ("isNull(i) ? 0 : i", "i", "CASE WHEN i IS NULL THEN 0 ELSE i END"),
    ],
)
def test_the_hint_has_the_value_in_sql(text: str, target: str, sql: str) -> None:
    column = next(column for column in COLUMNS if column.name == target)
    with pytest.raises(SchemaParseError) as caught:
        parse_value(text, COLUMNS, column)
    assert str(caught.value.hint).endswith(sql)
    parse_value(sql, COLUMNS, column)
