"""Rules on a date as a whole, and on a statistic of one of its columns of numbers.

Of a date: its size, its columns' types, grouping, symbol tables, digests, source positions. Statistics are mean,
extremes, percentile, number of distinct values. Nulls are ignored. A NaN that is not removed makes the statistic NaN.
Without values there is no statistic, and it is in no range. Means of whole numbers are exact.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import counted
from sparkhaven.store.schema.document.validator_rules import NON_EMPTY
from sparkhaven.store.types.datatypes import BY_NAME, data_type
from sparkhaven.store.types.model import Column, Storage, ValidatorRule
from sparkhaven.writers.merge.sources.sort_keys import from_ordinals, ordinals
from sparkhaven.writers.validation.rows.date_rows import NotEvaluatedError, RowSet
from sparkhaven.writers.validation.rows.key_hashes import Lanes, distinct, feed, row_keys
from sparkhaven.writers.validation.rules.rule_scope import (
    Evaluate,
    Extremes,
    Measure,
    Number,
    Scope,
    bare,
    names_in,
    number,
    within,
)

DIGIT = 16  # bits that one pass of a percentile settles


def _size(scope: Scope, rule: ValidatorRule) -> Measure:
    return within(rule, scope.rows.rows, counted(scope.rows.rows, "row"))


def _non_empty(scope: Scope, _: ValidatorRule) -> Measure:
    rows = scope.rows.rows
    return Measure(rows > 0, rows, 1, None, counted(rows, "row"))


def _expected_size(scope: Scope, rule: ValidatorRule) -> Measure:
    """Rows of the date over the mean of its neighbours that are merged.

    Passes where none is: of the first date of a table there is no history to compare with.
    """
    wide = []
    for name in ("partitionsBefore", "partitionsAfter"):
        value = Decimal(rule.attributes[name].strip())
        if value < 0 or value != int(value):
            raise NotEvaluatedError(f"{name} {value} is not a number of dates")
        wide.append(int(value))
    if not any(wide):
        raise NotEvaluatedError("partitionsBefore and partitionsAfter are both 0: there is no date to compare with")
    neighbours = scope.around.neighbours(wide[0], wide[1])
    if not neighbours:
        bounds = number(rule.attributes["min"]), number(rule.attributes["max"])
        message = f"{counted(scope.rows.rows, 'row')}, no history to compare with: no neighbouring date is merged"
        return Measure(True, None, *bounds, message)
    if not sum(neighbours):
        raise NotEvaluatedError("no neighbouring date has rows in history to compare with")
    mean = Fraction(sum(neighbours), len(neighbours))
    message = f"{scope.rows.rows} rows, {float(mean):g} is the mean of {counted(len(neighbours), 'neighbouring date')}"
    return within(rule, Fraction(scope.rows.rows) / mean, message)


def _types(scope: Scope, rule: ValidatorRule) -> Measure:
    plural_ = "columns" in rule.attributes
    names = names_in(rule, "columns" if plural_ else "column")
    types = names_in(rule, "types" if plural_ else "type")
    if len(names) != len(types):
        raise NotEvaluatedError(f"{counted(len(names), 'column')}, {counted(len(types), 'type')}")
    wrong, names_of_types = [], []
    for name, declared in zip(names, types, strict=True):
        column = scope.rows.schema.column(name)
        if column is None:
            raise NotEvaluatedError(f"the table has no column {name}")
        names_of_types.append(column.type.name)
        if column.type.name != data_type(declared).name:
            wrong.append(f"{name} is {column.type.name}, not {declared}")
    listed = ", ".join(types)
    return Measure(not wrong, ", ".join(names_of_types), listed, listed, "; ".join(wrong) or "declared so")


def _grouped(scope: Scope, rule: ValidatorRule) -> Measure:
    """As many runs as there are different values, in every location."""
    name = scope.rows.column(rule.attributes["column"]).name
    again = 0
    for location in scope.rows.each():
        runs = sum(len(low) for low, _ in _runs(location, name))
        again += runs - distinct(partial(_runs, location, name), location.sizes.hashes)
    message = f"{counted(again, 'time')} a value recurs after another one in a location"
    return Measure(not again, again, 0, 0, message if again else "equal values stand together")


def _runs(rows: RowSet, name: str) -> Iterator[Lanes]:
    """The hash of each row whose value is not that of the row before."""
    last: tuple[int, int] | None = None
    for block in rows.blocks([name]):
        low, high = row_keys(block, [name])
        begins = np.ones(len(low), bool)
        begins[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        begins[0] = last != (int(low[0]), int(high[0]))
        last = int(low[-1]), int(high[-1])
        yield low[begins], high[begins]


def _symbols_unique(scope: Scope, _: ValidatorRule) -> Measure:
    twice = []
    for column in scope.rows.schema.stored:
        if column.storage is not Storage.SYMBOL:
            continue
        for source, symbols in scope.rows.symbols(column):
            extra = len(symbols) - pc.count_distinct(symbols.cast(pa.string()), mode="all").as_py()
            if extra:
                twice.append(f"{column.name} of {source.internal}: {counted(extra, 'text')} more than once")
    return Measure(not twice, len(twice), 0, 0, "; ".join(twice) or "every text has one id")


def _digests(scope: Scope, _: ValidatorRule) -> Measure:
    passed = scope.around.digests()
    return Measure(passed, None, None, None, f"digests of all columns {'are equal' if passed else 'differ'}")


def _offsets(scope: Scope, _: ValidatorRule) -> Measure:
    gaps = scope.around.gaps()
    return Measure(not gaps, gaps, 0, 0, f"{counted(gaps, 'gap')} between committed ranges")


class _NanError(Exception):
    """A NaN is among the values."""


def _values(scope: Scope, rule: ValidatorRule, column: Column) -> Iterator[npt.NDArray[Any]]:
    for block in scope.rows.blocks([column.name]):
        cells = block.cells[column.name]
        numbers = cells.whole_numbers()
        if numbers is None:
            raise NotEvaluatedError(f"column {column.name} is not numeric")
        keep = block.kept([column.name], rule.attributes) & ~cells.null
        if (cells.nan & keep).any():
            raise _NanError
        yield numbers[keep]


def _decimals(scope: Scope, rule: ValidatorRule, column: Column) -> Iterator[tuple[list[Decimal], list[int]]]:
    """The distinct values of each block, and how many rows have each."""
    for block in scope.rows.blocks([column.name]):
        cells = block.cells[column.name]
        counts = cells.counts(block.kept([column.name], rule.attributes))
        ids = np.flatnonzero(counts)
        yield cells.distinct[1].plain(ids), counts[ids].tolist()


def _exact(column: Column) -> bool:
    """Whether the values are decimals."""
    return column.type.name in ("BigDecimal", "BigInteger")


def _statistic(rule: ValidatorRule, name: str, statistic: Number | None, values: int) -> Measure:
    return within(rule, statistic, f"{name} of {counted(values, 'value')}" if values else "no values")


def _nan(rule: ValidatorRule) -> Measure:
    return within(rule, math.nan, "NaN is among the values. The attribute removeNaN leaves it out")


def _avg(scope: Scope, rule: ValidatorRule) -> Measure:
    column = scope.rows.column(rule.attributes["column"])
    count, whole, parts = 0, 0, list[float]()
    if _exact(column):
        total = Fraction(0)
        for decimals, counts in _decimals(scope, rule, column):
            total += sum(Fraction(value) * rows for value, rows in zip(decimals, counts, strict=True))
            count += sum(counts)
        return _statistic(rule, "mean", total / count if count else None, count)
    try:
        for values in _values(scope, rule, column):
            count += len(values)
            if values.dtype.kind == "f":
                with np.errstate(invalid="ignore", over="ignore"):
                    parts.append(float(values.sum(dtype=np.float64)))
            else:  # in halves, whose sums cannot overflow
                wide = values.astype(np.int64)
                whole += (int((wide >> 32).sum()) << 32) + int((wide & 0xFFFFFFFF).sum())
    except _NanError:
        return _nan(rule)
    if not count:
        return _statistic(rule, "mean", None, 0)
    return _statistic(rule, "mean", _sum(parts) / count if parts else Fraction(whole, count), count)


def _sum(parts: list[float]) -> float:
    try:
        return math.fsum(parts)
    except (OverflowError, ValueError):  # beyond the range of a double, or infinities of both signs
        return math.nan


def _extreme(which: str, name: str) -> Evaluate:
    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        try:
            extremes, count = _extremes(scope, rule)
        except _NanError:
            return _nan(rule)
        return _statistic(rule, name, getattr(extremes, which), count)

    return evaluate


def _extremes(scope: Scope, rule: ValidatorRule) -> tuple[Extremes, int]:
    column = scope.rows.column(rule.attributes["column"])
    extremes, count = Extremes(), 0
    if _exact(column):
        for block in scope.rows.blocks([column.name]):
            cells, keep = block.cells[column.name], block.kept([column.name], rule.attributes)
            extremes.take(cells, keep)
            count += int(np.count_nonzero(keep & ~cells.null))
        return extremes, count
    for values in _values(scope, rule, column):
        count += len(values)
        if len(values):
            low, high = values.min().item(), values.max().item()
            extremes.low = low if extremes.low is None else min(extremes.low, low)
            extremes.high = high if extremes.high is None else max(extremes.high, high)
    return extremes, count


def _in_range(scope: Scope, rule: ValidatorRule) -> Measure:
    try:
        extremes, count = _extremes(scope, rule)
    except _NanError:
        return _nan(rule)
    low, high = _statistic(rule, "", extremes.low, count), _statistic(rule, "", extremes.high, count)
    least, greatest = bare(extremes.low), bare(extremes.high)
    shown = f"{least} .. {greatest}" if count else None
    message = f"{counted(count, 'value')} from {least} to {greatest}" if count else "no values"
    return Measure(low.passed and high.passed, shown, low.lower, low.upper, message)


def _percentile(scope: Scope, rule: ValidatorRule) -> Measure:
    """The value at place ``round(percentile * (values - 1))``, halves up, found by a radix search over its ordinal."""
    column, fraction = scope.rows.column(rule.attributes["column"]), Decimal(rule.attributes["percentile"].strip())
    if not 0 <= fraction <= 1:
        raise NotEvaluatedError(f"percentile {fraction} is not from 0 to 1")
    if _exact(column):
        return _percentile_of_decimals(scope, rule, column, Fraction(fraction))
    try:
        count = sum(len(values) for values in _values(scope, rule, column))
        if not count:
            return _statistic(rule, "", None, 0)
        index = _place(Fraction(fraction), count)
        value = _at_place(scope, rule, column, index)
    except _NanError:
        return _nan(rule)
    return _statistic(rule, f"percentile {number(rule.attributes['percentile'])}", value, count)


def _place(fraction: Fraction, count: int) -> int:
    return math.floor(fraction * (count - 1) + Fraction(1, 2))


def _percentile_of_decimals(scope: Scope, rule: ValidatorRule, column: Column, fraction: Fraction) -> Measure:
    """Holds all distinct values at once, so there is a limit to them."""
    rows_of: Counter[Decimal] = Counter()
    for decimals, counts in _decimals(scope, rule, column):
        for value, rows in zip(decimals, counts, strict=True):
            rows_of[value] += rows
        if len(rows_of) > scope.rows.sizes.hashes:
            raise NotEvaluatedError(f"column {column.name} has more than {scope.rows.sizes.hashes} distinct decimals")
    count = rows_of.total()
    index, statistic = _place(fraction, count), None
    for value in sorted(rows_of):
        statistic = value
        index -= rows_of[value]
        if index < 0:
            break
    return _statistic(rule, f"percentile {number(rule.attributes['percentile'])}", statistic, count)


def _at_place(scope: Scope, rule: ValidatorRule, column: Column, index: int) -> Number:
    type_ = BY_NAME["long"] if column.type.name == "LocalTime" else column.type
    prefix, bits = 0, 8 * type_.width
    while bits:
        step = min(DIGIT, bits)
        counts = np.zeros(1 << step, np.int64)
        for values in _values(scope, rule, column):
            words = ordinals(values, type_).astype(np.uint64)
            inside = words if bits == 8 * type_.width else words[words >> np.uint64(bits) == np.uint64(prefix)]
            digits = (inside >> np.uint64(bits - step)) & np.uint64((1 << step) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=len(counts))
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, index, side="right"))
        index -= int(ends[digit - 1]) if digit else 0
        prefix, bits = prefix << step | digit, bits - step
    word = np.array([prefix], np.uint64).astype(f"u{type_.width}")
    statistic: Number = from_ordinals(word, type_)[0].item()
    return statistic


def _number_distinct(scope: Scope, rule: ValidatorRule) -> Measure:
    names = names_in(rule, "columns")
    for name in names:
        scope.rows.column(name)
    count = distinct(feed(scope.rows, names, rule.attributes), scope.rows.sizes.hashes)
    return within(rule, count, counted(count, "distinct value"))


RULES: dict[str, Evaluate] = {
    NON_EMPTY: _non_empty,
    "assertSize": _size,
    "assertExpectedTableSize": _expected_size,
    "assertColumnType": _types,
    "assertColumnTypes": _types,
    "assertColumnGrouped": _grouped,
    "assertSymbolsUnique": _symbols_unique,
    "assertDigestEqual": _digests,
    "assertOffsetsContiguous": _offsets,
    "assertAvg": _avg,
    "assertMin": _extreme("low", "least"),
    "assertMax": _extreme("high", "greatest"),
    "assertInRange": _in_range,
    "assertPercentile": _percentile,
    "assertNumberDistinctValues": _number_distinct,
}
