"""Conditions over the columns of a table: SQL, evaluated over Arrow, and used to skip ranges by their statistics.

``read --where``, ``where=``, the option ``where`` and the filters of rules share the language of DuckDB, which parses
it (``store.expressions.predicate.parsing``). Logic has three values: whatever compares with a null is neither true nor
false, NOT of it too, and a row is kept only where the whole is true. NaN is equal to itself and above every other
number. -0.0 equals 0.0. Texts are ordered by code point.

``may_match`` answers from statistics alone and may keep too much, never too little.

Conditions evaluated over Arrow: Boolean arrays that are null where the outcome is not known.

Evaluates conditions on statistics only: may return outcomes that do not occur, never omits one.

What ``rewrite-column --set`` sets a column to is a SQL expression over one row, which DuckDB evaluates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.duckdb_engine import evaluated
from sparkhaven.store.expressions.predicate.nodes import (
    COMPARISONS,
    MIRROR,
    SYNTAX,
    TYPES,
    UNKNOWN_COLUMN,
    Literal,
    PredicateError,
    PredicateNode,
    Sort,
    column_node,
    columns_of,
    same_kind,
)
from sparkhaven.store.expressions.predicate.parsing import ExpressionParser, one_expression, parse, refuse_other_signs
from sparkhaven.store.expressions.predicate.spelling import with_sql_hint
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, TableSchema

_KERNELS = {"=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_WHOLE = (Sort.INTEGER, Sort.INSTANT, Sort.CHAR, Sort.DATE, Sort.TIME)
_LONG = (-(2**63), 2**63 - 1)
_WIDE = Context(prec=100)


def condition(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    if node.op in ("and", "or"):
        kernel = pc.and_kleene if node.op == "and" else pc.or_kleene
        truth = condition(node.parts[0], rows)
        for part in node.parts[1:]:
            truth = kernel(truth, condition(part, rows))
        return truth
    if node.op == "not":
        return pc.invert(condition(node.parts[0], rows))
    if node.op == "isnull":
        return pc.is_null(_plain(_value(node.parts[0], rows)))
    if node.op == "isnan":
        return pc.is_nan(_value(node.parts[0], rows).cast(pa.float64()))
    if node.op == "sql":
        return evaluated(str(node.value), rows.select([str(part.value) for part in node.parts]))
    if node.op == "in":
        return _member(node, rows)
    if node.op in COMPARISONS:
        return _compared(node, rows)
    if node.op == "literal":
        return pa.repeat(pa.scalar(node.value, pa.bool_()), rows.num_rows)
    return _plain(_value(node, rows))


def _never(value: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), False)


def _compared(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    left, right = node.parts
    if right.op == "literal":
        return _against(node.op, _value(left, rows), left.sort, right)
    return _pairwise(node.op, _plain(_value(left, rows)), _plain(_value(right, rows)))


def _against(op: str, values: pa.Array, sort: Sort, literal: PredicateNode) -> pa.Array:
    """Values against one literal; a dictionary is compared entry by entry."""
    if isinstance(values, pa.DictionaryArray):
        return _against(op, values.dictionary, sort, literal).take(values.indices)
    value = literal.value
    if sort is Sort.FLOAT:
        truth = _kernel(op)(values.cast(pa.float64()), pa.scalar(value, pa.float64()))
        if op in (">", ">="):  # NaN is above everything
            truth = pc.or_kleene(truth, pc.is_nan(values.cast(pa.float64())))
        return truth
    if sort in _WHOLE or sort is Sort.DECIMAL:
        op, bound = _integer_literal(op, value, _range_of(values.type))
        if bound is None:
            return _constant_of(op, values)
        if sort is Sort.DECIMAL:
            return _kernel(op)(values, _decimals([bound], values.type)[0])
        return _kernel(op)(_counts(values), pa.scalar(bound, pa.int64()))
    kind = pa.bool_() if sort is Sort.BOOLEAN else values.type
    return _kernel(op)(values, pa.scalar(value, kind))


def _range_of(kind: pa.DataType) -> tuple[int, int]:
    """The least and the largest of the numbers that values of a type are compared as."""
    if not pa.types.is_decimal(kind):
        return _LONG
    most = 10**kind.precision - 1
    return -most, most


def _decimals(units: list[int], kind: pa.DataType) -> pa.Array:
    """Decimals by how many units of their last digit they have."""
    return pa.array([Decimal(number).scaleb(-kind.scale, _WIDE) for number in units], kind)


def _counts(values: pa.Array) -> pa.Array:
    """Whole numbers as long; of instants and times nanoseconds, of dates days."""
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return values.view(pa.int64()) if pa.types.is_time64(values.type) else values.cast(pa.int64())


def _integer_literal(op: str, value: object, within: tuple[int, int]) -> tuple[str, int | None]:
    """A comparison of whole numbers with a whole bound; None = the answer is one for all values, ``=`` is false.

    ``within``: the least and the largest number that a value can be.
    """
    assert isinstance(value, int | float | Decimal)  # noqa: S101 - the parser compares numbers with numbers
    floor = math.floor(value)
    if floor != value:
        if op in ("=", "<>"):
            return op, None
        op = "<=" if op in ("<", "<=") else ">"
    if within[0] <= floor <= within[1]:
        return op, floor
    if op in ("=", "<>"):
        return op, None
    above = floor > within[1]
    return ("<>" if (op in ("<", "<=")) == above else "="), None


def _constant_of(op: str, values: pa.Array) -> pa.Array:
    never = _never(values)
    return pc.invert(never) if op == "<>" else never


def _pairwise(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        left, right = left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
        return _floats(op, left, right)
    if pa.types.is_timestamp(left.type) or pa.types.is_timestamp(right.type):
        left, right = left.cast(pa.int64()), right.cast(pa.int64())
    if pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type):
        kind = pa.decimal256(76, max(_scale(left.type), _scale(right.type)))
        left, right = left.cast(kind), right.cast(kind)
    if pa.types.is_large_binary(left.type) or pa.types.is_large_binary(right.type):
        left, right = left.cast(pa.large_binary()), right.cast(pa.large_binary())
    if pa.types.is_large_string(left.type) or pa.types.is_large_string(right.type):
        left, right = left.cast(pa.large_string()), right.cast(pa.large_string())
    return _kernel(op)(left, right)


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _floats(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    if op in (">", ">="):
        return _floats(MIRROR[op], right, left)
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if op == "<":
        return pc.or_kleene(pc.less(left, right), pc.and_kleene(right_nan, pc.invert(left_nan)))
    if op == "<=":
        return pc.or_kleene(pc.less_equal(left, right), pc.and_kleene(right_nan, pc.is_valid(left)))
    same = pc.or_kleene(pc.equal(left, right), pc.and_kleene(left_nan, right_nan))
    return same if op == "=" else pc.invert(same)


def _member(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    part = node.parts[0]
    values = _value(part, rows)
    entries = values.dictionary if isinstance(values, pa.DictionaryArray) else values
    assert isinstance(node.value, tuple)  # noqa: S101 - made by the parser
    if part.sort in (Sort.TEXT, Sort.BOOLEAN, Sort.BYTES):
        member = pc.is_in(entries, value_set=pa.array(node.value, entries.type))
    elif part.sort is Sort.FLOAT:
        # adding 0.0 turns -0.0 into 0.0: the set is compared by bits
        wanted = pa.array([float(v) + 0.0 for v in node.value if isinstance(v, float)], "f8")
        member = pc.is_in(pc.add(entries.cast(pa.float64()), 0.0), value_set=wanted)
    else:
        whole = [int(v) for v in node.value if not isinstance(v, str | bytes) and v == math.floor(v)]
        low, high = _range_of(entries.type)
        inside = [v for v in whole if low <= v <= high]
        if part.sort is Sort.DECIMAL:
            member = pc.is_in(entries, value_set=_decimals(inside, entries.type))
        else:
            member = pc.is_in(_counts(entries), value_set=pa.array(inside, pa.int64()))
    member = pc.if_else(pc.is_null(entries), pa.scalar(None, pa.bool_()), member)
    return member.take(values.indices) if isinstance(values, pa.DictionaryArray) else member


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _value(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    return rows.column(str(node.value))


def _kernel(op: str) -> Any:
    return getattr(pc, _KERNELS[op])


TRUE, FALSE, NULL = 1, 2, 4  # outcomes that a range may have, as bits
ANY = TRUE | FALSE | NULL


def outcomes(node: PredicateNode, stats: Mapping[str, RangeStats | None]) -> int:
    """Every outcome that some row of the range may have; may name too many, never too few."""
    if node.op == "literal":
        return NULL if node.value is None else TRUE if node.value else FALSE
    if node.op == "not":
        inner = outcomes(node.parts[0], stats)
        return (inner & NULL) | (FALSE if inner & TRUE else 0) | (TRUE if inner & FALSE else 0)
    if node.op in ("and", "or"):
        absorbing, neutral = (FALSE, TRUE) if node.op == "and" else (TRUE, FALSE)
        parts = [outcomes(part, stats) for part in node.parts]
        united = absorbing if any(o & absorbing for o in parts) else 0
        free = [o & ~absorbing for o in parts]
        if all(free):
            united |= NULL if any(o & NULL for o in free) else 0
            united |= neutral if all(o & neutral for o in free) else 0
        return united
    if node.op == "isnull":
        return _null_outcomes(node.parts[0], stats)
    if node.op == "column":
        return _column_outcomes("=", node, True, stats)
    if node.op == "in":
        assert isinstance(node.value, tuple)  # noqa: S101 - made by the parser
        members = [_column_outcomes("=", node.parts[0], value, stats) for value in node.value]
        if TRUE in members:
            return TRUE
        return ANY if any(o & TRUE for o in members) else FALSE | (members[0] & NULL)
    if node.op in COMPARISONS:
        left, right = node.parts
        if right.op == "literal" and not isinstance(right.value, tuple | None):
            return _column_outcomes(node.op, left, right.value, stats)
        if left.op == "literal" and not isinstance(left.value, tuple | None):
            return _column_outcomes(MIRROR[node.op], right, left.value, stats)
    return ANY


def _null_outcomes(node: PredicateNode, stats: Mapping[str, RangeStats | None]) -> int:
    column_stats = stats.get(str(node.value)) if node.op == "column" else None
    if column_stats is None:
        return ANY
    rows = column_stats.stop - column_stats.start
    return (TRUE if column_stats.nulls > 0 else 0) | (FALSE if column_stats.nulls < rows else 0)


def _column_outcomes(op: str, node: PredicateNode, value: Literal, stats: Mapping[str, RangeStats | None]) -> int:
    """Outcomes of ``column op value``."""
    column_stats = stats.get(str(node.value)) if node.op == "column" else None
    if column_stats is None:
        return ANY
    rows = column_stats.stop - column_stats.start
    possible = NULL if column_stats.nulls else 0
    if column_stats.nans:  # NaN is above every literal
        possible |= TRUE if op in (">", ">=", "<>") else FALSE
    if column_stats.nulls + column_stats.nans >= rows:
        return possible
    low, high = column_stats.low, column_stats.high
    if low is None or high is None or isinstance(low, str) != isinstance(value, str):
        return possible | TRUE | FALSE
    return possible | _range_outcomes(op, low, high, value)


def _range_outcomes(op: str, low: Literal, high: Literal, value: Literal) -> int:
    """Outcomes of ``x op value`` for some x in the closed range; Python compares numbers exactly."""
    below, above = low < value, high > value  # type: ignore[operator]
    inside = low <= value <= high  # type: ignore[operator]
    if op == "=":
        return (TRUE if inside else 0) | (FALSE if low != high or not inside else 0)
    if op == "<>":
        return (FALSE if inside else 0) | (TRUE if low != high or not inside else 0)
    if op == "<":
        return (TRUE if below else 0) | (FALSE if high >= value else 0)  # type: ignore[operator]
    if op == "<=":
        return (TRUE if low <= value else 0) | (FALSE if above else 0)  # type: ignore[operator]
    if op == ">":
        return (TRUE if above else 0) | (FALSE if low <= value else 0)  # type: ignore[operator]
    return (TRUE if high >= value else 0) | (FALSE if below else 0)  # type: ignore[operator]


__all__ = ["SYNTAX", "TYPES", "UNKNOWN_COLUMN", "Predicate", "compare_columns", "parse_predicate", "unusable"]


def parse_predicate(text: str, schema: TableSchema | Iterable[Column]) -> Predicate:
    """Parses a condition over the columns of a table.

    Args:
        text: one SQL expression that is true or false.
        schema: the table, or its columns.

    Returns:
        The condition.

    Raises:
        SchemaParseError: it cannot be used. ``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES, ``where`` names the
            character, and ``hint`` has the condition in SQL where another language was written.
    """
    columns = tuple(schema.columns if isinstance(schema, TableSchema) else schema)
    try:
        return Predicate(text, parse(text, columns))
    except PredicateError as error:
        raise unusable(text, error, with_sql_hint(text, error, lambda again: parse(again, columns), columns)) from None


def compare_columns(sign: str, left: Column, right: Column) -> Predicate:
    """``left sign right``, whatever the columns are called. Raises SchemaParseError where they cannot be compared."""
    text = f"{left.name} {sign} {right.name}"
    sides = column_node(left), column_node(right)
    try:
        if Sort.OTHER in (sides[0].sort, sides[1].sort):
            raise PredicateError(TYPES, 1, "columns that can be compared", f"{left.type.name} and {right.type.name}")
        same_kind(*sides, sign, 1)
    except PredicateError as error:
        raise unusable(text, error, error.hint) from None
    return Predicate(text, PredicateNode(sign, Sort.BOOLEAN, sides))


def unusable(text: str, error: PredicateError, hint: str | None) -> SchemaParseError:
    """The error of an expression that cannot be used."""
    return SchemaParseError(
        "expression cannot be used",
        where=f"character {error.character} of: {text}",
        expected=error.expected,
        found=f"{error.found} at character {error.character}",
        hint=hint,
        kind=error.kind,
    )


@dataclass(frozen=True, slots=True)
class Predicate:
    text: str
    node: PredicateNode

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of(self.node)

    def evaluate(self, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """True where a row is kept, false where it is not or where it is not known; never null."""
        if isinstance(rows, pa.Table):
            parts = [self.evaluate(batch) for batch in rows.select(list(self.columns)).to_batches()]
            if not self.columns:
                return pa.array([], pa.bool_()) if not rows.num_rows else self._constant(rows.num_rows)
            return pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())
        if not self.columns:
            return self._constant(rows.num_rows)
        return pc.fill_null(condition(self.node, rows), False)

    def _constant(self, rows: int) -> pa.BooleanArray:
        value = pc.fill_null(condition(self.node, pa.record_batch({"": pa.array([0])})), False)[0].as_py()
        return pa.array(np.full(rows, value))

    def filter(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        return rows.filter(self.evaluate(rows))

    def may_match(self, stats: Mapping[str, RangeStats | None]) -> bool:
        """Whether a row of a range may be kept; False = the range need not be read.

        ``stats`` has the statistics of the same range by column; a column without any may hold anything. The value
        of the partitioning column goes in as a range whose ``low`` and ``high`` are that value.
        """
        return bool(outcomes(self.node, stats) & TRUE)

    def all_match(self, stats: Mapping[str, RangeStats | None]) -> bool:
        """Whether every row of a range is kept. False: a row may not be."""
        return outcomes(self.node, stats) == TRUE


_NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT")


@dataclass(frozen=True, slots=True)
class ValueExpression:
    """What a column is set to. Its values are not yet those of the column's type.

    ``sql``: the text that DuckDB is given; None: the values of a column. ``kind``: the type of the values.
    ``columns``: the names that it uses.
    """

    text: str
    sql: str | None
    columns: tuple[str, ...]
    kind: pa.DataType = field(compare=False)

    def evaluate(self, rows: pa.RecordBatch, where: str = "row ", first: int = 0) -> pa.Array:
        """One value for each row. SchemaMismatchError: a row that has none, at ``where`` and its number."""
        if self.sql is None:
            values = rows.column(self.columns[0])
            return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
        return evaluated(self.sql, rows, where, first)


def parse_value(text: str, columns: Iterable[Column], target: Column) -> ValueExpression:
    """Parses what ``target`` is set to, over these columns.

    Raises SchemaParseError (``kind`` as of ``parse_predicate``) that names the character where parsing failed.
    """
    columns = tuple(columns)
    try:
        return _parsed(text, columns, target)
    except PredicateError as error:
        hint = with_sql_hint(text, error, lambda again: _parsed(again, columns, target), columns)
        raise unusable(text, error, hint) from None


def _parsed(text: str, columns: tuple[Column, ...], target: Column) -> ValueExpression:
    refuse_other_signs(text, {"==": "=", "&&": "AND", "!": "NOT"})
    statement, tree = one_expression(text)
    parser = ExpressionParser(text, {column.name: column for column in columns}, statement)
    if tree.get("type") == "COLUMN_REF":
        column = parser.column_of(tree)
        return ValueExpression(text, None, (column.name,), column.type.arrow)
    node = parser.sql(tree)
    names = tuple(str(part.value) for part in node.parts)
    kind, sql = parser.bound_type(tree), str(node.value)
    if target.type.name == "float" and kind.partition("(")[0] in _NUMBERS:
        sql = f"cast({sql} as float)"  # the nearest one
    elif target.type.name == "Instant" and kind in ("TIMESTAMP", "TIMESTAMP_NS"):  # of UTC, as in a query
        sql = f"cast({sql} as timestamptz_ns)"
    elif kind == "HUGEINT":
        sql = f"cast({sql} as bigint)"
    return ValueExpression(text, sql, names, parser.arrow_type(tree, sql))
