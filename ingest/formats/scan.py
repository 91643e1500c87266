"""Columns that the compiled scanners fill: their buffers, and the Arrow arrays that become of them.

Texts of one column and block have ids: a dictionary in the order in which they are first met. The compiled scanners
give them in the pass over the bytes, so that no later step looks at each text again. A column with more texts than are
worth a dictionary gets plain texts: its block from the scanner itself, those that follow because it is not asked again.

Binary records to typed columns in one pass by the compiled core; what Avro and Protobuf have in common.

A record that the scanner accepts has the values that the exact pass finds in it (``ingest.formats.binary_records``);
every other one is in doubt. A format names the fields of its records, and refuses by ValueError what the core has no
way for: then there is no scanner, and all records go to the exact pass.
"""

from __future__ import annotations

import ctypes
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.arrow_columns import Mask, Typed, either, some
from sparkhaven.ingest.values.coded_values import STRUCTURED
from sparkhaven.ingest.values.exact_values import integer_range
from sparkhaven.ingest.values.instants import zone_table
from sparkhaven.ingest.values.typed_columns import json_tokens
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.native.abi import (
    BOOLEAN,
    DATE,
    DECIMAL,
    EPOCH,
    ISO,
    NESTED,
    TEXT,
    TIME,
    TOKEN,
    WIRE_BOOLEAN,
    WIRE_BYTES,
    WIRE_DOUBLE,
    WIRE_ENUM,
    WIRE_FIXED,
    WIRE_FLOAT,
    WIRE_NULL,
    WIRE_STRING,
    WIRE_TIMESTAMP,
    ColumnLayout,
    RecordsLayout,
    ScanLayout,
    SlotLayout,
    WireFieldLayout,
)
from sparkhaven.store.native.json_lists import PLAIN_KINDS, powers_of_five
from sparkhaven.store.native.library import core
from sparkhaven.store.types.codings.coding import Coding
from sparkhaven.store.types.codings.decimals import FixedDecimals
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding
from sparkhaven.store.types.model import Storage

SLOT = np.dtype(SlotLayout)


@dataclass(frozen=True, slots=True)
class TextRoom:
    """How many texts a block may have to get ids: ``few``, or one for ``share`` lines; ``spare`` bytes follow them."""

    few: int = 256
    share: int = 8
    spare: int = 16  # so that short ones can be moved by one move of 16

    def most(self, lines: int) -> int:
        """How many texts a block of so many lines may have to get ids."""
        return max(self.few, lines // self.share)


ROOM = TextRoom()


@dataclass(slots=True)
class TextIds:
    """The buffers of one column; ``ids`` are new for each block, since Arrow arrays keep them."""

    ids: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    ends: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))
    text: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    slots: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, SLOT))
    seed: int = field(default_factory=lambda: secrets.randbits(64))
    room: TextRoom = ROOM

    def prepare(self, layout: ColumnLayout, lines: int, size: int) -> None:
        """Room for so many lines of so many bytes in all, and no texts yet."""
        most = self.room.most(lines)
        slots = 1 << (2 * most).bit_length()
        if len(self.slots) < slots:
            self.slots = np.zeros(slots, SLOT)
            self.ends = np.zeros(slots, np.int32)
        else:
            self.slots[:slots] = 0
        if len(self.text) < size:
            self.text = np.empty(size, np.uint8)
        self.ids = np.empty(lines, np.int32)
        layout.ids, layout.slots, layout.slot_mask = self.ids.ctypes.data, self.slots.ctypes.data, slots - 1
        layout.text_ends, layout.text_bytes = self.ends.ctypes.data, self.text.ctypes.data
        layout.texts, layout.most, layout.seed = 0, most, self.seed

    def array(self, layout: ColumnLayout, rows: int, bitmap: pa.Buffer | None, missing: int) -> pa.DictionaryArray:
        """The first so many rows, of which ``missing`` are null."""
        count = layout.texts
        ends = self.ends[: count + 1].copy()
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self.text[: ends[-1]].tobytes())]
        texts = pa.Array.from_buffers(pa.string(), count, buffers, 0)
        ids = pa.Array.from_buffers(pa.int32(), rows, [bitmap, pa.py_buffer(self.ids[:rows])], missing)
        return pa.DictionaryArray.from_arrays(ids, texts, safe=False)


_DIGITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
_LAST_LEAD = {"US_ASCII": 0x7F, "ISO_8859_1": 0xC3}
_ANY_LEAD = 0xF4

Bytes = npt.NDArray[np.uint8]
Source = TypeVar("Source")  # a field by its name or path
Convert = Callable[[pa.StringArray, Target], Typed]  # texts to values, with a mask of those in doubt


@dataclass(slots=True)
class _Column:
    target: Target
    layout: ColumnLayout
    dtype: npt.DTypeLike | None
    convert: Convert | None = None  # what makes values of its texts
    values: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    valid: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    local: Bytes | None = None
    ends: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    text: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    ids: TextIds | None = None  # for as long as its texts are few
    spare: int = ROOM.spare

    def prepare(self, lines: int, size: int) -> None:
        """Room for so many lines of so many bytes. ``values`` is new each time: Arrow arrays keep it."""
        layout = self.layout
        if len(self.valid) < lines:
            self.valid = np.ones(lines, np.uint8)
            layout.valid = self.valid.ctypes.data
        elif layout.some_null:
            self.valid.fill(1)
        layout.some_null = layout.absent = 0
        if self.dtype is not None:
            self.values = np.empty(lines, self.dtype)
            layout.values = self.values.ctypes.data
        else:
            if self.ids is not None:
                self.ids.prepare(layout, lines, size + self.spare)
            if len(self.ends) < lines + 1:
                self.ends = np.zeros(lines + 1, np.int32)
                layout.ends = self.ends.ctypes.data
            if layout.room < size + self.spare:
                self.text = np.empty(size + self.spare, np.uint8)
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
        if self.ids is not None and self.layout.ids is not None and missing < rows:
            return self.ids.array(self.layout, rows, bitmap, missing), None
        if self.dtype is None:
            texts = self._texts(rows, bitmap, missing)
            return (texts, None) if self.convert is None else self.convert(texts, self.target)
        doubt = None if self.local is None else self._from_clocks(rows)
        values = self.values[:rows]
        if self.layout.kind == BOOLEAN:
            values = np.packbits(values.view(np.uint8), bitorder="little")
        buffers = [bitmap, pa.py_buffer(values)]
        return pa.Array.from_buffers(self.target.column.type.arrow, rows, buffers, missing), doubt

    def _texts(self, rows: int, bitmap: pa.Buffer | None, missing: int) -> pa.Array:
        if self.ids is not None:
            if missing == rows:  # there may be ids, but no text
                return pa.nulls(rows, pa.string())
            self.ids = None  # a column that has had many texts will have many again
        data = self.text[: self.ends[rows]].tobytes()
        buffers = [bitmap, pa.py_buffer(self.ends[: rows + 1].copy()), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), rows, buffers, missing)

    def _from_clocks(self, rows: int) -> Mask | None:
        """Makes instants of the times on the clocks of the column's zone; those that never were are in doubt."""
        local: Ints = np.flatnonzero(self.local[:rows] if self.local is not None else ())
        if not len(local):
            return None
        doubt = np.zeros(rows, np.bool_)
        self.values[local], doubt[local] = zone_table(str(self.target.zone)).to_utc(self.values[local])
        return some(doubt)


