"""Where CSV records end that are not plain lines, found in one pass over the bytes, whatever they hold.

A record ends at the first line feed outside of quotes, also where it is bad: text after a closing quote goes on to the
next delimiter, and no line inside a quoted field is ever a record. Only a quote that nothing closes up to the end of
the file spoils its own line alone. That is known at the end of the file; a record that is longer than ``MAX_RECORD`` by
then is not held, so its lines have to be read again. They are so once at most: from an open quote that is never closed
all further quotes come in pairs, so no later one can stay open.

The compiled core turns records into typed columns in one pass, strict by construction. A record that the scanner
accepts, on one line or over several, has the values that the exact pass finds in it (``ingest.formats.csv.csv_rows``);
every other record is in doubt. What a column's settings make of its texts is left to ``ingest.values.typed_columns``,
which may leave further records in doubt.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.content.lines import HEAD, MAX_LINE, LineBlock
from sparkhaven.ingest.formats.scan import ROOM, ScanColumns, TextRoom
from sparkhaven.ingest.spec import CsvOptions, Target
from sparkhaven.ingest.values.typed_columns import csv_texts
from sparkhaven.ingest.values.typed_rows import Ints
from sparkhaven.store.native.abi import TEXT, CsvLayout
from sparkhaven.store.native.library import core
from sparkhaven.store.quarantine.rejected_rows import Reason

MAX_RECORD = MAX_LINE  # bytes that one record may span over lines


class RecordEnd:
    """Finds the end of a record as ``read_record`` would see it. No byte is looked at more than a few times.

    A quote that is ``open`` is remembered from one call of ``find`` to the next.
    """

    def __init__(self, options: CsvOptions) -> None:
        self._quote, self._delimiter = options.quote.encode(), options.delimiter.encode()
        self.open = False
        self.steps = 0  # searches made so far

    def find(self, data: bytes, start: int, stop: int) -> int | None:
        """Behind the line feed of the record that goes on at ``start``; None if a quote is open at ``stop``.

        ``stop`` is the end of a line.
        """
        offset, line = start, start
        while True:
            self.steps += 1
            if self._quote and not self.open and data.startswith(self._quote, offset, stop):
                self.open, offset = True, offset + 1
            if self.open:
                closed = self._closed(data, offset, stop)
                if closed is None:
                    return None
                self.open, offset = False, closed
            if offset >= line:
                line = data.find(b"\n", offset, stop) + 1 or stop
            mark = data.find(self._delimiter, offset, line)
            if mark < 0:
                return line
            offset = mark + 1

    def _closed(self, data: bytes, offset: int, stop: int) -> int | None:
        """Behind the quote that closes a field; a doubled one does not."""
        while True:
            self.steps += 1
            quote = data.find(self._quote, offset, stop)
            if quote < 0:
                return None
            if not data.startswith(self._quote, quote + 1, stop):
                return quote + 1
            offset = quote + 2


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """Lines ``start`` to ``stop`` of a block that are one record; ``fault`` if it is bad whatever it says."""

    start: int
    stop: int
    fault: Reason | None = None


@dataclass(slots=True)
class LongRecord:
    """A record that is not held whole: the number of its first line, its first bytes, bytes so far."""

    number: int
    head: bytes
    size: int


@dataclass(slots=True)
class CutBlock:
    """What a block was cut into: the lines before ``stop`` are to be decoded, those from ``used`` on come again."""

    stop: int
    used: int
    spans: list[RecordSpan] = field(default_factory=list)

    def numbers(self, block: LineBlock) -> list[tuple[int, float]]:
        """The first and the last line number of each record over lines, also of the one that goes on in the next."""
        ranges = [
            (int(block.numbers[s.start]), float(block.numbers[s.stop - 1])) for s in self.spans if s.stop - s.start > 1
        ]
        return ranges if self.stop == len(block) else [*ranges, (int(block.numbers[self.stop]), np.inf)]


class Spans:
    """The records over lines of one file. ``open`` is one that is not held and whose end was not found yet; ``alone``
    the number of a line whose quote nothing closes."""

    def __init__(self, options: CsvOptions) -> None:
        self.end = RecordEnd(options)
        self._seen = 0  # bytes of the record that goes on in the next block, looked at
        self.open: LongRecord | None = None
        self.alone: int | None = None

    def leave(self, block: LineBlock) -> tuple[int, LongRecord | None]:
        """How many lines at the start of a block belong to the open record, which is returned where it ends."""
        long = self.open
        if long is None:
            return 0, None
        end = self.end.find(block.data, 0, int(block.ends[-1]))
        if end is None:
            long.size += len(block.data) + long_bytes(block, 0)
            return len(block), None
        lines = int(np.searchsorted(block.ends, end))
        long.size += len(block.lines(0, lines)) + long_bytes(block, 0, int(block.numbers[lines - 1]))
        self.open = None
        return lines, long

    @property
    def longest(self) -> int:
        """Bytes that a record may have over lines."""
        return MAX_RECORD

    def alone_in(self, block: LineBlock) -> int | None:
        """The line of a block that is ``alone``."""
        if self.alone is None:
            return None
        index = int(np.searchsorted(block.numbers, self.alone))
        return index if index < len(block) and block.numbers[index] == self.alone else None

    def resume(self, block: LineBlock, last: bool) -> CutBlock:
        """The record that goes on from the block before, if there is one, as the only span."""
        going_on = np.zeros(1 if self._seen else 0, np.int64)
        return self.cut(block, going_on, last)

    def leave_open(self, block: LineBlock, line: int, cut: CutBlock) -> None:
        """Takes note of a record that begins at a line and whose quote is open at the end of the block."""
        start, stop = int(block.ends[line]), int(block.ends[-1])
        self.end.open, cut.stop = True, line
        if stop - start <= MAX_RECORD:
            cut.used, self._seen = line, stop - start
        else:
            number = int(block.numbers[line])
            size = stop - start + long_bytes(block, number)
            self.open = LongRecord(number, block.data[start : start + HEAD], size)

    def cut(self, block: LineBlock, lines: Ints, last: bool) -> CutBlock:
        """Records that begin at some lines of a block (indices, ascending), none of them inside another."""
        cut = CutBlock(len(block), len(block))
        if block.framed:
            cut.spans = [RecordSpan(start, start + 1) for start in lines.tolist()]
            return cut
        stop, next_line = int(block.ends[-1]), -1
        bytes_seen, self._seen = self._seen, 0
        for line in lines.tolist():
            if line < next_line:
                continue
            if block.numbers[line] == self.alone:
                next_line = line + 1
                cut.spans.append(RecordSpan(line, next_line))
                continue
            start = int(block.ends[line])
            if start or not bytes_seen:
                self.end.open = False
            end = self.end.find(block.data, start or bytes_seen, stop)
            if end is not None:
                next_line = int(np.searchsorted(block.ends, end))
                cut.spans.append(RecordSpan(line, next_line, fault_of(block, line, next_line)))
            elif last:
                next_line = line + 1
                cut.spans.append(RecordSpan(line, next_line))
            else:
                self.leave_open(block, line, cut)
                break
        return cut


def long_bytes(block: LineBlock, after: int, before: float = np.inf) -> int:
    """Bytes of the lines of a block that were too long to be held, between two line numbers."""
    return sum(line.size + 1 for line in block.too_long if after < line.number < before)


def fault_of(block: LineBlock, start: int, stop: int) -> Reason | None:
    """A record over lines that is too long, or that lacks one, which was too long to be held."""
    if stop - start > 1 and block.ends[stop] - block.ends[start] > MAX_RECORD:
        return Reason.RECORD_TOO_LONG
    lines = int(block.numbers[stop - 1] - block.numbers[start]) + 1
    return Reason.LACKS_A_LINE if lines != stop - start else None


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
