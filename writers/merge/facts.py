"""What a column holds over several locations: counts, extremes, distinct values, digest, grouping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from store.fs import Fs
from store.schema.model import Column, Storage, TableSchema
from writers.merge.keys import INT_NULL
from writers.merge.proof import Digests
from writers.merge.source import ColumnSource, Source

Value = int | float | str | bool
TEXT_ROWS = 1 << 16


def utf16_key(text: str) -> bytes:
    """Orders texts by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


@dataclass(slots=True)
class Facts:
    """One column of some rows. ``counts`` has the rows of each value that is no null (NaN under the text "NaN").

    ``low`` and ``high`` are over values that are neither null nor NaN; ``low_finite`` and ``high_finite`` also leave
    infinities out. ``grouped`` says that in every location equal values stand together.
    """

    rows: int = 0
    nulls: int = 0
    nans: int = 0
    infinities: int = 0
    low: Value | None = None
    high: Value | None = None
    low_finite: Value | None = None
    high_finite: Value | None = None
    digest: int = 0
    counts: dict[Value, int] = field(default_factory=dict)
    grouped: bool = True

    def widen(self, values: Sequence[Value]) -> None:
        """Takes values into the extremes."""
        for value in values:
            self.low, self.high = _stretch(self.low, self.high, value)
            if not isinstance(value, float) or math.isfinite(value):
                self.low_finite, self.high_finite = _stretch(self.low_finite, self.high_finite, value)


def _stretch(low: Any, high: Any, value: Any) -> tuple[Any, Any]:
    if low is None:
        return value, value
    if isinstance(value, str):
        return min(low, value, key=utf16_key), max(high, value, key=utf16_key)
    return min(low, value), max(high, value)


def facts(
    fs: Fs, schema: TableSchema, sources: Sequence[Source], column: Column, *, distinct: bool, grouped: bool
) -> Facts:
    """Reads a column of all sources once. ``distinct`` fills ``counts``, ``grouped`` looks at the order of values."""
    found = Facts()
    digests = Digests(schema)
    for source in sources:
        reader = _Reader(ColumnSource(fs, source, column), column, found, digests, distinct)
        for first, stop in source.blocks():
            reader.block(first, stop)
        reader.close(grouped)
    found.digest = digests.totals.get(column.name, 0)
    return found


class _Reader:
    """One location: gathers the values at which runs start, to see whether one comes back."""

    def __init__(self, source: ColumnSource, column: Column, found: Facts, digests: Digests, distinct: bool) -> None:
        self.source, self.column, self.found, self.digests = source, column, found, digests
        self.distinct = distinct
        self.symbols = source.symbols() if column.storage is Storage.SYMBOL else pa.array([], pa.string())
        self.ids = np.zeros(len(self.symbols) + 1, np.int64)
        self.runs: list[npt.NDArray[Any]] = []
        self.last: Any = None
        self.texts: list[Any] = []

    def block(self, first: int, stop: int) -> None:
        self.found.rows += stop - first
        if self.column.storage is Storage.SYMBOL:
            ids = self.source.ids(first, stop, len(self.symbols))
            self.ids += np.bincount(np.where(ids == INT_NULL, len(self.symbols), ids), minlength=len(self.ids))
            self._starts(ids)
        elif self.column.storage is Storage.BLOB:
            for low in range(first, stop, TEXT_ROWS):
                self._texts(self.source.texts(low, min(low + TEXT_ROWS, stop)))
        else:
            self._fixed(self.source.entries(first, stop))

    def _starts(self, entries: npt.NDArray[Any]) -> None:
        changed = np.ones(len(entries), bool)
        changed[1:] = entries[1:] != entries[:-1]
        changed[0] = self.last is None or entries[0] != self.last
        self.runs.append(entries[changed])
        self.last = entries[-1]

    def _texts(self, texts: pa.Array) -> None:
        self.digests.texts(self.column, texts)
        self.found.nulls += texts.null_count
        ends = pc.run_end_encode(texts)
        for value in ends.values.to_pylist():
            if not self.texts or self.texts[-1] != value:
                self.texts.append(value)
        counts = pc.value_counts(texts.drop_null())
        values = counts.field("values").to_pylist()
        self.found.widen(values)
        if self.distinct:
            for value, number in zip(values, counts.field("counts").to_pylist(), strict=True):
                self.found.counts[value] = self.found.counts.get(value, 0) + number

    def _fixed(self, entries: npt.NDArray[Any]) -> None:
        column, found = self.column, self.found
        self.digests.fixed(column, entries)
        if column.type.name == "Boolean":  # any other byte reads as true
            entries = np.where((entries == 0) | (entries == column.type.null), entries, 1).astype(entries.dtype)
        self._starts(_bits(entries))
        null = entries == entries.dtype.type(column.type.null)
        found.nulls += int(np.count_nonzero(null))
        values = entries[~null]
        if values.dtype.kind == "f":
            nan = np.isnan(values)
            found.nans += int(np.count_nonzero(nan))
            values = values[~nan]
            infinite = np.isinf(values)
            found.infinities += int(np.count_nonzero(infinite))
            finite = values[~infinite]
        else:
            finite = values
        for part in (values, finite):
            if len(part):
                found.widen([_plain(part.min(), column), _plain(part.max(), column)])
        if self.distinct:
            kept, counts = np.unique(values, return_counts=True)
            for value, number in zip(kept, counts.tolist(), strict=True):
                key = _plain(value, column)
                found.counts[key] = found.counts.get(key, 0) + number

    def close(self, grouped: bool) -> None:
        """Ends the location."""
        if self.column.storage is Storage.SYMBOL:
            self.digests.counted(self.column, self.symbols, self.ids)
            present = np.flatnonzero(self.ids[:-1])
            values = self.symbols.take(pa.array(present)).to_pylist()
            self.found.nulls += int(self.ids[-1])
            for value, number in zip(values, self.ids[present].tolist(), strict=True):
                if value is None:  # a symbol without bytes reads as null
                    self.found.nulls += number
                elif self.distinct:
                    self.found.counts[value] = self.found.counts.get(value, 0) + number
            self.found.widen([value for value in values if value is not None])
        if grouped:
            runs = np.concatenate(self.runs) if self.runs else np.zeros(0)
            whole = len(np.unique(runs)) == len(runs) and len(set(self.texts)) == len(self.texts)
            self.found.grouped = self.found.grouped and whole


def _bits(entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Entries that are equal as group keys: one NaN, two zeros."""
    if entries.dtype.kind != "f":
        return entries
    bits = entries.view(f"u{entries.dtype.itemsize}").copy()
    bits[np.isnan(entries)] = np.iinfo(bits.dtype).max
    return bits


def _plain(value: Any, column: Column) -> Value:
    plain: Value = value.item()
    return bool(plain) if column.type.name == "Boolean" else plain
