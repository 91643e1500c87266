"""Cells of a block of rows: one column's values, as numbers or as ids of distinct values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.types.datatypes import DataType
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.sources.sort_keys import rank_lut, sorted_symbols
from sparkhaven.writers.merge.write.row_order import to_arrow

Mask = npt.NDArray[np.bool_]


class NotEvaluatedError(Exception):
    """A rule that cannot be evaluated here; the text says why."""


def utf16_key(text: str) -> bytes:
    """Orders texts by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def plain_decimal(value: Decimal) -> str:
    """A decimal without exponent and without zeros at its end."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def plain_values(array: pa.Array, type_: DataType) -> list[Any]:
    """Values that compare as those of the column do: dates and times as ISO texts, decimals as Decimal."""
    if type_.name in ("LocalDate", "LocalTime"):
        array = array.cast(pa.string())
    elif type_.name in ("BigDecimal", "BigInteger") and pa.types.is_string(array.type):
        return [None if text is None else Decimal(text) for text in array.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


@dataclass(slots=True)
class Dictionary:
    """Distinct values that ids point to; results for each of them are cached. Null entries are null values."""

    values: pa.Array
    type: DataType
    _kept: dict[object, npt.NDArray[Any]] = field(default_factory=dict)

    def results(self, key: object, make: Callable[[list[Any]], Any]) -> npt.NDArray[Any]:
        """``make(values)`` as an array, one entry per value; computed once for every ``key``."""
        if key not in self._kept:
            self._kept[key] = np.asarray(make(self.plain()))
        return self._kept[key]

    def plain(self, ids: Sequence[int] | npt.NDArray[Any] | None = None) -> list[Any]:
        """As ``plain_values``, of the entries ``ids`` or of all."""
        return plain_values(self.values if ids is None else self.values.take(pa.array(ids, pa.int64())), self.type)

    @property
    def ranks(self) -> npt.NDArray[np.int32]:
        """Place of each value in the order of the column: texts by UTF-16 code unit. Equal values have one."""
        if "ranks" not in self._kept:
            text = self.type.coding is None
            self._kept["ranks"] = (
                rank_lut(self.values, sorted_symbols([self.values]))[:-1] if text else self._value_ranks()
            )
        return self._kept["ranks"]

    def _value_ranks(self) -> npt.NDArray[np.int32]:
        values = self.plain()
        ranks = {value: rank for rank, value in enumerate(sorted({v for v in values if v is not None}))}
        return np.array([ranks.get(value, 0) for value in values], np.int32)


@dataclass(frozen=True, slots=True)
class Cells:
    """A column of a block: raw numbers as they lie in the file, or ids into a dictionary of values."""

    column: Column
    null: Mask
    numbers: npt.NDArray[Any] | None = None
    ids: npt.NDArray[np.int32] | None = None
    dictionary: Dictionary | None = None

    @property
    def nan(self) -> Mask:
        return self._where(np.isnan)

    @property
    def infinite(self) -> Mask:
        return self._where(np.isinf)

    def _where(self, test: Callable[[Any], Mask]) -> Mask:
        if self.numbers is None or self.numbers.dtype.kind != "f":
            return np.zeros(len(self.null), bool)
        return test(self.numbers)

    @property
    def distinct(self) -> tuple[npt.NDArray[np.int32], Dictionary]:
        """Ids and their dictionary, of a column that has no numbers."""
        assert self.ids is not None and self.dictionary is not None  # noqa: S101
        return self.ids, self.dictionary

    @property
    def shared(self) -> bool:
        """Whether all blocks of a location have the same dictionary, or numbers."""
        return self.numbers is not None or not self.column.files or self.column.files[-1].endswith(".sym.bytes")

    def results(self, key: object, make: Callable[[list[Any]], Any]) -> npt.NDArray[Any]:
        """What ``make`` gives for the value of each row; rows of nulls hold anything. Not for numbers."""
        ids, dictionary = self.distinct
        results = dictionary.results(key, make)
        return results[ids] if len(results) else np.zeros(len(ids), bool)  # then every row is null

    def counts(self, keep: Mask) -> npt.NDArray[np.int64]:
        """How many rows of ``keep`` have each value of the dictionary."""
        ids, dictionary = self.distinct
        return np.bincount(ids[keep & ~self.null], minlength=len(dictionary.values))

    def whole_numbers(self) -> npt.NDArray[Any] | None:
        """Numbers, or times of day in nanoseconds; None for others."""
        if self.numbers is not None or self.column.type.name != "LocalTime":
            return self.numbers
        ids, dictionary = self.distinct
        times = dictionary.values.view(pa.int64()).fill_null(0).to_numpy()
        return times[ids] if len(times) else np.zeros(len(ids), np.int64)

    def arrow(self) -> pa.Array:
        if self.numbers is not None:
            return to_arrow(self.numbers, self.column)
        ids, dictionary = self.distinct
        if self.column.type.coding is not None:
            return dictionary.values.take(pa.array(ids, mask=self.null))
        return pa.DictionaryArray.from_arrays(pa.array(ids, mask=self.null), dictionary.values)
