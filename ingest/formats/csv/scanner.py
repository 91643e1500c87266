"""CSV records to typed columns in one pass by the compiled core, strict by construction.

A record that the scanner accepts, on one line or over several, has the values that the exact pass finds in it
(``ingest.formats.csv.csv_rows``); every other record is in doubt. What a column's settings make of its texts is left to
``ingest.values.typed_columns``, which may leave further records in doubt.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.scan.scan_columns import ScanColumns
from sparkhaven.ingest.formats.scan.text_ids import ROOM, TextRoom
from sparkhaven.ingest.spec.payload_formats import CsvOptions
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.typed_columns import csv_texts
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.native.abi import TEXT, CsvLayout
from sparkhaven.store.native.library import core

_LONG_TEXT = 62  # the bit of null texts of so many bytes and more


@dataclass(slots=True)
class ScannedRecords:
    """Accepted records with one array for each target, and those in doubt: first line, and first line behind.

    ``open`` is the line of a record that goes on behind the block.
    """

    starts: Ints
    stops: Ints
    columns: list[pa.Array]
    odd: Ints
    odd_stops: Ints
    open: int | None


class CsvScanner:
    """The scanner for files with the fields ``names``; targets that are no field of them are null.

    ValueError if it cannot look for these.
    """

    def __init__(
        self, targets: Sequence[Target], names: Sequence[str], options: CsvOptions, room: TextRoom = ROOM
    ) -> None:
        native = core()
        self._core, self._targets = native, tuple(targets)
        self._there = [target.source in names for target in targets]
        present = [target for target, is_field in zip(targets, self._there, strict=True) if is_field]
        if not present:
            raise ValueError("no field of the records is wanted")
        self._columns = ScanColumns(present, TEXT, csv_texts, room)
        self._fields = np.full(len(names), -1, np.int64)
        for source, column in self._columns.first([target.source for target in present]).items():
            self._fields[names.index(source)] = column
        texts = [text.encode() for text in options.null]
        self._null_ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        comment = options.comment.encode()
        self._layout = CsvLayout(
            scan=ctypes.addressof(self._columns.layout),
            fields=self._fields.ctypes.data,
            field_count=len(names),
            delimiter=ord(options.delimiter),
            quote=ord(options.quote) if options.quote else -1,
            trailing=options.trailing_delimiter,
            comment=comment,
            comment_length=len(comment),
            nulls=b"".join(texts),
            null_ends=self._null_ends.ctypes.data,
            null_count=len(texts),
            null_lengths=sum(1 << length for length in {min(len(text), _LONG_TEXT) for text in texts}),
            quoted_null=options.quoted_null,
        )

    def scan(self, block: LineBlock, first: int, *, last: bool, longest: int, alone: int | None) -> ScannedRecords:
        """Records of the lines from ``first`` on, where one may begin.

        ``longest``: bytes of a record over lines; ``alone``: the index of a line whose quote nothing closes. ``last``:
        nothing follows, so that a quote that stays open spoils its own line alone.
        """
        count = len(block)
        self._columns.prepare(count, len(block.data))
        octets = np.frombuffer(block.data, np.uint8)
        ends = np.ascontiguousarray(block.ends, np.int32)
        rows, stops, odd, odd_stops = np.empty((4, count), np.int64)
        layout = self._layout
        layout.framed, layout.last, layout.longest = block.framed, last, longest
        layout.alone = -1 if alone is None else alone
        layout.rows, layout.stops = rows.ctypes.data, stops.ctypes.data
        layout.odd, layout.odd_stops = odd.ctypes.data, odd_stops.ctypes.data
        taken = self._core.sh_csv_scan(ctypes.byref(layout), octets.ctypes.data, ends.ctypes.data, first, count)
        arrays, doubt = self._columns.arrays(taken)
        rows, stops = rows[:taken], stops[:taken]
        odd, odd_stops = odd[: layout.odd_count], odd_stops[: layout.odd_count]
        if doubt is not None:
            odd, odd_stops = np.concatenate([odd, rows[doubt]]), np.concatenate([odd_stops, stops[doubt]])
            order = np.argsort(odd)
            odd, odd_stops, rows, stops = odd[order], odd_stops[order], rows[~doubt], stops[~doubt]
        scanned = iter(arrays)
        columns = [
            next(scanned) if is_field else pa.nulls(len(rows), target.column.type.arrow)
            for target, is_field in zip(self._targets, self._there, strict=True)
        ]
        return ScannedRecords(rows, stops, columns, odd, odd_stops, None if layout.open < 0 else layout.open)


def csv_scanner(
    targets: Sequence[Target], names: Sequence[str], options: CsvOptions, room: TextRoom = ROOM
) -> CsvScanner | None:
    """The scanner for these fields, None where there is none."""
    try:
        return CsvScanner(targets, names, options, room)
    except ValueError:
        return None
