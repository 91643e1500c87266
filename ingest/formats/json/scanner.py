"""JSON lines to typed columns in one pass by the compiled core, strict by construction.

A line that the scanner accepts has the values that the exact pass finds in it (``ingest.formats.json.json_rows``);
every other line is in doubt. What a column's settings make of its texts is left to ``ingest.values.typed_columns``: the
scanner then cuts out the JSON texts, and conversions in whole columns may leave further lines in doubt.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.json.field_names import Names
from sparkhaven.ingest.formats.json.field_paths import Path
from sparkhaven.ingest.formats.scan.scan_columns import ScanColumns
from sparkhaven.ingest.formats.scan.text_ids import ROOM, TextRoom
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.typed_columns import json_tokens
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.native.abi import TOKEN
from sparkhaven.store.native.library import core


@dataclass(slots=True)
class ScannedLines:
    """Accepted lines as indices with one array for each target; ``late`` are those that a conversion left in doubt.

    ``unknown`` counts the fields that no target wants, in accepted lines and late ones, by dotted name; ``absent`` the
    lines without the field of a target, by its place.
    """

    lines: Ints
    columns: list[pa.Array]
    late: Ints
    unknown: Counter[str]
    absent: Counter[int]


class Scanner:
    """The scanner for the fields of one stream; ``paths`` are where the target of the same place is found.

    ``ignored`` are names beside them that are known. ``strict``: lines with further fields, or without one of them, are
    in doubt.
    ValueError if it cannot look for these.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        paths: Sequence[Path],
        ignored: Sequence[str] = (),
        room: TextRoom = ROOM,
        *,
        strict: bool = False,
    ) -> None:
        native = core()
        self._core = native
        self._columns = ScanColumns(targets, TOKEN, json_tokens, room)
        self._names = Names(self._columns.first(paths), ignored, native)
        self._first = np.full(len(self._names.objects), -1, np.int64)
        self._layout = self._columns.layout
        self._layout.names = ctypes.addressof(self._names.layout)
        self._layout.first, self._layout.strict = self._first.ctypes.data, strict

    def scan(self, block: LineBlock) -> ScannedLines:
        """Typed values of the lines that are plain; all others are in doubt."""
        count = len(block)
        self._columns.prepare(count, len(block.data))
        octets = np.frombuffer(block.data, np.uint8)
        ends = np.ascontiguousarray(block.ends, np.int32)
        lines = np.empty(count, np.int64)
        rows = self._core.sh_json_scan(
            ctypes.byref(self._layout), octets.ctypes.data, ends.ctypes.data, count, lines.ctypes.data
        )
        columns, doubt = self._columns.arrays(rows)
        lines, unknown, absent = lines[:rows], self._names.met(), self._columns.absent()
        if doubt is None:
            return ScannedLines(lines, columns, np.empty(0, np.int64), unknown, absent)
        return ScannedLines(lines[~doubt], columns, lines[doubt], unknown, absent)


def scanner_for(
    targets: Sequence[Target],
    paths: Sequence[Path],
    ignored: Sequence[str] = (),
    room: TextRoom = ROOM,
    *,
    strict: bool = False,
) -> Scanner | None:
    """The scanner for these fields, None where there is none."""
    try:
        return Scanner(targets, paths, ignored, room, strict=strict) if targets else None
    except ValueError:
        return None
