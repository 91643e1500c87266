"""Files of JSON objects, one a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sparkhaven.ingest.bad_rows import BadRow, Rejects
from sparkhaven.ingest.content.lines import BLOCK, LineBlock, LineCount
from sparkhaven.ingest.content.raw_file import PlannedFile, part_lines
from sparkhaven.ingest.feeds.base import SMALL_BYTES, DecoderCache
from sparkhaven.ingest.feeds.files.formats.decoding import (
    KEPT,
    DecodeOne,
    Decoding,
    Payload,
    SampledFiles,
    TablesDecoding,
    name_of,
    sampled_blocks,
    text_blocks,
)
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder, Record, fields_of, record_of
from sparkhaven.ingest.router import lines_of
from sparkhaven.ingest.sample_rows import Sample, Unreadable
from sparkhaven.ingest.spec import StreamSpec, Target
from sparkhaven.ingest.values.typed_rows import TypedRows, Value
from sparkhaven.store.epochs.state.log_values import FilePart
from sparkhaven.store.quarantine.rejected_rows import RejectedRow


def _json_rows(targets: tuple[Target, ...], spec: StreamSpec, strict: bool) -> JsonDecoder:
    return JsonDecoder(targets, spec.ignore, alias=spec.allow_null_alias, strict=strict)


_JSON_ROWS = DecoderCache(_json_rows)


def decode(file: PlannedFile, tables: TablesDecoding) -> Iterator[tuple[int, TypedRows, Payload]]:
    path, small = file.split.path, file.split.size <= SMALL_BYTES
    decoders = {
        number: _JSON_ROWS.of(decoding.targets, decoding.spec, decoding.strict, small=small)
        for number, (decoding, _) in tables.tables.items()
    }
    first, pieces = part_lines(file) if isinstance(file.split, FilePart) else (1, file.chunks(BLOCK))
    parts_of = _parts_of(tables, path)
    for block in LineCount(first, tables.sources).of(text_blocks(pieces, tables.options, file, first)):
        for number, part in parts_of(block).items():
            yield number, decoders[number].decode(part, path, tables.tables[number][1]), part.line_of


def _parts_of(tables: TablesDecoding, path: str) -> Callable[[LineBlock], Mapping[int, LineBlock]]:
    """What tells the lines of each table of a block."""
    if tables.deciding is None:
        return lambda block: dict.fromkeys(tables.tables, block)
    decoding, choice = tables.deciding
    deciding = _json_rows(decoding.targets, decoding.spec, False)

    def parts(block: LineBlock) -> Mapping[int, LineBlock]:
        chosen = choice.numbers_of(deciding.decode(block, path, choice.probe), block.line_of)
        return {number: block.where(lines_of(block.numbers, lines)) for number, lines in chosen.items() if len(lines)}

    return parts


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
