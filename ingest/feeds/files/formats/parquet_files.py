"""Files of Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row
from sparkhaven.ingest.content.raw_file import NOTHING, KnownFile, PlannedFile, column_twice, no_parquet
from sparkhaven.ingest.feeds.files.formats.decoding import (
    WITHOUT_NAME,
    DecodeOne,
    Decoding,
    Payload,
    SampledFiles,
    TablesDecoding,
    name_of,
)
from sparkhaven.ingest.formats.json.json_rows import strict_object
from sparkhaven.ingest.formats.parquet.parquet_rows import (
    Choose,
    ParquetDecoder,
    Wanted,
    decode_together,
    opened,
)
from sparkhaven.ingest.sample_rows import Sample, TypedPart
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.targets import require_columns
from sparkhaven.ingest.values.coded_values import coded_json, with_settings
from sparkhaven.ingest.values.exact_values import from_json, from_text, is_number, number_value
from sparkhaven.ingest.values.instants import count_target, counted_value, is_counted, settled
from sparkhaven.ingest.values.json_text import exact_number
from sparkhaven.ingest.values.typed_rows import Refusal, TypedRows, Value, decoded, out_of_range
from sparkhaven.store.conversions.conversion_table import SIGNIFICANT, Group, source_of
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.foreign_parquet import ParquetBatch
from sparkhaven.store.quarantine.rejected_rows import Reason, RejectedRow

_FAR_YEAR = re.compile(r"[0-9]{5,}-|-[0-9]+-")


def decode(file: PlannedFile, tables: TablesDecoding) -> Iterator[tuple[int, TypedRows, Payload]]:
    wanted = {
        number: (_parquet_rows(decoding), rejects, _check(decoding, file))
        for number, (decoding, rejects) in tables.tables.items()
    }
    payloads = {number: decoder.payload(file) for number, (decoder, _, _) in wanted.items()}
    chooser: tuple[Wanted, Choose] | None = None
    if tables.deciding is not None:
        decoding, choice = tables.deciding
        decider = _parquet_rows(decoding)
        unrouted = decider.payload(file)  # numbers of a payload must not fall
        chooser = (decider, choice.probe, _check(decoding, file)), lambda rows: choice.numbers_of(rows, unrouted)
    for number, rows in decode_together(file, wanted, chooser):
        yield number, rows, payloads[number]


def _parquet_rows(decoding: Decoding) -> ParquetDecoder:
    return ParquetDecoder(
        decoding.targets,
        decoding.spec.ignore,
        alias=decoding.spec.allow_null_alias,
        known=decoding.known,
        bytes_too=decoding.options.binary_as_text,
        strict=decoding.strict,
    )


def _check(decoding: Decoding, file: PlannedFile) -> Callable[[Sequence[str]], None]:
    def check(names: Sequence[str]) -> None:
        missing, further = decoding.options.missing_columns, decoding.known.declared
        require_columns(decoding.targets, names, file.split.path, missing, further=further)

    return check


def decode_one(decoding: Decoding) -> DecodeOne:
    def one(payload: bytes, row: RejectedRow, rejects: Rejects) -> list[Value] | BadRow:
        return _values(payload, row, decoding, rejects)

    return one


def _values(payload: bytes, row: RejectedRow, decoding: Decoding, rejects: Rejects) -> list[Value] | BadRow:
    """Values of one row, or why it is refused: for what its file or table would be refused too."""
    targets, alias = decoding.targets, decoding.spec.allow_null_alias
    source, number = row["SourcePartition"], row["Position"]
    try:
        record = strict_object(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        shown = payload.decode("utf-8", "replace")
        why = Refusal(Reason.NOT_JSON, "one JSON object", str(error))
        return bad_row(source, number, None, why, shown, payload, unit="row")
    taken = {*decoding.spec.ignore, *(target.source for target in targets)}
    unknown = sorted(record.keys() - taken)
    absent = [target for target in targets if target.source not in record]
    if decoding.strict and unknown:
        why = Refusal(Reason.UNKNOWN_FIELD, ", ".join(sorted(taken)))
        return bad_row(source, number, None, why, ", ".join(unknown), payload, unit="row")
    if absent and (decoding.strict or decoding.options.missing_columns == "fail"):
        why = Refusal(Reason.ABSENT_FIELD, ", ".join(target.source for target in absent))
        return bad_row(source, number, None, why, ", ".join(record), payload, unit="row")
    values: list[Value] = []
    for target in targets:
        value = from_row_text(record.get(target.source), target, alias)
        if isinstance(value, Refusal):
            shown, column = str(record[target.source]), target.column.name
            return bad_row(source, number, column, value, shown, payload, unit="row")
        values.append(value)
    for name in unknown:
        rejects.ignored[name] += 1
    for target in absent:
        rejects.absent[target.column.name] += 1
    return values


def sample(sampled: SampledFiles) -> Sample:
    every = sampled.every
    positions: list[str] = []
    parts: list[tuple[dict[str, TypedPart], int]] = []
    for file, known, share in sampled.shares():
        bytes_too = sampled.options.binary_as_text
        columns, count, whole = first_rows(file, share(len(positions)), known, bytes_too=bytes_too)
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


def first_rows(
    planned: PlannedFile, rows: int, known: KnownFile = NOTHING, *, bytes_too: bool = False
) -> tuple[dict[str, TypedPart], int, bool]:
    """Columns of at most so many rows, how many they are, and whether the file has no more.

    ``bytes_too``: bytes are texts where all of them are UTF-8. FeedError for a file that is damaged, or has a column
    twice.
    """
    try:
        file = opened(planned, known)
        if file.twice:
            raise column_twice(planned.split.path, file.twice[0])
        batches: list[ParquetBatch] = []
        count = 0
        whole = True
        kept, first = known.kept(file.rows) if known.kept is not None else None, 0
        for batch in file.batches(None):
            if kept is not None:
                first += batch.rows.num_rows
                batch = batch.where(kept[first - batch.rows.num_rows : first])
            part = batch.slice(0, rows - count) if count + batch.rows.num_rows > rows else batch
            whole = part.rows.num_rows == batch.rows.num_rows
            if part.rows.num_rows:
                batches.append(part)
                count += part.rows.num_rows
            if not whole:
                break
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise no_parquet(planned.split.path, error, "name a complete file") from error
    texts = known.constants.texts
    declared = [name for name in file.declared.names if name not in texts]
    parts = {name: _joined(batches, name, file.declared.field(name).type, bytes_too) for name in declared}
    parts |= {name: TypedPart(pa.repeat(pa.scalar(value, pa.string()), count)) for name, value in texts.items()}
    return parts, count, whole


def _joined(batches: list[ParquetBatch], name: str, kind: pa.DataType, bytes_too: bool) -> TypedPart:
    arrays = [decoded(batch.rows.column(name)) for batch in batches]
    array = _readable(pa.concat_arrays(arrays) if arrays else decoded(pa.array([], kind)), bytes_too)
    far = next((batch.far[name].type for batch in batches if name in batch.far), None)
    old = any(name in batch.old for batch in batches)
    if far is None:
        return TypedPart(array, old=old)
    parts = [batch.far.get(name, pa.nulls(batch.rows.num_rows, far)) for batch in batches]
    return TypedPart(array, pa.concat_arrays(parts), old)


def _readable(array: pa.Array, bytes_too: bool) -> pa.Array:
    """Texts that Python can have: what is not UTF-8 in one is replaced. Bytes as texts, if that is asked for."""
    if bytes_too and source_of(array.type).group is Group.BYTES:
        try:
            return plain(array).cast(pa.string())
        except pa.ArrowInvalid:
            return array
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        data = array.cast(pa.large_string()).view(pa.large_binary()).to_pylist()
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in data], array.type)
    return array


def from_row_text(value: Any, target: Target, alias: bool = False) -> Value | Refusal:
    """A value of such an object (``json.loads`` with ``parse_float=Decimal``) by the rules of its column."""
    name, form = target.column.type.name, target.form
    if is_counted(target) and (isinstance(value, int | Decimal) or (isinstance(value, str) and is_number(value))):
        return counted_value(from_row_text(value, count_target(target), alias), target)
    if value is not None and (coding := target.column.type.coding) is not None:
        if coding.json == "object" and isinstance(value, list):  # of pairs
            value = dict(value) if all(isinstance(pair, list) and len(pair) == 2 for pair in value) else value
        return (
            from_json(value, target, alias)
            if coding.elements is None
            else coded_json(value, coding, alias, with_settings(from_row_text, target))
        )
    if isinstance(value, int | Decimal):
        if name == "String" or (name == "Boolean" and form is not None and form.true):
            return from_json(value, target, alias)
        return number_value(float(value) if isinstance(value, Decimal) else value, target, alias)
    if not isinstance(value, str):
        return from_json(value, target, alias)
    if name == "Instant" and "-" in value[1:]:
        if _FAR_YEAR.match(value):
            return settled(out_of_range(not value.startswith("-")), target)
        target = replace(target, unit="iso")
    if name in SIGNIFICANT and form is None and is_number(value):
        return number_value(exact_number(value), target, alias)
    return from_text(value, target, alias)