class ScanColumns:
    """The columns of some targets. ``layout`` is what the core works on; each column sees its own part of it.

    A column with a form of its own gets texts of the kind ``formed`` cut out, which ``convert`` makes values of.
    ValueError for a type that the core has no kind for.
    """

    def __init__(self, targets: Sequence[Target], formed: int, convert: Convert, room: TextRoom = ROOM) -> None:
        self._columns = [_column(target, formed, convert, room) for target in targets]
        self._layouts = (ColumnLayout * len(self._columns))()
        for index, column in enumerate(self._columns):
            self._layouts[index] = column.layout
            column.layout = self._layouts[index]
        self._powers = powers_of_five()
        self.layout = ScanLayout(
            columns=ctypes.addressof(self._layouts), column_count=len(targets), powers=self._powers.ctypes.data
        )

    def first(self, sources: Sequence[Source]) -> dict[Source, int]:
        """The first column of each field, if column i takes ``sources[i]``; each column knows the next one."""
        first: dict[Source, int] = {}
        last: dict[Source, int] = {}
        for index, source in enumerate(sources):
            if source in first:
                self._layouts[last[source]].also = index
            first.setdefault(source, index)
            last[source] = index
        return first

    def prepare(self, lines: int, size: int) -> None:
        """Room for so many lines of so many bytes in all."""
        for column in self._columns:
            column.prepare(lines, size)

    def absent(self) -> Counter[int]:
        """The lines of the last scan without the field of a target, by its place."""
        return Counter({index: layout.absent for index, layout in enumerate(self._layouts) if layout.absent})

    def scan(
        self, run: Callable[..., int], layout: ctypes.Structure, block: LineBlock
    ) -> tuple[Ints, list[pa.Array], Mask | None]:
        """Records that ``run`` accepts, as indices, with the columns; and which of them are in doubt after all."""
        count = len(block)
        self.prepare(count, len(block.data))
        octets = np.frombuffer(block.data, np.uint8)
        ends = np.ascontiguousarray(block.ends, np.int32)
        records = np.empty(count, np.int64)
        rows = run(ctypes.byref(layout), octets.ctypes.data, ends.ctypes.data, count, records.ctypes.data)
        return records[:rows], *self.arrays(rows)

    def arrays(self, rows: int) -> tuple[list[pa.Array], Mask | None]:
        """One array for each target with the first so many rows, but for those that are in doubt."""
        columns, doubt = [], None
        for column in self._columns:
            array, odd = column.array(rows)
            columns.append(array)
            doubt = either(doubt, odd)
        if doubt is None or not doubt.any():
            return columns, None
        good = pa.array(~doubt)
        return [array.filter(good) for array in columns], doubt


def _column(target: Target, formed: int, convert: Convert, room: TextRoom) -> _Column:
    name = target.column.type.name
    layout = ColumnLayout(kind=formed, last_lead=_ANY_LEAD, also=-1)
    if (coding := target.column.type.coding) is not None and coding.json in STRUCTURED and formed == TOKEN:
        layout.kind = NESTED
    plain = target.form is None and target.unit == "iso"
    if plain and coding is not None and (dtype := _coded(layout, coding)) is not None:
        return _Column(target, layout, dtype)
    if target.form is not None or coding is not None:
        return _Column(target, layout, None, convert, spare=room.spare)
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
        symbols = target.column.storage is Storage.SYMBOL or not target.stored
        return _Column(target, layout, None, ids=TextIds(room=room) if symbols else None, spare=room.spare)
    if name not in PLAIN_KINDS:
        raise ValueError(f"the scanner has no kind for {name}")
    layout.kind, dtype = PLAIN_KINDS[name]
    if name in INTEGER_BITS:
        layout.low, layout.high = integer_range(name)
    return _Column(target, layout, dtype)


