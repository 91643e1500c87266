"""Value expressions over Arrow: the values of a column, null where they are null.

Whole numbers are 64 bits wide. A result that these do not hold is a ValueError, as is a number that is no whole one
where one is needed. Comparisons and conditions are those of where-expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.expressions.predicate.evaluation import condition, modulo
from sparkhaven.store.expressions.predicate.nodes import COMPARISONS, PredicateNode, Sort

_INSTANT = pa.timestamp("ns", "UTC")
_COUNT_TYPES = {Sort.INSTANT: _INSTANT, Sort.DATE: pa.date32()}
_LITERALS = {
    Sort.INTEGER: pa.int64(),
    Sort.FLOAT: pa.float64(),
    Sort.TEXT: pa.string(),
    Sort.BOOLEAN: pa.bool_(),
    Sort.INSTANT: _INSTANT,
    Sort.DATE: pa.date32(),
    Sort.TIME: pa.time64("ns"),
    Sort.CHAR: pa.uint16(),
    Sort.BYTES: pa.binary(),
}
_LOGIC = ("&&", "||", "!", "in", "isnull", "isnan", *COMPARISONS)
_TEXTS = {"upper": "utf8_upper", "lower": "utf8_lower", "trim": "utf8_trim_whitespace"}
_CHECKED = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}


def value_of(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    """The values of a node, as many as ``rows`` has. ValueError: a result that its type does not hold."""
    if node.op == "column":
        return plain(rows.column(str(node.value)))
    if node.op == "literal":
        return pa.repeat(pa.scalar(node.value, _type_of(node)), rows.num_rows)
    if node.op == "null":
        return pa.nulls(rows.num_rows)
    if node.op in _LOGIC:
        return _truth(node, rows)
    if node.op in ("?:", "coalesce"):
        return _choice(node, rows)
    parts = [value_of(part, rows) for part in node.parts]
    if any(pa.types.is_null(part.type) for part in parts):
        return pa.nulls(rows.num_rows, None if node.sort is Sort.OTHER else _type_of(node))
    return _computed(node, parts)


def plain(values: pa.Array) -> pa.Array:
    """Values without a dictionary."""
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def _type_of(node: PredicateNode) -> pa.DataType:
    if node.sort is Sort.DECIMAL:
        assert node.digits is not None  # noqa: S101 - given with every decimal
        return pa.decimal256(*node.digits)
    return _LITERALS[node.sort]


def _truth(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    """The outcome of a condition, whose operands may be any values."""
    if node.op in ("&&", "||", "!"):
        parts = [plain(value_of(part, rows)).cast(pa.bool_()) for part in node.parts]
        if node.op == "!":
            return pc.invert(parts[0])
        kernel: Callable[..., pa.Array] = pc.and_kleene if node.op == "&&" else pc.or_kleene
        truth = parts[0]
        for part in parts[1:]:
            truth = kernel(truth, part)
        return truth
    operands: dict[str, pa.Array] = {"": pa.nulls(rows.num_rows)}
    parts = []
    for number, part in enumerate(node.parts):
        if part.op == "literal" and not (len(node.parts) == 1 or all(p.op == "literal" for p in node.parts)):
            parts.append(part)
            continue
        operands[str(number)] = rows.column(str(part.value)) if part.op == "column" else value_of(part, rows)
        parts.append(replace(part, op="column", parts=(), value=str(number), exact=None))
    return condition(replace(node, parts=tuple(parts)), pa.record_batch(operands))


def _choice(node: PredicateNode, rows: pa.RecordBatch) -> pa.Array:
    first = 1 if node.op == "?:" else 0
    values = _together(node, [value_of(part, rows) for part in node.parts[first:]])
    if node.op == "coalesce":
        return pc.coalesce(*values)
    chosen = pc.fill_null(plain(value_of(node.parts[0], rows)).cast(pa.bool_()), False)
    return pc.if_else(chosen, *values)


def _together(node: PredicateNode, values: list[pa.Array]) -> list[pa.Array]:
    """Values of one sort in one type."""
    kinds = {value.type for value in values if not pa.types.is_null(value.type)}
    if len(kinds) == 1:
        kind = next(iter(kinds))
    elif not kinds:
        return values
    elif node.sort is Sort.TEXT:
        kind = pa.large_string()
    elif node.sort is Sort.BYTES:
        kind = pa.large_binary()
    else:
        kind = _type_of(node)
    return [value if value.type == kind else _cast(value, kind) for value in values]


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
        values = values.cast(pa.int64()).cast(pa.decimal256(19, 0))
    return values.cast(kind)


def _computed(node: PredicateNode, parts: list[pa.Array]) -> pa.Array:
    if node.op in _TEXTS:
        return getattr(pc, _TEXTS[node.op])(parts[0])
    if node.op == "replace":
        old, new = (str(part.value) for part in node.parts[1:])
        return pc.replace_substring(parts[0], pattern=old, replacement=new) if old else parts[0]
    if node.op == "join":
        if pa.large_string() in {part.type for part in parts}:
            parts = [part.cast(pa.large_string()) for part in parts]
        empty = pa.scalar("", parts[0].type)
        return pc.binary_join_element_wise(*parts, empty)
    if node.op == "tofloat":
        return parts[0].cast(pa.float32(), safe=False)
    if node.op in ("move+", "move-"):
        kernel = pc.add_checked if node.op == "move+" else pc.subtract_checked
        return _uncounted(kernel(_counts(parts[0]), parts[1].cast(pa.int64())), node.sort)
    if node.op == "between":
        return pc.subtract_checked(*map(_counts, parts))
    return _arithmetic(node, parts)


def _counts(values: pa.Array) -> pa.Array:
    narrow = pa.types.is_date32(values.type)
    return values.view(pa.int32()).cast(pa.int64()) if narrow else values.cast(pa.int64())


def _uncounted(counts: pa.Array, sort: Sort) -> pa.Array:
    kind = _COUNT_TYPES[sort]
    return counts.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else counts.view(kind)


def _arithmetic(node: PredicateNode, parts: list[pa.Array]) -> pa.Array:
    if node.sort is Sort.DECIMAL:
        forms = [pa.decimal256(*(part.digits or (19, 0))) for part in node.parts]
        sides = [_cast(part, form) for part, form in zip(parts, forms, strict=True)]
        return getattr(pc, _CHECKED[node.op])(*sides).cast(_type_of(node))
    if node.op in ("round", "floor", "ceil"):
        if pa.types.is_integer(parts[0].type):
            return parts[0].cast(pa.int64())
        number = parts[0].cast(pa.float64())
        whole = getattr(pc, node.op)(number, **({"round_mode": "half_towards_infinity"} if node.op == "round" else {}))
        return whole.cast(pa.int64())
    kind = pa.float64() if node.sort is Sort.FLOAT else pa.int64()
    sides = [part.cast(kind, safe=kind == pa.int64()) for part in parts]
    if node.op == "abs":
        return pc.abs_checked(sides[0])
    if node.op == "neg":
        return pc.negate_checked(sides[0])
    if node.op == "%":
        return modulo(*sides)
    if kind == pa.float64():  # as IEEE 754 says, also beyond the largest number and by 0
        kernels: dict[str, Any] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
        return kernels[node.op](*sides)
    return getattr(pc, _CHECKED[node.op])(*sides)
