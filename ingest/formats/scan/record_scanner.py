"""Binary records to typed columns in one pass by the compiled core; what Avro and Protobuf have in common.

A record that the scanner accepts has the values that the exact pass finds in it (``ingest.formats.binary_records``);
every other one is in doubt. A format names the fields of its records, and refuses by ValueError what the core has no
way for: then there is no scanner, and all records go to the exact pass.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.scan.scan_columns import ROOM, ScanColumns, TextRoom
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.typed_columns import json_tokens
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.conversions.conversion_table import INTEGER_BITS
from sparkhaven.store.native.abi import (
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
    RecordsLayout,
    WireFieldLayout,
)
from sparkhaven.store.native.library import core

Path = tuple[str, ...]
"""The names on the way to a field."""
NO_UNION = -1
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
        room: TextRoom = ROOM,
    ) -> None:
        native = core()
        self._scan, self._names, self._always = getattr(native, name), [field.unknown for field in fields], always
        by_path = {field.path: field for field in fields if field.path is not None}
        fitted = [_fitted(target, by_path.get(path)) for target, path in zip(targets, paths, strict=True)]
        self._columns = ScanColumns(fitted, TOKEN, json_tokens, room)
        first = self._columns.first(paths)
        self._fields = (WireFieldLayout * len(fields))()
        for layout, field in zip(self._fields, fields, strict=True):
            layout.kind, layout.nulls, layout.size, layout.number = field.kind, field.nulls, field.size, field.number
            layout.column = -1 if field.path is None else first[field.path]
        self._layout = RecordsLayout(
            scan=ctypes.addressof(self._columns.layout),
            fields=ctypes.addressof(self._fields),
            field_count=len(fields),
            prefix=prefix,
            prefix_length=len(prefix),
        )

    def scan(self, block: LineBlock) -> ScannedRecords:
        """Typed values of the records that are plain; all others are in doubt."""
        count = len(block)
        self._columns.prepare(count, len(block.data))
        for field in self._fields:
            field.met = 0
        octets = np.frombuffer(block.data, np.uint8)
        ends = np.ascontiguousarray(block.ends, np.int32)
        records = np.empty(count, np.int64)
        rows = self._scan(ctypes.byref(self._layout), octets.ctypes.data, ends.ctypes.data, count, records.ctypes.data)
        columns, _ = self._columns.arrays(rows)  # no conversion of texts, so none is in doubt
        unknown = Counter({name: rows for name in self._always if rows})
        for name, field in zip(self._names, self._fields, strict=True):
            if name and field.met:
                unknown[name] += field.met
        return ScannedRecords(records[:rows], columns, unknown)


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