def _coded(layout: ColumnLayout, coding: Coding) -> npt.DTypeLike | None:
    """What the core stores for values of a coding whose texts it takes; None: it takes none."""
    if isinstance(coding, LocalDateCoding):
        layout.kind = DATE
        return np.int32
    if isinstance(coding, LocalTimeCoding):
        layout.kind, layout.high = TIME, coding.unit
        return np.int64
    if isinstance(coding, FixedDecimals):
        layout.kind, layout.high, layout.digits = DECIMAL, coding.precision, coding.scale
        return np.dtype((np.int64, (coding.arrow.bit_width // 64,)))
    return None


Path = tuple[str, ...]
"""The names on the way to a field."""
NO_UNION = -1
MAX_KNOWN = 16  # scanners of a stream
_TAKES: Mapping[int, frozenset[str]] = {
    WIRE_NULL: frozenset({*INTEGER_BITS, "float", "double", "Boolean", "String", "Instant"}),
    WIRE_BOOLEAN: frozenset({"Boolean"}),
    WIRE_FLOAT: frozenset({"float", "double"}),
    WIRE_DOUBLE: frozenset({"double"}),
    WIRE_STRING: frozenset({"String"}),
    WIRE_TIMESTAMP: frozenset({"Instant"}),
    **dict.fromkeys((WIRE_BYTES, WIRE_ENUM, WIRE_FIXED), frozenset[str]()),
}
_WHOLE = frozenset({*INTEGER_BITS, "double", "Instant"})


@dataclass(frozen=True, slots=True)
class WireField:
    """One field as ``struct sh_wire_field`` has it. ``path`` leads to it, if targets take it.

    ``unknown``: the dotted name to count in each accepted record, or in those that have it where fields have numbers.
    ``unit``: what an Instant's number counts, by the schema.
    """

    kind: int
    path: Path | None = None
    nulls: int = NO_UNION
    size: int = 0
    number: int = 0
    unknown: str = ""
    unit: Literal["", "ns", "us", "ms"] = ""


@dataclass(frozen=True, slots=True)
class ScannedRecords:
    """Accepted records as indices with one array a target; ``unknown`` counts the fields that no target wants."""

    records: Ints
    columns: list[pa.Array]
    unknown: Counter[str]


class RecordScanner:
    """The scanner for records of one schema, by the function of the core with this ``name``.

    ``paths`` are where the target of the same place is found, ``always`` the names to count in each accepted record.
    Records that do not begin with ``prefix`` are in doubt. ValueError if the core cannot look for these.
    """

    def __init__(
        self,
        name: Literal["sh_avro_scan", "sh_protobuf_scan"],
        targets: Sequence[Target],
        paths: Sequence[Path],
        fields: Sequence[WireField],
        *,
        prefix: bytes = b"",
        always: Sequence[str] = (),
    ) -> None:
        native = core()
        self._scan, self._names, self._always = getattr(native, name), [field.unknown for field in fields], always
        by_path = {field.path: field for field in fields if field.path is not None}
        fitted = [_fitted(target, by_path.get(path)) for target, path in zip(targets, paths, strict=True)]
        self._columns = ScanColumns(fitted, TOKEN, json_tokens)
        first = self._columns.first(paths)
        self._fields = (WireFieldLayout * len(fields))()
        for layout, wire in zip(self._fields, fields, strict=True):
            layout.kind, layout.nulls, layout.size, layout.number = wire.kind, wire.nulls, wire.size, wire.number
            layout.column = -1 if wire.path is None else first[wire.path]
        self._layout = RecordsLayout(
            scan=ctypes.addressof(self._columns.layout),
            fields=ctypes.addressof(self._fields),
            field_count=len(fields),
            prefix=prefix,
            prefix_length=len(prefix),
        )

    def scan(self, block: LineBlock) -> ScannedRecords:
        """Typed values of the records that are plain; all others are in doubt."""
        for layout in self._fields:
            layout.met = 0
        records, columns, _ = self._columns.scan(self._scan, self._layout, block)  # no texts, so none is in doubt
        unknown = Counter({name: len(records) for name in self._always if len(records)})
        for name, layout in zip(self._names, self._fields, strict=True):
            if name and layout.met:
                unknown[name] += layout.met
        return ScannedRecords(records, columns, unknown)


class ScannerCache:
    """The scanners of a stream by the bytes that their records begin with; None where there is none."""

    def __init__(self, make: Callable[[bytes], RecordScanner]) -> None:
        """``make`` raises ValueError for records that the core has no way for."""
        self._make, self._known = make, dict[bytes, RecordScanner | None]()

    def of(self, prefix: bytes) -> RecordScanner | None:
        if prefix not in self._known:
            while len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            try:
                self._known[prefix] = self._make(prefix)
            except ValueError:
                self._known[prefix] = None
        return self._known[prefix]


def _fitted(target: Target, field: WireField | None) -> Target:
    """The target with the unit of its field. ValueError where the core does not take such a field for it."""
    name, kind = target.column.type.name, target.column.type
    if field is None or target.form is not None or target.as_text or kind.coding is not None:
        raise ValueError(f"the scanner has no way for column {target.column.name}")
    if name not in _TAKES.get(field.kind, _WHOLE) or (field.unit and name != "Instant"):
        raise ValueError(f"the scanner takes no such field for {name}")
    unit = "ns" if field.kind == WIRE_TIMESTAMP else field.unit or target.unit
    if name == "Instant" and unit == "iso":
        if field.kind != WIRE_NULL:
            raise ValueError("the scanner takes no texts for Instant")
        unit = "ns"
    return replace(target, unit=unit)
