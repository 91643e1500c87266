"""Files of CSV records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.content.lines import BLOCK, LineBlock, LineCount
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.base import SILENT
from sparkhaven.ingest.feeds.files.formats.decoding import (
    KEPT,
    WITHOUT_NAME,
    DecodeOne,
    Decoding,
    Payload,
    SampledFiles,
    TogetherDecoding,
    name_of,
    sampled_blocks,
    text_blocks,
)
from sparkhaven.ingest.feeds.files.header import header_doubt, header_remark
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.csv.csv_parts import find_records, record_lines
from sparkhaven.ingest.formats.csv.csv_records import Header
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder, CsvRecords
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.ingest.values.refusals import Value
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.epochs.state.log_values import FilePart
from sparkhaven.store.quarantine.rejected_rows import RejectedRow


def decode(file: PlannedFile, decoding: Decoding, rejects: Rejects) -> Iterator[tuple[TypedRows, Payload]]:
    options, path = decoding.options, file.split.path
    csv_rows = _csv_rows(decoding)
    is_part = isinstance(file.split, FilePart)
    records = find_records(file, options.csv, partial(csv_rows.start, file=path)) if is_part else None
    lines = LineCount(1 if records is None else records.number, [rejects.source])
    first: int | None = 1
    while first is not None:  # a second time for a file with a quote that nothing closes
        number, pieces = (1, file.chunks(BLOCK)) if records is None else record_lines(file, records)
        yield from _decode_from(csv_rows, lines.of(text_blocks(pieces, options, file, number)), first, path, rejects)
        first = csv_rows.unclosed()


def _csv_rows(decoding: Decoding) -> CsvDecoder:
    spec, options = decoding.spec, decoding.options
    alias, missing = spec.allow_null_alias, options.missing_columns
    strict = decoding.strict
    return CsvDecoder(decoding.targets, spec.ignore, options.csv, alias=alias, missing=missing, strict=strict)


def decode_tables(file: PlannedFile, together: TogetherDecoding) -> Iterator[tuple[int, TypedRows, Payload]]:
    options, path, choice = together.deciding.options, file.split.path, together.choice
    deciding = _csv_rows(together.deciding)
    decoders = {number: _csv_rows(decoding) for number, (decoding, _) in together.tables.items()}

    def start(block: LineBlock) -> int:
        for decoder in decoders.values():
            decoder.start(block, path)
        return deciding.start(block, path)

    def decoded(block: LineBlock, rows: TypedRows) -> Iterator[tuple[int, TypedRows, Payload]]:
        start(block)  # the header, which the records of a table do not have
        for number, lines in choice.numbers_of(rows, deciding.record_of).items():
            if len(lines):
                records, decoder = deciding.records_of(lines), decoders[number]
                yield number, decoder.decode(records, path, together.tables[number][1])[0], decoder.record_of

    is_part = isinstance(file.split, FilePart)
    records = find_records(file, options.csv, start) if is_part else None
    counted = LineCount(1 if records is None else records.number, together.sources)
    first: int | None = 1
    while first is not None:  # a second time for a file with a quote that nothing closes
        number, pieces = (1, file.chunks(BLOCK)) if records is None else record_lines(file, records)
        rest: LineBlock | None = None
        for whole in counted.of(text_blocks(pieces, options, file, number)):
            block = whole.after(first - 1) if first > 1 else whole
            block = block if rest is None else rest.before(block)
            rows, used = deciding.decode(block, path, choice.probe, last=False)
            choice.probe.source.leave(deciding.lines_left)
            yield from decoded(block, rows)
            rest = block.rest(used) if used < len(block) else None
        if rest is not None:
            rows, _ = deciding.decode(rest, path, choice.probe, last=True)
            choice.probe.source.leave(deciding.lines_left)
            yield from decoded(rest, rows)
        first = deciding.unclosed()


def _decode_from(
    csv_rows: CsvDecoder, blocks: Iterator[LineBlock], first: int, file: str, rejects: Rejects
) -> Iterator[tuple[TypedRows, Payload]]:
    rest: LineBlock | None = None
    for whole in blocks:
        block = whole.after(first - 1) if first > 1 else whole
        if rest is not None:
            block = rest.before(block)
        rows, used = csv_rows.decode(block, file, rejects, last=False)
        rejects.source.leave(csv_rows.lines_left)
        yield rows, csv_rows.record_of
        rest = block.rest(used) if used < len(block) else None
    if rest is not None:
        rows, _ = csv_rows.decode(rest, file, rejects, last=True)
        rejects.source.leave(csv_rows.lines_left)
        yield rows, csv_rows.record_of


def decode_one(decoding: Decoding) -> DecodeOne:
    dialect, alias, strict = decoding.options.csv, decoding.spec.allow_null_alias, decoding.strict
    csv_rows = CsvDecoder(decoding.targets, decoding.spec.ignore, dialect, alias=alias, strict=strict)

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
    taken, first = CsvRecords(options.csv), 1
    bad: list[Unreadable] = []
    rejects = Rejects(
        SILENT, sink=lambda rows: bad.extend(Unreadable(f"{name_of(file)} line {b.line}", b.explanation) for b in rows)
    )
    path, whole = file.split.path, True
    while first:  # a second time for a file with a quote that nothing closes
        rest = None
        for read in sampled_blocks(file, options):
            block = read.after(first - 1) if first > 1 else read
            block = block if rest is None else rest.before(block)
            _, used = taken.decode(block, path, rejects, last=False)
            rest = block.rest(used) if used < len(block) else None
            if len(taken.records) > most:
                whole = False
                break
        if rest is not None and whole:
            taken.decode(rest, path, rejects, last=True)
        first = (taken.unclosed() or 0) if whole else 0
    rejects.flush()
    whole &= len(taken.records) <= most
    return taken.records[:most], bad[:KEPT], whole, taken.names
