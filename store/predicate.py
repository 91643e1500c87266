"""Where-expressions: parsed against a schema, evaluated over Arrow, and used to skip ranges by their statistics.

``read --where``, ``where=`` and the filters of rules share the language of ``store.predicate_syntax``.

Logic has three values as in SQL: whatever compares with a null is neither true nor false, ``!`` of it too, and a row
is kept only where the whole is true. NaN follows Deephaven: it is equal to itself and above every other number.
-0.0 equals 0.0. Texts are ordered by code point. Whole numbers are exact among themselves, and against a literal;
arithmetic wraps at 64 bits; ``/`` gives a double, ``%`` has the sign of the dividend and is null for a divisor of 0.

``may_match`` answers from statistics alone and may keep too much, never too little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from store.epochs.state import RangeStats
from store.errors import SchemaParseError
from store.predicate_syntax import COMPARISONS, SYNTAX, TYPES, UNKNOWN_COLUMN, Literal, Node, PredicateSlip, Sort, parse
from store.schema.model import Column, TableSchema

__all__ = ["SYNTAX", "TYPES", "UNKNOWN_COLUMN", "Predicate", "parse_predicate"]

_TRUE, _FALSE, _NULL = 1, 2, 4  # outcomes that a range may have, as bits
_ANY = _TRUE | _FALSE | _NULL
_MIRROR = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KERNELS = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def parse_predicate(text: str, schema: TableSchema | Iterable[Column]) -> Predicate:
    """Parses an expression over the columns of a table.

    Raises SchemaParseError (``kind`` is SYNTAX, UNKNOWN_COLUMN or TYPES) that tells the character of the slip.
    """
    try:
        node = parse(text, schema.columns if isinstance(schema, TableSchema) else schema)
    except PredicateSlip as slip:
        raise SchemaParseError(
            "expression cannot be used",
            where=f"character {slip.at} of: {text}",
            expected=slip.expected,
            found=f"{slip.found} at character {slip.at}",
            hint=slip.hint,
            kind=slip.kind,
        ) from None
    return Predicate(text, node)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A parsed expression."""

    text: str
    node: Node

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it reads, sorted."""
        names: set[str] = set()
        todo = [self.node]
        while todo:
            node = todo.pop()
            if node.op == "column":
                names.add(str(node.value))
            todo.extend(node.parts)
        return tuple(sorted(names))

    def evaluate(self, rows: pa.RecordBatch | pa.Table) -> pa.BooleanArray:
        """True where a row is kept, false where it is not or where it is not known; never null."""
        if isinstance(rows, pa.Table):
            parts = [self.evaluate(batch) for batch in rows.select(list(self.columns)).to_batches()]
            if not self.columns:
                return pa.array([], pa.bool_()) if not rows.num_rows else self._constant(rows.num_rows)
            return pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())
        if not self.columns:
            return self._constant(rows.num_rows)
        return pc.fill_null(_condition(self.node, rows), False)

    def _constant(self, rows: int) -> pa.BooleanArray:
        value = pc.fill_null(_condition(self.node, pa.record_batch({"": pa.array([0])})), False)[0].as_py()
        return pa.array(np.full(rows, value))

    def filter(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """The rows that are kept."""
        return rows.filter(self.evaluate(rows))

    def may_match(self, stats: Mapping[str, RangeStats | None]) -> bool:
        """Whether a row of a range may be kept; False = the range need not be read.

        ``stats`` has the statistics of the same range by column; a column without any may hold anything. The value
        of the partitioning column goes in as a range whose ``low`` and ``high`` are that value.
        """
        return bool(_outcomes(self.node, stats) & _TRUE)

    def prune(self, stats: Mapping[str, RangeStats | None]) -> bool:
        """The opposite of ``may_match``: whether a range can be skipped."""
        return not self.may_match(stats)


# --- evaluation -------------------------------------------------------------------------------------------------------


def _condition(node: Node, rows: pa.RecordBatch) -> pa.Array:
    """A Boolean array with nulls where the outcome is not known."""
    if node.op in ("&&", "||"):
        kernel = pc.and_kleene if node.op == "&&" else pc.or_kleene
        result = _condition(node.parts[0], rows)
        for part in node.parts[1:]:
            result = kernel(result, _condition(part, rows))
        return result
    if node.op == "!":
        return pc.invert(_condition(node.parts[0], rows))
    if node.op == "isnull":
        return pc.is_null(_plain(_value(node.parts[0], rows)))
    if node.op == "isnan":
        value = _plain(_value(node.parts[0], rows))
        return pc.is_nan(value.cast(pa.float64())) if node.parts[0].sort is Sort.FLOAT else _never(value)
    if node.op == "in":
        return _member(node, rows)
    if node.op in COMPARISONS:
        return _compared(node, rows)
    if node.op == "literal":
        return pa.array(np.full(rows.num_rows, bool(node.value)))
    return _plain(_value(node, rows))


def _never(value: pa.Array) -> pa.Array:
    """False for every value, null for every null."""
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), False)


def _compared(node: Node, rows: pa.RecordBatch) -> pa.Array:
    left, right = node.parts
    if left.op == "literal" and right.op != "literal":
        return _against(_MIRROR[node.op], _value(right, rows), right.sort, left)
    if right.op == "literal":
        return _against(node.op, _value(left, rows), left.sort, right)
    return _pairwise(node.op, _plain(_value(left, rows)), _plain(_value(right, rows)))


def _against(op: str, values: pa.Array, sort: Sort, literal: Node) -> pa.Array:
    """Values against one literal; a dictionary is compared entry by entry."""
    if isinstance(values, pa.DictionaryArray):
        return _against(op, values.dictionary, sort, literal).take(values.indices)
    value = literal.value
    if sort is Sort.FLOAT:
        # a whole number too large for a double: compare with the nearest ones is exact by order, see _float_literal
        op, number = _float_literal(op, value)
        result = _KERNELS[op](values.cast(pa.float64()), pa.scalar(number, pa.float64()))
        if op in (">", ">="):  # NaN is above everything
            result = pc.or_kleene(result, pc.is_nan(values.cast(pa.float64())))
        return result
    if sort in (Sort.INTEGER, Sort.INSTANT, Sort.CHAR):
        op, bound = _integer_literal(op, value)
        if bound is None:
            return _constant_of(op, values)
        whole = values.cast(pa.int64())
        return _KERNELS[op](whole, pa.scalar(bound, pa.int64()))
    kind = pa.bool_() if sort is Sort.BOOLEAN else values.type
    return _KERNELS[op](values, pa.scalar(value, kind))


def _float_literal(op: str, value: object) -> tuple[str, float]:
    """The same comparison of a double, with a bound that is one."""
    assert isinstance(value, int | float)  # noqa: S101 - the parser compares numbers with numbers
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if number == value or not isinstance(value, int):
        return op, number
    # no double equals the literal: take the neighbour on the side where the answer is the same
    if op in ("==", "!="):
        return op, math.nan
    below = number < value
    if op in ("<", "<="):
        return ("<=" if below else "<"), number
    return (">" if below else ">="), number


def _integer_literal(op: str, value: object) -> tuple[str, int | None]:
    """The same comparison of a long with a whole bound; None = the answer is one for all values, ``==`` = false."""
    assert isinstance(value, int | float)  # noqa: S101 - the parser compares numbers with numbers
    floor = math.floor(value)
    if floor != value:
        if op in ("==", "!="):
            return op, None
        op = "<=" if op in ("<", "<=") else ">"
    if _LONG_MIN <= floor <= _LONG_MAX:
        return op, floor
    if op in ("==", "!="):
        return op, None
    above = floor > _LONG_MAX
    return ("!=" if (op in ("<", "<=")) == above else "=="), None


def _constant_of(op: str, values: pa.Array) -> pa.Array:
    """``!=`` true, ``==`` false for all values; null for nulls."""
    never = _never(values)
    return pc.invert(never) if op == "!=" else never


def _pairwise(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        left, right = left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
        return _floats(op, left, right)
    if pa.types.is_timestamp(left.type) or pa.types.is_timestamp(right.type):
        left, right = left.cast(pa.int64()), right.cast(pa.int64())
    if pa.types.is_large_string(left.type) or pa.types.is_large_string(right.type):
        left, right = left.cast(pa.large_string()), right.cast(pa.large_string())
    return _KERNELS[op](left, right)


def _floats(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    if op in (">", ">="):
        return _floats(_MIRROR[op], right, left)
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    if op == "<":
        return pc.or_kleene(pc.less(left, right), pc.and_kleene(right_nan, pc.invert(left_nan)))
    if op == "<=":
        return pc.or_kleene(pc.less_equal(left, right), right_nan)
    same = pc.or_kleene(pc.equal(left, right), pc.and_kleene(left_nan, right_nan))
    return same if op == "==" else pc.invert(same)


def _member(node: Node, rows: pa.RecordBatch) -> pa.Array:
    part = node.parts[0]
    values = _value(part, rows)
    entries = values.dictionary if isinstance(values, pa.DictionaryArray) else values
    assert isinstance(node.value, tuple)  # noqa: S101 - made by the parser
    if part.sort in (Sort.TEXT, Sort.BOOLEAN):
        found = pc.is_in(entries, value_set=pa.array(node.value, entries.type))
    elif part.sort is Sort.FLOAT:
        exact = [float(v) for v in node.value if not isinstance(v, str) and _is_double(v)]
        # adding 0.0 turns -0.0 into 0.0: the set is compared by bits
        found = pc.is_in(pc.add(entries.cast(pa.float64()), 0.0), value_set=pa.array([v + 0.0 for v in exact], "f8"))
    else:
        whole = [int(v) for v in node.value if not isinstance(v, str) and v == math.floor(v)]
        inside = [v for v in whole if _LONG_MIN <= v <= _LONG_MAX]
        found = pc.is_in(entries.cast(pa.int64()), value_set=pa.array(inside, pa.int64()))
    found = pc.if_else(pc.is_null(entries), pa.scalar(None, pa.bool_()), found)
    return found.take(values.indices) if isinstance(values, pa.DictionaryArray) else found


def _is_double(value: int | float) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


def _plain(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _value(node: Node, rows: pa.RecordBatch) -> pa.Array:
    if node.op == "column":
        return rows.column(str(node.value))
    if node.op == "literal":
        kind = pa.float64() if node.sort is Sort.FLOAT else pa.int64() if node.sort is Sort.INTEGER else None
        return pa.repeat(pa.scalar(node.value, kind), rows.num_rows)
    if node.sort is Sort.BOOLEAN:
        return _condition(node, rows)
    kind = pa.float64() if node.sort is Sort.FLOAT else pa.int64()
    parts = [_plain(_value(part, rows)).cast(kind, safe=False) for part in node.parts]
    if node.op == "neg":
        return pc.negate(parts[0])
    if node.op == "%":
        return _modulo(*parts)
    return {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}[node.op](*parts)


def _modulo(left: pa.Array, right: pa.Array) -> pa.Array:
    whole = pa.types.is_integer(left.type)
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    top = left.fill_null(0).to_numpy(zero_copy_only=False)
    by = right.fill_null(1).to_numpy(zero_copy_only=False)
    if whole:
        known = pc.and_(known, pa.array(by != 0))
        by = np.where((by == 0) | (by == -1), 1, by)
    with np.errstate(invalid="ignore"):
        rest = np.fmod(top, by)
    return pa.array(rest, left.type, mask=~known.to_numpy(zero_copy_only=False))


# --- pruning ----------------------------------------------------------------------------------------------------------


def _outcomes(node: Node, stats: Mapping[str, RangeStats | None]) -> int:
    """Every outcome that some row of the range may have; may name too many, never too few."""
    if node.op == "literal":
        return _TRUE if node.value else _FALSE
    if node.op == "!":
        inner = _outcomes(node.parts[0], stats)
        return (inner & _NULL) | (_FALSE if inner & _TRUE else 0) | (_TRUE if inner & _FALSE else 0)
    if node.op in ("&&", "||"):
        absorbing, neutral = (_FALSE, _TRUE) if node.op == "&&" else (_TRUE, _FALSE)
        parts = [_outcomes(part, stats) for part in node.parts]
        result = absorbing if any(o & absorbing for o in parts) else 0
        free = [o & ~absorbing for o in parts]
        if all(free):
            result |= _NULL if any(o & _NULL for o in free) else 0
            result |= neutral if all(o & neutral for o in free) else 0
        return result
    if node.op == "isnull":
        return _null_outcomes(node.parts[0], stats)
    if node.op == "column":
        return _column_outcomes("==", node, True, stats)
    if node.op == "in":
        assert isinstance(node.value, tuple)  # noqa: S101 - made by the parser
        each = [_column_outcomes("==", node.parts[0], value, stats) for value in node.value]
        return _ANY if any(o & _TRUE for o in each) else _FALSE | (each[0] & _NULL)
    if node.op in COMPARISONS:
        left, right = node.parts
        if right.op == "literal" and not isinstance(right.value, tuple):
            return _column_outcomes(node.op, left, right.value, stats)
        if left.op == "literal" and not isinstance(left.value, tuple):
            return _column_outcomes(_MIRROR[node.op], right, left.value, stats)
    return _ANY


def _null_outcomes(node: Node, stats: Mapping[str, RangeStats | None]) -> int:
    found = stats.get(str(node.value)) if node.op == "column" else None
    if found is None:
        return _ANY
    rows = found.stop - found.start
    return (_TRUE if found.nulls > 0 else 0) | (_FALSE if found.nulls < rows else 0)


def _column_outcomes(op: str, node: Node, value: Literal, stats: Mapping[str, RangeStats | None]) -> int:
    """Outcomes of ``column op value``."""
    found = stats.get(str(node.value)) if node.op == "column" else None
    if found is None:
        return _ANY
    rows = found.stop - found.start
    result = _NULL if found.nulls else 0
    if found.nans:  # NaN is above every literal
        result |= _TRUE if op in (">", ">=", "!=") else _FALSE
    if found.nulls + found.nans >= rows:
        return result
    low, high = found.low, found.high
    if low is None or high is None or isinstance(low, str) != isinstance(value, str):
        return result | _TRUE | _FALSE
    return result | _range_outcomes(op, low, high, value)


def _range_outcomes(op: str, low: Literal, high: Literal, value: Literal) -> int:
    """Outcomes of ``x op value`` for some x in the closed range; Python compares numbers exactly."""
    below, above = low < value, high > value  # type: ignore[operator]
    inside = low <= value <= high  # type: ignore[operator]
    less, more = below, above
    if op == "==":
        return (_TRUE if inside else 0) | (_FALSE if low != high or not inside else 0)
    if op == "!=":
        return (_FALSE if inside else 0) | (_TRUE if low != high or not inside else 0)
    if op == "<":
        return (_TRUE if less else 0) | (_FALSE if high >= value else 0)  # type: ignore[operator]
    if op == "<=":
        return (_TRUE if low <= value else 0) | (_FALSE if more else 0)  # type: ignore[operator]
    if op == ">":
        return (_TRUE if more else 0) | (_FALSE if low <= value else 0)  # type: ignore[operator]
    return (_TRUE if high >= value else 0) | (_FALSE if less else 0)  # type: ignore[operator]
