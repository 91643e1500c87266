"""Files of JSON objects, one a line."""

from __future__ import annotations

from collections.abc import Iterator

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.content.file_parts import part_lines
from sparkhaven.ingest.content.lines import BLOCK, LineCount
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.decoder_cache import SMALL_BYTES, DecoderCache
from sparkhaven.ingest.feeds.files.formats.decoding import (
    KEPT,
    DecodeOne,
    Decoding,
    Payload,
    SampledFiles,
    TogetherDecoding,
    name_of,
    sampled_blocks,
    text_blocks,
)
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.formats.json.sample import Record, fields_of, record_of
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.ingest.spec.stream_spec import StreamSpec, Target
from sparkhaven.ingest.table_choice import lines_of
from sparkhaven.ingest.values.refusals import Value
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.epochs.state.log_values import FilePart
from sparkhaven.store.quarantine.rejected_rows import RejectedRow


def _json_rows(targets: tuple[Target, ...], spec: StreamSpec, strict: bool) -> JsonDecoder:
    return JsonDecoder(targets, spec.ignore, alias=spec.allow_null_alias, strict=strict)


_JSON_ROWS = DecoderCache(_json_rows)


def decode(file: PlannedFile, decoding: Decoding, rejects: Rejects) -> Iterator[tuple[TypedRows, Payload]]:
    small = file.split.size <= SMALL_BYTES
    json_rows = _JSON_ROWS.of(decoding.targets, decoding.spec, decoding.strict, small=small)
    first, pieces = part_lines(file) if isinstance(file.split, FilePart) else (1, file.chunks(BLOCK))
    for block in LineCount(first, [rejects.source]).of(text_blocks(pieces, decoding.options, file, first)):
        yield json_rows.decode(block, file.split.path, rejects), block.line_of


def decode_tables(file: PlannedFile, together: TogetherDecoding) -> Iterator[tuple[int, TypedRows, Payload]]:
    path, choice = file.split.path, together.choice
    deciding = _json_rows(together.deciding.targets, together.deciding.spec, False)
    decoders = {
        number: _json_rows(decoding.targets, decoding.spec, decoding.strict)
        for number, (decoding, _) in together.tables.items()
    }
    first, pieces = part_lines(file) if isinstance(file.split, FilePart) else (1, file.chunks(BLOCK))
    blocks = text_blocks(pieces, together.deciding.options, file, first)
    for block in LineCount(first, together.sources).of(blocks):
        texts = deciding.decode(block, path, choice.probe)
        for number, lines in choice.numbers_of(texts, block.line_of).items():
            if len(lines):
                part = block.where(lines_of(block.numbers, lines))
                yield number, decoders[number].decode(part, path, together.tables[number][1]), part.line_of


def decode_one(decoding: Decoding) -> DecodeOne:
    json_rows = _json_rows(decoding.targets, decoding.spec, decoding.strict)

    def one(payload: bytes, row: RejectedRow, rejects: Rejects) -> list[Value] | BadRow:
        return json_rows.values_of(payload, row["SourcePartition"], row["Position"], rejects)

    return one


def sample(sampled: SampledFiles) -> Sample:
    every = sampled.every
    records: list[Record] = []
    positions: list[str] = []
    bad: list[Unreadable] = []
    for file, _, share in sampled.shares():
        most = len(records) + share(len(records))
        for number, line in _lines(file, sampled):
            record = record_of(line)
            if isinstance(record, str):
                bad.append(Unreadable(f"{name_of(file)} line {number}", record))
            elif len(records) == most:
                every = False
                break
            else:
                records.append(record)
                positions.append(f"{name_of(file)} line {number}")
            if len(bad) == KEPT:
                every = False
                break
    fields, unnamed = fields_of(records)
    return Sample(sampled.origin, "json", fields, positions, every, tuple(bad), unnamed)


def _lines(file: PlannedFile, sampled: SampledFiles) -> Iterator[tuple[int, bytes]]:
    for block in sampled_blocks(file, sampled.options):
        for index, number in enumerate(block.numbers.tolist()):
            line = block.line(index)
            if line.strip():
                yield number, line
