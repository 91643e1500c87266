"""Where a CSV file may be cut: at lines that begin outside of quotes, found by reading the file from its start.

Only that proves a cut, since a line feed in a quoted field ends no record. What lies before a part is looked at with
little work: where every quote that opens stands at the start of a field, a line begins inside of quotes if an odd
number of them stands before it. A block of which that does not hold is looked at record by record. A quote that nothing
closes up to the end of the file spoils its own line alone: no cut behind it is proven, and the part that it begins in
has the rest of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sparkhaven.ingest.content.file_parts import pieces
from sparkhaven.ingest.content.lines import BOM, LineBlock, line_blocks
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.formats.csv.csv_records import commented, open_lines
from sparkhaven.ingest.formats.csv.spans import RecordEnd
from sparkhaven.ingest.spec.payload_formats import CsvOptions
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.store.epochs.state.log_values import FilePart

BLOCK = 1 << 20
LINE_FEED = 0x0A


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The bytes of the records that begin in a part of a file, and the number of the first of their lines."""

    begin: int
    end: int
    number: int


class OutsideLines:
    """Tells of the blocks of a file, in order, which of their lines begin outside of quotes."""

    def __init__(self, options: CsvOptions) -> None:
        self._options, self._end = options, RecordEnd(options)

    def of(self, block: LineBlock, first: int) -> Mask:
        """One value a line; no line before ``first`` can be a record."""
        quick = self._by_counting(block, first)
        return self._by_records(block, first) if quick is None else quick

    def _by_counting(self, block: LineBlock, first: int) -> Mask | None:
        """None where counting quotes does not tell."""
        quote, delimiter, start = self._options.quote, self._options.delimiter, int(block.ends[first])
        if not quote or block.data.find(quote.encode(), start) < 0:
            return np.full(len(block), not self._end.open)
        if self._options.comment and commented(block, self._options).any():
            return None
        octets = np.frombuffer(block.data, np.uint8)
        quotes = np.flatnonzero(octets[start:] == ord(quote)) + start
        opening = quotes[int(self._end.open) :: 2]
        before = octets[opening - 1]
        sound = (before == ord(delimiter)) | (before == LINE_FEED) | (before == ord(quote)) | (opening == start)
        if not sound.all():
            return None
        inside = (np.searchsorted(quotes, block.ends) + self._end.open) % 2 == 1
        self._end.open = bool(inside[-1])
        outside: Mask = ~inside[:-1]
        return outside

    def _by_records(self, block: LineBlock, first: int) -> Mask:
        outside = np.ones(len(block), np.bool_)
        stop, next_line = int(block.ends[-1]), first
        if self._end.open:
            next_line = self._mark(outside, block, -1, self._end.find(block.data, 0, stop))
        if self._end.open:
            return outside
        for line in open_lines(block, first, self._options).tolist():
            if line >= next_line:
                next_line = self._mark(outside, block, line, self._end.find(block.data, int(block.ends[line]), stop))
        return outside

    @staticmethod
    def _mark(outside: Mask, block: LineBlock, line: int, end: int | None) -> int:
        """Marks the lines of a record behind its first; returns the first line behind it."""
        next_line = len(block) if end is None else int(np.searchsorted(block.ends, end))
        outside[line + 1 : next_line] = False
        return next_line


def find_records(file: PlannedFile, options: CsvOptions, start: Callable[[LineBlock], int]) -> RecordRange:
    """The records that begin in a part. Those of parts that cover a file are all of its records, each once.

    ``start`` tells of each block the first line that may be a record.
    """
    part = file.split
    assert isinstance(part, FilePart)  # noqa: S101  the caller has looked
    cuts = {0: (0, 1)} | {part.size: (part.size, 0)}
    positions = [position for position in (part.start, part.stop) if position not in cuts]
    outside = OutsideLines(options)
    for offset, block in _blocks(file):
        mask = outside.of(block, start(block))
        starts = block.ends[:-1] + np.int64(offset)
        if len(block) and block.numbers[0] == 1:
            starts[0] = 0  # with its byte order mark
        for position in positions:
            for line in np.flatnonzero(mask & (starts >= position))[:1].tolist():
                cuts.setdefault(position, (int(starts[line]), int(block.numbers[line])))
        if all(position in cuts for position in positions):
            break
    begin, number = cuts.get(part.start, (part.size, 0))
    return RecordRange(begin, cuts.get(part.stop, (part.size, 0))[0], number)


def record_lines(file: PlannedFile, records: RecordRange) -> tuple[int, Iterator[bytes]]:
    """The number of their first line, and their bytes in pieces."""
    return records.number, pieces(file.stream(), records.begin, records.end)


def _blocks(file: PlannedFile) -> Iterator[tuple[int, LineBlock]]:
    """The blocks of the whole file, with the place of their bytes."""
    raw = file.stream()
    offset = len(BOM) if raw.read(len(BOM)) == BOM else 0
    for block in line_blocks(pieces(raw, 0, file.split.size), block=BLOCK):
        offset += sum(line.size + 1 for line in block.too_long)
        yield offset, block
        offset += len(block.data)
