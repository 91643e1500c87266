"""JSON lines to typed columns in one pass by the compiled core, strict by construction.

A line that the scanner accepts has the values that the exact pass finds in it (``ingest.formats.json.rows``); every
other line is in doubt. What a column's settings make of its texts is left to ``ingest.values.typed``: the scanner then
cuts out the JSON texts, and conversions in whole columns may leave further lines in doubt.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.content.lines import LineBlock
from ingest.formats.json.names import Names
from ingest.formats.json.paths import Path
from ingest.formats.json.scan_layout import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    EPOCH,
    FLOAT,
    INT,
    ISO,
    LONG,
    SHORT,
    TEXT,
    TOKEN,
    ColumnLayout,
    ScanLayout,
    powers_of_five,
)
from ingest.spec import Target
from ingest.values.columns import Mask, either, some
from ingest.values.exact import INTEGER_BITS, integer_range
from ingest.values.rows import Ints
from ingest.values.typed import json_tokens
from ingest.values.zones import zone_table
from store.native.library import core

_KINDS = {
    "byte": (BYTE, np.int8),
    "short": (SHORT, np.int16),
    "int": (INT, np.int32),
    "long": (LONG, np.int64),
    "char": (CHAR, np.uint16),
    "float": (FLOAT, np.float32),
    "double": (DOUBLE, np.float64),
    "Boolean": (BOOLEAN, np.uint8),
}
_DIGITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
_LAST_LEAD = {"US_ASCII": 0x7F, "ISO_8859_1": 0xC3}
_ANY_LEAD = 0xF4
_SPARE = 16  # bytes behind the texts, so that short ones can be moved by one move of 16

Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class Scanned:
    """Accepted lines as indices with one array for each target; ``late`` are those that a conversion left in doubt.

    ``unknown`` counts the fields that no target wants, in accepted lines and late ones, by dotted name.
    """

    lines: Ints
    columns: list[pa.Array]
    late: Ints
    unknown: Counter[str]


@dataclass(slots=True)
class _Column:
    target: Target
    layout: ColumnLayout
    dtype: npt.DTypeLike | None
    values: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    valid: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    local: Bytes | None = None
    ends: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    text: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))

    def prepare(self, lines: int, size: int) -> None:
        """Room for so many lines of so many bytes. ``values`` is new each time: Arrow arrays keep it."""
        layout = self.layout
        if len(self.valid) < lines:
            self.valid = np.ones(lines, np.uint8)
            layout.valid = self.valid.ctypes.data
        elif layout.some_null:
            self.valid.fill(1)
        layout.some_null = 0
        if self.dtype is not None:
            self.values = np.empty(lines, self.dtype)
            layout.values = self.values.ctypes.data
        else:
            if len(self.ends) < lines + 1:
                self.ends = np.zeros(lines + 1, np.int32)
                layout.ends = self.ends.ctypes.data
            if layout.room < size + _SPARE:
                self.text = np.empty(size + _SPARE, np.uint8)
                layout.bytes, layout.room = self.text.ctypes.data, len(self.text)
        if self.local is not None:
            if len(self.local) < lines:
                self.local = np.empty(lines, np.uint8)
            layout.local = self.local.ctypes.data

    def array(self, rows: int) -> tuple[pa.Array, Mask | None]:
        """The values of so many rows, and which of them are in doubt."""
        bitmap, missing = None, 0
        if self.layout.some_null:
            missing = rows - int(np.count_nonzero(self.valid[:rows]))
            if missing:
                bitmap = pa.py_buffer(np.packbits(self.valid[:rows], bitorder="little"))
        if self.dtype is None:
            data = self.text[: self.ends[rows]].tobytes()
            buffers = [bitmap, pa.py_buffer(self.ends[: rows + 1].copy()), pa.py_buffer(data)]
            texts = pa.Array.from_buffers(pa.string(), rows, buffers, missing)
            return (texts, None) if self.layout.kind == TEXT else json_tokens(texts, self.target)
        doubt = None if self.local is None else self._from_clocks(rows)
        values = self.values[:rows]
        if self.layout.kind == BOOLEAN:
            values = np.packbits(values.view(np.uint8), bitorder="little")
        buffers = [bitmap, pa.py_buffer(values)]
        return pa.Array.from_buffers(self.target.column.type.arrow, rows, buffers, missing), doubt

    def _from_clocks(self, rows: int) -> Mask | None:
        """Makes instants of the times on the clocks of the column's zone; those that never were are in doubt."""
        local: Ints = np.flatnonzero(self.local[:rows] if self.local is not None else ())
        if not len(local):
            return None
        doubt = np.zeros(rows, np.bool_)
        self.values[local], doubt[local] = zone_table(str(self.target.zone)).to_utc(self.values[local])
        return some(doubt)


