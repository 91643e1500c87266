"""Rules on values: those of one column in a range, in a set, all equal, all different; and elements in a set.

A null or NaN that the switches of the rule leave in counts as a value of its own: it is in no range and no set.

Elements are those of arrays and of sets of texts. ``removeNull`` leaves out null arrays and null elements,
``removeNaN`` and ``removeInf`` such elements. An array without elements breaks no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import counted
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.datatypes import DataType, data_type
from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.validation.rows.date_rows import Cells, Dictionary, Mask
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


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of the lists of a dictionary, one after the other. ``owner``: the list of each."""

    owner: npt.NDArray[np.int64]
    values: pa.Array
    null: Mask
    nan: Mask
    infinite: Mask

    @staticmethod
    def of(dictionary: Dictionary) -> Elements:
        lists = dictionary.values
        if pa.types.is_binary(lists.type):  # of byte[]
            lengths = pc.fill_null(pc.binary_length(lists), 0).to_numpy()
            data = b"".join(value or b"" for value in lists.to_pylist())
            values = pa.Array.from_buffers(pa.int8(), len(data), [None, pa.py_buffer(data)])
        else:
            lengths, values = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(), lists.flatten()
        none = np.zeros(len(values), bool)
        nan = infinite = none
        if pa.types.is_floating(values.type):
            numbers = values.fill_null(0).to_numpy()
            nan, infinite = np.isnan(numbers), np.isinf(numbers)
        null = np.asarray(values.is_null()) if values.null_count else none
        return Elements(np.repeat(np.arange(len(lists)), lengths), values, null, nan, infinite)

    def kept(self, attributes: Mapping[str, str]) -> Mask:
        """Without those that the switches of a rule drop."""
        keep = np.ones(len(self.values), bool)
        switches = (("removeNull", self.null), ("removeNaN", self.nan), ("removeInf", self.infinite))
        for switch, odd in switches:
            if attributes.get(switch) == "true":
                keep &= ~odd
        return keep

    def among(self, listed: pa.Array) -> Mask:
        """Which elements are listed; never a null."""
        inside: Mask = pc.is_in(self.values, value_set=listed).to_numpy(zero_copy_only=False)
        return inside & ~self.null & ~self.nan


def element_type(column: Column) -> DataType:
    if column.type.name == "StringSet":
        return data_type("String")
    return column.component or data_type(column.type.name.removesuffix("[]"))


def _listed(texts: tuple[str, ...], type_: DataType, arrow: pa.DataType) -> pa.Array:
    """Those of the values that an element can have."""
    values = [value_of(text, type_) for text in texts]
    if type_.numpy is None or type_.name == "Boolean":
        return pa.array(values, arrow)
    return pa.array(entries_of(values, type_)).cast(arrow)


class _Tally:
    """What the rows of a date have among the elements that a rule is about."""

    def __init__(self) -> None:
        self.rows = self.null_rows = 0
        self.odd = {"null": 0, "NaN": 0}
        self.values: set[Any] = set()

    def add(self, elements: Elements, chosen: Mask, counts: npt.NDArray[np.int64]) -> None:
        """``counts``: rows with each list."""
        chosen = chosen & (counts[elements.owner] > 0)
        self.rows += int(counts[np.unique(elements.owner[chosen])].sum())
        for kind, odd in (("null", elements.null), ("NaN", elements.nan & ~elements.null)):
            self.odd[kind] += int(counts[elements.owner[chosen & odd]].sum())
        plain = chosen & ~elements.null & ~elements.nan
        if len(self.values) <= REMEMBERED and plain.any():
            distinct = pc.unique(elements.values.filter(pa.array(plain)))
            moments = pa.types.is_timestamp(distinct.type)  # Python has no nanoseconds
            self.values.update((distinct.cast(pa.string()) if moments else distinct).to_pylist())

    @property
    def shown(self) -> str:
        return some(list(self.values)) if len(self.values) <= REMEMBERED else f"more than {REMEMBERED} values"


def _rule(wanted: bool) -> Evaluate:
    """``wanted``: every element is listed; else none is."""

    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        column = scope.rows.column(rule.attributes["column"])
        texts, type_ = split_list(rule.attributes["expectedValues"]), element_type(column)
        wrong, all_ = _Tally(), _Tally()
        for block in scope.rows.blocks([column.name]):
            cells, keep = block.cells[column.name], block.kept([column.name], rule.attributes)
            elements = Elements.of(cells.distinct[1])
            kept, inside = elements.kept(rule.attributes), elements.among(_listed(texts, type_, elements.values.type))
            counts = cells.counts(keep)
            wrong.add(elements, kept & (~inside if wanted else inside), counts)
            wrong.null_rows += int(np.count_nonzero(cells.null & keep)) if wanted else 0
            all_.add(elements, kept, counts)
        listed = ", ".join(texts)
        if not wanted:
            message = (
                f"{counted(wrong.rows, 'row')} with {wrong.shown}" if wrong.rows else f"no row has one of {listed}"
            )
            return Measure(not wrong.rows, wrong.rows, 0, 0, message)
        shown = [f"{counted(wrong.rows, 'row')} with {wrong.shown}"] if wrong.values else []
        shown += [f"{counted(count, 'element')} {_be(count)} {kind}" for kind, count in wrong.odd.items() if count]
        shown += [f"{counted(wrong.null_rows, 'row')} {_be(wrong.null_rows)} null"] if wrong.null_rows else []
        message = "; ".join(shown) or f"{counted(len(all_.values), 'distinct element')}, all expected"
        return Measure(not shown, all_.shown, None, listed, message)

    return evaluate


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


RULES: dict[str, Evaluate] = {
    "assertAllValuesBetween": _between,
    "assertAllValuesEqual": _all_equal,
    "assertAllValuesNotEqual": _all_different,
    "assertAllValuesEqualInputValue": _input_value(True),
    "assertAllValuesNotEqualInputValue": _input_value(False),
    "assertAllValuesInDistinctSet": _in_set,
    "assertAllValuesNotInDistinctSet": _not_in_set,
    "assertAllValuesInArrayInDistinctSet": _rule(True),
    "assertAllValuesInArrayNotInDistinctSet": _rule(False),
    "assertAllValuesInStringSetInDistinctSet": _rule(True),
    "assertAllValuesInStringSetNotInDistinctSet": _rule(False),
}
