"""Rules on the elements of arrays and of sets of texts.

``removeNull`` leaves out null arrays and null elements, ``removeNaN`` and ``removeInf`` such elements. A null or NaN
that is left in is in no set. An array without elements breaks no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import counted
from sparkhaven.store.schema.document.validator_rules import split_list
from sparkhaven.store.types.datatypes import DataType, data_type
from sparkhaven.store.types.model import Column, ValidatorRule
from sparkhaven.writers.validation.rows.cells import Dictionary, Mask
from sparkhaven.writers.validation.rules.rule_scope import Evaluate, Measure, Scope, some, value_of
from sparkhaven.writers.validation.rules.value_rules import REMEMBERED, entries_of


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
    "assertAllValuesInArrayInDistinctSet": _rule(True),
    "assertAllValuesInArrayNotInDistinctSet": _rule(False),
    "assertAllValuesInStringSetInDistinctSet": _rule(True),
    "assertAllValuesInStringSetNotInDistinctSet": _rule(False),
}
