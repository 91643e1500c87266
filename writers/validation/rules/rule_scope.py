"""The inputs and the result of a rule.

Ranges and extremes of values of any ordered type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.merges.validations import Evidence
from sparkhaven.store.schema.document.validator_rules import Bound, parse_value
from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.validation.rows.date_rows import (
    Cells,
    Mask,
    NotEvaluatedError,
    RowSet,
    plain_decimal,
    plain_values,
    utf16_key,
)

SHOWN = 20  # values named in a message
Number = int | float | Fraction | Decimal


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Inputs of rules beyond the rows.

    ``neighbours(before, after)``: row counts of up to so many merged dates before and after this one; ``gaps()``: gaps
    that the date's streams have committed; ``digests``: whether the digest of every column matches the merge.
    """

    neighbours: Callable[[int, int], Sequence[int]]
    gaps: Callable[[], int]
    digests: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Scope:
    rows: RowSet
    around: Surroundings


@dataclass(frozen=True, slots=True)
class Measure:
    passed: bool
    measured: Evidence = None
    lower: Evidence = None
    upper: Evidence = None
    message: str = ""


Evaluate = Callable[[Scope, ValidatorRule], Measure]


def names_in(rule: ValidatorRule, *attributes: str) -> list[str]:
    names: list[str] = []
    for attribute in attributes:
        names += [name.strip() for name in rule.attributes.get(attribute, "").split(",") if name.strip()]
    return names


def number(text: str) -> int | float:
    value = Decimal(text.strip())
    return int(value) if value == value.to_integral_value() else float(value)


def within(rule: ValidatorRule, measured: Number | None, message: str) -> Measure:
    """Compares with ``min`` and ``max``, exactly; None (nothing to measure), NaN and infinity are never inside."""
    low, high = (Decimal(rule.attributes[name].strip()) for name in ("min", "max"))
    bounds = number(rule.attributes["min"]), number(rule.attributes["max"])
    if measured is None or (isinstance(measured, float) and not math.isfinite(measured)):
        return Measure(False, measured, *bounds, message)
    passed = Fraction(low) <= Fraction(measured) <= Fraction(high)
    shown = measured if isinstance(measured, int | float) else float(measured)
    return Measure(passed, shown, *bounds, message)


def share(rule: ValidatorRule, part: int, rows: int, trait: str) -> Measure:
    """The share of rows, 0 for none, against ``min`` and ``max``."""
    return within(rule, Fraction(part, rows) if rows else 0.0, f"{part} of {rows} rows {trait}")


def value_of(text: str, type_: DataType) -> Any:
    """A value as a rule states it, as ``plain_values`` has it. NotEvaluatedError if it is none of the type."""
    try:
        value = parse_value(text, type_)
    except ValueError as error:
        raise NotEvaluatedError(f"{text!r} is not a value of type {type_.name}: write {error}") from None
    return plain_values(pa.array([value], type_.arrow), type_)[0] if type_.name == "LocalTime" else value


def not_above(left: Bound, right: Bound) -> bool:
    """Whether one value sorts before or with another; texts by UTF-16 code unit."""
    if isinstance(left, str) and isinstance(right, str):
        return utf16_key(left) <= utf16_key(right)
    return bool(left <= right)  # type: ignore[operator]


def quoted(value: Any) -> str:
    """A value in a message, texts in quotes."""
    return plain_decimal(value) if isinstance(value, Decimal) else repr(value)


def bare(value: Any) -> str:
    """A value as evidence, texts without quotes."""
    return plain_decimal(value) if isinstance(value, Decimal) else str(value)


def some(values: Sequence[Any]) -> str:
    """A few values by name, and how many more there are."""
    names = sorted(map(quoted, values))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


@dataclass(frozen=True, slots=True)
class Range:
    """``minValue`` to ``maxValue``, both included."""

    low: Bound
    high: Bound

    @staticmethod
    def of(rule: ValidatorRule, column: Column) -> Range:
        return Range(*(value_of(rule.attributes[name], column.type) for name in ("minValue", "maxValue")))

    def holds(self, cells: Cells) -> Mask:
        """Which rows have a value inside; a null or NaN never is."""
        numbers = cells.numbers
        if numbers is None:
            return cells.results(self, self._inside) & ~cells.null
        if numbers.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                wide = numbers.astype(np.float64)
            low_, high_ = float(_real(self.low)), float(_real(self.high))
            return (wide >= low_) & (wide <= high_) & ~cells.null
        least, greatest = np.iinfo(numbers.dtype).min, np.iinfo(numbers.dtype).max
        low, high = math.ceil(_number(self.low)), math.floor(_number(self.high))
        if low > greatest or high < least:
            return np.zeros(len(numbers), bool)
        dtype = numbers.dtype.type
        inside: Mask = (numbers >= dtype(max(low, least))) & (numbers <= dtype(min(high, greatest))) & ~cells.null
        return inside

    def _inside(self, values: list[Any]) -> list[bool]:
        return [value is not None and self.takes(value) for value in values]

    def takes(self, value: Any) -> bool:
        return not_above(self.low, value) and not_above(value, self.high)


def _real(bound: Bound) -> int | float | Decimal:
    if isinstance(bound, int | float | Decimal):
        return bound
    raise NotEvaluatedError(f"{bound!r} is not a number")


def _number(bound: Bound) -> int | Decimal:
    if isinstance(bound, int | Decimal):
        return bound
    raise NotEvaluatedError(f"{bound!r} is not a whole number")


@dataclass(slots=True)
class Extremes:
    """The least and the greatest value of the rows added so far; NaN is neither."""

    low: Any = None
    high: Any = None

    def take(self, cells: Cells, keep: Mask) -> None:
        """Takes the values of the rows of ``keep`` that are neither null nor NaN."""
        keep = keep & ~cells.null & ~cells.nan
        if not keep.any():
            return
        if cells.numbers is not None:
            values = cells.numbers[keep]
            extremes = [values.min().item(), values.max().item()]
        else:
            ids, dictionary = cells.distinct
            used = np.unique(ids[keep])
            ranks = dictionary.ranks[used]
            extremes = dictionary.plain(used[[int(ranks.argmin()), int(ranks.argmax())]])
        low, high = extremes
        self.low = low if self.low is None or not_above(low, self.low) else self.low
        self.high = high if self.high is None or not_above(self.high, high) else self.high
