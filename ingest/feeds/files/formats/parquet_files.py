"""Files of Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.files.formats.decoding import (
    WITHOUT_NAME,
    DecodeOne,
    Decoding,
    Payload,
    SampledFiles,
    name_of,
)
from sparkhaven.ingest.formats.json.json_rows import strict_object
from sparkhaven.ingest.formats.parquet.parquet_rows import ParquetDecoder
from sparkhaven.ingest.formats.parquet.repaired_types import from_row_text
from sparkhaven.ingest.formats.parquet.sample import first_rows
from sparkhaven.ingest.sample_rows import Sample, TypedPart
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.targets.declared_columns import require_columns
from sparkhaven.ingest.values.refusals import Refusal, Value
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.store.quarantine.rejected_rows import RejectedRow


def decode(file: PlannedFile, decoding: Decoding, rejects: Rejects) -> Iterator[tuple[TypedRows, Payload]]:
    known, targets, options = decoding.known, decoding.targets, decoding.options
    parquet_rows = ParquetDecoder(
        targets,
        decoding.spec.ignore,
        alias=decoding.spec.allow_null_alias,
        constants=known.constants,
        path=known.place,
        utc96=known.utc96,
        bytes_too=options.binary_as_text,
    )
    text = parquet_rows.payload(file)

    def check(names: Sequence[str]) -> None:
        require_columns(targets, names, file.split.path, options.missing_columns, further=known.declared)

    for rows in parquet_rows.decode(file, rejects, check):
        yield rows, text


def decode_one(decoding: Decoding) -> DecodeOne:
    targets, alias = decoding.targets, decoding.spec.allow_null_alias

    def one(payload: bytes, row: RejectedRow, rejects: Rejects) -> list[Value] | BadRow:
        return _values(payload, row, targets, alias)

    return one


def _values(payload: bytes, row: RejectedRow, targets: Sequence[Target], alias: bool) -> list[Value] | BadRow:
    source, number = row["SourcePartition"], row["Position"]
    try:
        record = strict_object(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        shown = payload.decode("utf-8", "replace")
        why = Refusal(Reason.NOT_JSON, "one JSON object", str(error))
        return bad_row(source, number, None, why, shown, payload, unit="row")
    values: list[Value] = []
    for target in targets:
        value = from_row_text(record.get(target.source), target, alias)
        if isinstance(value, Refusal):
            shown, column = str(record[target.source]), target.column.name
            return bad_row(source, number, column, value, shown, payload, unit="row")
        values.append(value)
    return values


def sample(sampled: SampledFiles) -> Sample:
    every = sampled.every
    positions: list[str] = []
    parts: list[tuple[dict[str, TypedPart], int]] = []
    for file, known, share in sampled.shares():
        columns, count, whole = first_rows(
            file,
            share(len(positions)),
            utc96=known.utc96,
            bytes_too=sampled.options.binary_as_text,
            constants=known.constants.texts,
        )
        parts.append((columns, count))
        positions += [f"{name_of(file)} row {number}" for number in range(1, count + 1)]
        every &= whole
    names = dict.fromkeys(name for columns, _ in parts for name in columns)
    fields = {
        name: [columns[name] if name in columns else TypedPart(pa.nulls(count)) for columns, count in parts]
        for name in names
        if name
    }
    lacking = tuple(name for name in names if any(name not in columns for columns, _ in parts))
    unnamed: dict[str, str] = dict.fromkeys([name for name in names if not name], WITHOUT_NAME)
    return Sample(sampled.origin, "parquet", fields, positions, every, (), unnamed, lacking)
