"""Conditions evaluated over Arrow: Boolean arrays that are null where the outcome is not known."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.expressions.duckdb_engine import evaluated
from sparkhaven.store.expressions.predicate.nodes import COMPARISONS, MIRROR, PredicateNode, Sort

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
        return pa.array(np.full(rows.num_rows, bool(node.value)))
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
    """The same comparison with a whole bound; None = the answer is one for all values, ``=`` is false.

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
