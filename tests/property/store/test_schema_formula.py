"""Key formulas against a naive evaluator that does what the Java language specification says, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.formula.evaluation import Text, parse_formula, sort_partitions
from sparkhaven.store.schema.document.schema_file import parse_schema

COLUMNS = {"Sym": "String", "Ch": "char", "Flag": "boolean", "B": "byte", "I": "int", "L": "long"}
SCHEMA = parse_schema(
    (
        '<Table namespace="Ns" name="Tab" storageType="NestedPartitionedOnDisk">'
        '<Column name="Date" dataType="String" columnType="Partitioning"/>'
        + "".join(f'<Column name="{n}" dataType="{t}"/>' for n, t in COLUMNS.items())
        + "</Table>"
    ).encode(),
    "Ns.Tab.schema",
).schema
NULLS = {"Ch": 0xFFFF, "B": -(2**7), "I": -(2**31), "L": -(2**63)}
ARROW = {c.name: c.type.arrow for c in SCHEMA.columns}
PARTITIONS = ["10", "9", "b", "a", "0"]
DAY = 32


@dataclass(frozen=True)
class Long:
    value: int


Row = dict[str, Any]


def wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def naive_hash(text: str) -> int:
    units = text.encode("utf-16-le", "surrogatepass")
    result = 0
    for at in range(0, len(units), 2):
        result = wrap(31 * result + int.from_bytes(units[at : at + 2], "little"), 32)
    return result


class Arithmetic(Exception):
    pass


@dataclass(frozen=True)
class Expression:
    """Text of an expression, its type, and what a JVM makes of it for one row."""

    text: str
    type: str  # int long text char boolean
    run: Any

    def as_text(self, row: Row) -> str:
        value = self.run(row)
        if value is None:
            return "null"
        if self.type == "boolean":
            return "true" if value else "false"
        if self.type == "char":
            return chr(value) if isinstance(value, int) else str(value)
        return str(value)

    def as_number(self, row: Row) -> int:
        value = self.run(row)
        return NULLS[self.text] if value is None else int(value)


def column(name: str) -> Expression:
    kinds = {"Sym": "text", "Ch": "char", "Flag": "boolean", "L": "long"}
    return Expression(name, kinds.get(name, "int"), lambda row: row[name])


LITERALS = st.one_of(
    st.integers(0, 2**31 - 1).map(lambda v: Expression(str(v), "int", lambda _: v)),
    st.integers(1, 9).map(lambda v: Expression(str(v), "int", lambda _: v)),
    st.just(Expression("-2147483648", "int", lambda _: -(2**31))),
    st.just(Expression("__DAY_OF_YEAR__", "int", lambda _: DAY)),
    st.just(Expression("__NUM_WRITABLE_PARTITIONS__", "int", lambda _: len(PARTITIONS))),
)
TEXTS = st.one_of(
    st.just(Expression("__NS_TN__", "text", lambda _: "Ns.Tab")),
    st.text("aé😀", max_size=3).map(lambda v: Expression(f"`{v}`", "text", lambda _: v)),
    st.just(column("Sym")),
)
NUMBERS = st.one_of(LITERALS, st.sampled_from(["Ch", "B", "I", "L"]).map(column))


def arithmetic(op: str, left: Expression, right: Expression) -> Expression:
    bits = 64 if "long" in (left.type, right.type) else 32

    def run(row: Row) -> int:
        a, b = left.as_number(row), right.as_number(row)
        if op in "/%":
            if b == 0:
                raise Arithmetic
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return wrap(quotient if op == "/" else a - quotient * b, bits)
        return wrap({"+": a + b, "-": a - b, "*": a * b}[op], bits)

    return Expression(f"({left.text} {op} {right.text})", "long" if bits == 64 else "int", run)


def negative(part: Expression) -> Expression:
    bits = 64 if part.type == "long" else 32
    return Expression(
        f"(-({part.text}))", "long" if bits == 64 else "int", lambda row: wrap(-part.as_number(row), bits)
    )


def absolute(part: Expression) -> Expression:
    bits = 64 if part.type == "long" else 32

    def run(row: Row) -> int:
        value = part.as_number(row)
        return 0 if value == -(1 << (bits - 1)) else abs(value)

    return Expression(f"Math.abs({part.text})", "long" if bits == 64 else "int", run)


def hashed(part: Expression) -> Expression:
    def run(row: Row) -> int:
        # a null String has hash 0; in a join it is the four letters
        return 0 if part.run(row) is None else naive_hash(part.as_text(row))

    return Expression(f"({part.text}).hashCode()", "int", run)


def joined(left: Expression, right: Expression) -> Expression:
    return Expression(f"({left.text} + {right.text})", "text", lambda row: left.as_text(row) + right.as_text(row))


def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    numbers = inner.filter(lambda e: e.type in ("int", "long", "char"))
    texts = st.one_of(TEXTS, inner.filter(lambda e: e.type == "text"))
    return st.one_of(
        st.builds(arithmetic, st.sampled_from("+-*/%"), numbers, numbers),
        st.builds(negative, numbers),
        st.builds(absolute, numbers),
        st.builds(hashed, texts),
        st.builds(joined, texts, st.one_of(inner, st.just(column("Flag")))),
        st.builds(joined, inner, TEXTS),
    )


EXPRESSIONS = st.recursive(st.one_of(NUMBERS, TEXTS), grow, max_leaves=8)
ROWS = st.fixed_dictionaries(
    {
        "Sym": st.none() | st.sampled_from(["", "UA", "polygenelubricants", "\U0001f600é"]),
        "Ch": st.none() | st.sampled_from([0, 97, 0xD83D, 0xFFFE]),
        "Flag": st.none() | st.booleans(),
        "B": st.none() | st.integers(-127, 127),
        "I": st.none() | st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31) + 1]),
        "L": st.none() | st.sampled_from([0, -1, 3, 2**63 - 1, -(2**63) + 1]),
    }
)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(EXPRESSIONS, st.lists(ROWS, min_size=1, max_size=6))
def test_like_a_jvm(expression: Expression, rows: list[Row]) -> None:
    formula = f"__WRITABLE_PARTITIONS__[Math.abs((`` + {expression.text}).hashCode()) % __NUM_WRITABLE_PARTITIONS__]"
    columns = {name: pa.array([row[name] for row in rows], ARROW[name]) for name in COLUMNS}
    parsed = parse_formula(formula, SCHEMA)

    def run() -> list[int]:
        return list(parsed.assign("Ns", "Tab", "2013-02-01", columns, PARTITIONS, rows=len(rows)))

    try:
        codes = [naive_hash(expression.as_text(row)) for row in rows]
    except Arithmetic:
        with pytest.raises(SchemaParseError, match="divides by zero"):
            run()
        return
    assert run() == [(0 if code == -(2**31) else abs(code)) % len(PARTITIONS) for code in codes]


@given(st.text(max_size=40))
def test_hash_of_any_text(text: str) -> None:
    assert Text.of([text]).hash_code().tolist() == [naive_hash(text)]


@given(st.lists(st.text("0123456789ab", min_size=1, max_size=4), unique=True))
def test_order_does_not_depend_on_the_order_given(names: list[str]) -> None:
    ordered = sort_partitions(names)
    assert ordered == sort_partitions(names[::-1])
    digits = [n for n in ordered if n.isdigit()]
    assert ordered[: len(digits)] == digits
    assert [int(n) for n in digits] == sorted(int(n) for n in digits)


@settings(max_examples=200, deadline=None)
@given(st.text('SymIL()[].+-*/%"`_$\\{}0129 absMthOdeNULPRIT', max_size=30))
def test_any_text_is_a_formula_or_an_error_with_a_code(text: str) -> None:
    try:
        parse_formula(text, SCHEMA)
    except SchemaParseError as error:
        assert error.code in ("E121", "E122", "E123")
