"""Files of CSV records, whole and in parts.

A file may be cut at lines that begin outside of quotes, found by reading it from its start. Only that proves a cut,
since a line feed in a quoted field ends no record. What lies before a part is looked at with little work: where every
quote that opens stands at the start of a field, a line begins inside of quotes if an odd number of them stands before
it. A block of which that does not hold is looked at record by record. A quote that nothing closes up to the end of the
file spoils its own line alone: no cut behind it is proven, and the part that it begins in has the rest of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.content.lines import BLOCK, BOM, LineBlock, LineCount, line_blocks
from sparkhaven.ingest.content.raw_file import PlannedFile, pieces
from sparkhaven.ingest.feeds.base import SILENT
from sparkhaven.ingest.feeds.files.formats.decoding import (
    KEPT,
    WITHOUT_NAME,
    DecodeOne,
    Decoding,
    Payload,
    SampledFiles,
    TablesDecoding,
    name_of,
    sampled_blocks,
    text_blocks,
)
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.sample import header_doubt, header_remark
from sparkhaven.ingest.formats.csv.csv_records import Header, commented, open_lines
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder, CsvRecords
from sparkhaven.ingest.formats.csv.spans import RecordEnd
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.ingest.spec import CsvOptions
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.typed_rows import TypedRows, Value
from sparkhaven.store.epochs.state.log_values import FilePart
from sparkhaven.store.quarantine.rejected_rows import RejectedRow

SEARCHED = 1 << 20  # bytes of a block in which cuts are looked for
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


def _blocks(file: PlannedFile) -> Iterator[tuple[int, LineBlock]]:
    """The blocks of the whole file, with the place of their bytes."""
    raw = file.stream()
    offset = len(BOM) if raw.read(len(BOM)) == BOM else 0
    for block in line_blocks(pieces(raw, 0, file.split.size), block=SEARCHED):
        offset += sum(line.size + 1 for line in block.too_long)
        yield offset, block
        offset += len(block.data)


def decode(file: PlannedFile, tables: TablesDecoding) -> Iterator[tuple[int, TypedRows, Payload]]:
    options, path, deciding = tables.options, file.split.path, tables.deciding
    decoders = {number: (_csv_rows(decoding), rejects) for number, (decoding, rejects) in tables.tables.items()}
    first, (leading, rejects) = next(iter(decoders.items()))
    if deciding is not None:
        leading, rejects = _csv_rows(deciding[0]), deciding[1].probe

    def start(block: LineBlock) -> int:
        for decoder, _ in decoders.values():
            decoder.start(block, path)
        return leading.start(block, path)

    records = find_records(file, options.csv, start) if isinstance(file.split, FilePart) else None
    lines = LineCount(1 if records is None else records.number, tables.sources)

    def blocks() -> Iterator[LineBlock]:
        if records is None:
            return lines.of(text_blocks(file.chunks(BLOCK), options, file, 1))
        return lines.of(text_blocks(pieces(file.stream(), records.begin, records.end), options, file, records.number))

    for block, rows in leading.decode_all(blocks, path, rejects):
        if deciding is None:
            yield first, rows, leading.record_of
            continue
        start(block)  # the header, which the records of a table do not have
        for number, chosen in deciding[1].numbers_of(rows, leading.record_of).items():
            if len(chosen):
                decoder, own = decoders[number]
                yield number, decoder.decode(leading.records_of(chosen), path, own)[0], decoder.record_of


def _csv_rows(decoding: Decoding) -> CsvDecoder:
    spec, options = decoding.spec, decoding.options
    alias, missing = spec.allow_null_alias, options.missing_columns
    strict = decoding.strict
    return CsvDecoder(decoding.targets, spec.ignore, options.csv, alias=alias, missing=missing, strict=strict)


def decode_one(decoding: Decoding) -> DecodeOne:
    dialect, csv_rows = decoding.options.csv, _csv_rows(decoding)

    def one(payload: bytes, row: RejectedRow, rejects: Rejects) -> list[Value] | BadRow:
        names = dialect.names if row["Header"] is None else tuple(json.loads(row["Header"]))
        return csv_rows.values_of(payload, Header(names), row["SourcePartition"], row["Position"], rejects)

    return one


def sample(sampled: SampledFiles) -> Sample:
    """Texts as they stand, by the names of a header or of the settings."""
    every, options = sampled.every, sampled.options
    positions: list[str] = []
    bad: list[Unreadable] = []
    kept: list[dict[str, str]] = []
    headers: list[tuple[str, ...]] = []
    for file, _, share in sampled.shares():
        records, wrong, whole, header = _records(file, options, share(len(kept)))
        headers.append(header)
        kept += [fields for _, fields in records]
        positions += [f"{name_of(file)} line {number}" for number, _ in records]
        bad += wrong
        every &= whole
    names = dict.fromkeys(name for header in headers for name in header)
    fields = {name: [record.get(name) for record in kept] for name in names}
    lacking = tuple(name for name in names if any(name not in header for header in headers if header))
    unnamed: dict[str, str] = dict.fromkeys([name for name in fields if not name], WITHOUT_NAME)
    named = {name: values for name, values in fields.items() if name}
    null, quoted = options.csv.null, options.csv.quoted_null
    whole_sample = Sample(sampled.origin, "csv", named, positions, every, tuple(bad), unnamed, lacking, null, quoted)
    first, _ = sampled.files[0]
    doubt = header_doubt(first, options)
    return whole_sample if doubt is None else replace(whole_sample, remarks=(header_remark(first.split, doubt),))


def _records(
    file: PlannedFile, options: FilesOptions, most: int
) -> tuple[list[tuple[int, dict[str, str]]], list[Unreadable], bool, tuple[str, ...]]:
    """Records of one file, those that cannot be read, whether that is all of it, and the names of its fields."""
    taken = CsvRecords(options.csv)
    bad: list[Unreadable] = []
    rejects = Rejects(
        SILENT, sink=lambda rows: bad.extend(Unreadable(f"{name_of(file)} line {b.line}", b.explanation) for b in rows)
    )
    for _ in taken.decode_all(lambda: sampled_blocks(file, options), file.split.path, rejects):
        if len(taken.records) > most:
            break
    rejects.flush()
    return taken.records[:most], bad[:KEPT], len(taken.records) <= most, taken.names
