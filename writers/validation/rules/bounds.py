"""Ranges and extremes of values of any ordered type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from sparkhaven.store.schema.document.validator_rules import Bound
from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.validation.rows.cells import Cells, Mask, NotEvaluatedError
from sparkhaven.writers.validation.rules.rule_scope import not_above, value_of


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