class Scanner:
    """The scanner for the fields of one stream; ``paths`` are where the target of the same place is found.

    ValueError if it cannot look for these; NotImplementedError where there is no compiled core.
    """

    def __init__(self, targets: Sequence[Target], paths: Sequence[Path]) -> None:
        native = core()
        if native is None:
            raise NotImplementedError
        self._core = native
        self._columns = [_column(target) for target in targets]
        self._names = Names(self._first_columns(paths), native)
        self._layouts = (ColumnLayout * len(self._columns))()  # what the core works on; each column sees its own
        for place, column in enumerate(self._columns):
            self._layouts[place] = column.layout
            column.layout = self._layouts[place]
        self._first = np.full(len(self._names.objects), -1, np.int64)
        self._powers = powers_of_five()
        self._layout = ScanLayout(
            names=ctypes.addressof(self._names.layout),
            columns=ctypes.addressof(self._layouts),
            column_count=len(targets),
            first=self._first.ctypes.data,
            powers=self._powers.ctypes.data,
        )

    def _first_columns(self, paths: Sequence[Path]) -> dict[Path, int]:
        """The first column of each path; each column knows the next one."""
        first: dict[Path, int] = {}
        last: dict[Path, int] = {}
        for place, path in enumerate(paths):
            if path in first:
                self._columns[last[path]].layout.also = place
            first.setdefault(path, place)
            last[path] = place
        return first

    def scan(self, block: LineBlock) -> Scanned:
        """Typed values of the lines that are plain; all others are in doubt."""
        count = len(block)
        for column in self._columns:
            column.prepare(count, len(block.data))
        octets = np.frombuffer(block.data, np.uint8)
        ends = np.ascontiguousarray(block.ends, np.int32)
        lines = np.empty(count, np.int64)
        rows = self._core.sh_json_scan(
            ctypes.byref(self._layout), octets.ctypes.data, ends.ctypes.data, count, lines.ctypes.data
        )
        columns, doubt = [], None
        for column in self._columns:
            array, odd = column.array(rows)
            columns.append(array)
            doubt = either(doubt, odd)
        lines, unknown = lines[:rows], self._names.met()
        if doubt is None or not doubt.any():
            return Scanned(lines, columns, np.empty(0, np.int64), unknown)
        good = pa.array(~doubt)
        return Scanned(lines[~doubt], [array.filter(good) for array in columns], lines[doubt], unknown)


def scanner_for(targets: Sequence[Target], paths: Sequence[Path]) -> Scanner | None:
    """The scanner for these fields, None where there is none."""
    try:
        return Scanner(targets, paths) if targets else None
    except (ValueError, NotImplementedError):
        return None


def _column(target: Target) -> _Column:
    name = target.column.type.name
    layout = ColumnLayout(kind=TOKEN, last_lead=_ANY_LEAD, also=-1)
    if target.form is not None:
        return _Column(target, layout, None)
    if name == "Instant" and target.unit == "iso":
        layout.kind = ISO
        local = None if target.zone is None else np.empty(0, np.uint8)
        return _Column(target, layout, np.int64, local=local)
    if name == "Instant":
        layout.kind, layout.digits = EPOCH, _DIGITS[target.unit]
        return _Column(target, layout, np.int64)
    if name == "String":
        layout.kind = TEXT
        layout.last_lead = _LAST_LEAD.get(target.column.encoding or "UTF_8", _ANY_LEAD)
        return _Column(target, layout, None)
    if name not in _KINDS:
        raise ValueError(f"the scanner has no kind for {name}")
    layout.kind, dtype = _KINDS[name]
    if name in INTEGER_BITS:
        layout.low, layout.high = integer_range(name)
    return _Column(target, layout, dtype)
