"""Rules on the values of one column: in a range, in a set, all equal, all different.

A null or NaN that the switches of the rule leave in counts as a value of its own: it is in no range and no set.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import counted
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.validation.rows.cells import Cells, Mask
from sparkhaven.writers.validation.rows.key_hashes import distinct, feed, row_keys
from sparkhaven.writers.validation.rules.rule_scope import (
    Evaluate,
    Extremes,
    Measure,
    Range,
    Scope,
    bare,
    quoted,
    some,
    value_of,
)

REMEMBERED = 10_000  # distinct values kept for a message


class _Odd:
    """Nulls and NaNs that a rule does not remove."""

    def __init__(self) -> None:
        self.nulls = self.nans = 0

    def take(self, cells: Cells, keep: Mask) -> None:
        self.nulls += int(np.count_nonzero(cells.null & keep))
        self.nans += int(np.count_nonzero(cells.nan & keep & ~cells.null))

    @property
    def shown(self) -> list[str]:
        return [f"{n} rows are {kind}" for n, kind in ((self.nulls, "null"), (self.nans, "NaN")) if n]


def _between(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    bounds, extremes, odd = Range.of(rule, column), Extremes(), _Odd()
    for block in scope.rows.blocks([column.name]):
        cells, keep = block.cells[column.name], block.kept([column.name], rule.attributes)
        extremes.take(cells, keep)
        odd.take(cells, keep)
    shown = odd.shown
    if extremes.low is not None and not (bounds.takes(extremes.low) and bounds.takes(extremes.high)):
        shown.append(f"values run from {quoted(extremes.low)} to {quoted(extremes.high)}")
    measured = None if extremes.low is None else f"{bare(extremes.low)} .. {bare(extremes.high)}"
    limits = rule.attributes["minValue"], rule.attributes["maxValue"]
    return Measure(not shown, measured, *limits, "; ".join(shown) or "all values in range")


def equals(cells: Cells, value: Any) -> Mask:
    """Which rows have this value; never a null."""
    if cells.numbers is None:
        equal = cells.results(("equals", value), lambda values: [other == value for other in values])
        return equal & ~cells.null
    typed = _typed(value, cells.numbers.dtype)
    return np.zeros(len(cells.null), bool) if typed is None else (cells.numbers == typed) & ~cells.null


def _typed(value: Any, dtype: np.dtype[Any]) -> Any:
    """A value as an entry of a column; None if no entry is equal to it."""
    if dtype.kind == "f":
        return dtype.type(value)  # 0.1 of a float column is the float that is nearest
    if isinstance(value, float | Decimal):
        if value != int(value):
            return None
        value = int(value)
    limits = np.iinfo(dtype)
    return dtype.type(int(value)) if limits.min <= int(value) <= limits.max else None


def _input_value(equal: bool) -> Evaluate:
    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        column = scope.rows.column(rule.attributes["column"])
        value, wrong, rows = value_of(rule.attributes["value"], column.type), 0, 0
        for block in scope.rows.blocks([column.name]):
            cells, keep = block.cells[column.name], block.kept([column.name], rule.attributes)
            rows += int(np.count_nonzero(keep))
            wrong += int(np.count_nonzero(keep & (equals(cells, value) != equal)))
        trait = "have another value" if equal else "have the value"
        expected = rule.attributes["value"] if equal else None
        return Measure(not wrong, wrong, expected, expected, f"{wrong} of {rows} rows {trait}")

    return evaluate


def _all_equal(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    first: tuple[Any, Any] | None = None
    other = rows = 0
    for block in scope.rows.blocks([column.name]):
        keep = block.kept([column.name], rule.attributes)
        low, high = (words[keep] for words in row_keys(block, [column.name]))
        if first is None and len(low):
            first = low[0], high[0]
        if first is not None:
            other += int(np.count_nonzero((low != first[0]) | (high != first[1])))
        rows += len(low)
    return Measure(not other, other, 0, 0, f"{other} of {rows} rows differ from the first")


def _all_different(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    rows = 0
    for block in scope.rows.blocks([column.name]):
        rows += int(np.count_nonzero(block.kept([column.name], rule.attributes)))
    number = distinct(feed(scope.rows, [column.name], rule.attributes), scope.rows.sizes.hashes)
    return Measure(
        number == rows, rows - number, 0, 0, f"{counted(number, 'distinct value')} in {counted(rows, 'row')}"
    )


def entries_of(values: Iterable[Any], type_: DataType) -> npt.NDArray[Any]:
    """Values as entries of a column of numbers, without those that no entry is equal to."""
    dtype = np.dtype(type_.numpy)
    return np.array([entry for value in values if (entry := _typed(value, dtype)) is not None], dtype)


class _Set:
    def __init__(self, rule: ValidatorRule, column: Column) -> None:
        self.texts = split_list(rule.attributes["expectedValues"])
        self.values = [value_of(text, column.type) for text in self.texts]
        self._entries: npt.NDArray[Any] | None = None
        if column.type.numpy is not None and column.type.coding is None:
            self._entries = entries_of(self.values, column.type)

    def holds(self, cells: Cells) -> Mask:
        if cells.numbers is not None:
            assert self._entries is not None  # noqa: S101
            return np.isin(cells.numbers, self._entries) & ~cells.null
        listed = set(self.values)
        return cells.results(id(self), lambda values: [value in listed for value in values]) & ~cells.null


class Seen:
    """Distinct values, as many as a message can name."""

    def __init__(self) -> None:
        self.values: set[Any] = set()

    def take(self, cells: Cells, keep: Mask) -> None:
        keep = keep & ~cells.null & ~cells.nan
        if len(self.values) > REMEMBERED or not keep.any():
            return
        if cells.numbers is not None:
            values = np.unique(cells.numbers[keep])
            plain = values != 0 if cells.column.type.name == "Boolean" else values
            self.values.update(plain.tolist())
        else:
            ids, dictionary = cells.distinct
            self.values.update(dictionary.plain(np.unique(ids[keep])))

    @property
    def shown(self) -> str:
        return some(list(self.values)) if len(self.values) <= REMEMBERED else f"more than {REMEMBERED} values"


def _in_set(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    allowed, odd, seen, outside = _Set(rule, column), _Odd(), Seen(), Seen()
    for block in scope.rows.blocks([column.name]):
        cells, keep = block.cells[column.name], block.kept([column.name], rule.attributes)
        odd.take(cells, keep)
        seen.take(cells, keep)
        outside.take(cells, keep & ~allowed.holds(cells))
    shown = odd.shown + ([f"not expected: {outside.shown}"] if outside.values else [])
    message = "; ".join(shown) or f"{len(seen.values)} distinct values, all expected"
    return Measure(not shown, seen.shown, None, ", ".join(allowed.texts), message)


def _not_in_set(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    refused, seen, rows = _Set(rule, column), Seen(), 0
    for block in scope.rows.blocks([column.name]):
        cells = block.cells[column.name]
        inside = refused.holds(cells) & block.kept([column.name], rule.attributes)
        rows += int(np.count_nonzero(inside))
        seen.take(cells, inside)
    message = f"{counted(rows, 'row')}: {seen.shown}" if rows else f"no row has one of {', '.join(refused.texts)}"
    return Measure(not rows, rows, 0, 0, message)


RULES: dict[str, Evaluate] = {
    "assertAllValuesBetween": _between,
    "assertAllValuesEqual": _all_equal,
    "assertAllValuesNotEqual": _all_different,
    "assertAllValuesEqualInputValue": _input_value(True),
    "assertAllValuesNotEqualInputValue": _input_value(False),
    "assertAllValuesInDistinctSet": _in_set,
    "assertAllValuesNotInDistinctSet": _not_in_set,
}
