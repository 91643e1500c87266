"""The first rows of a Parquet file as they stand: one Arrow array a column."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.formats.parquet.parquet_batches import ParquetBatch, ParquetFile, column_twice, no_parquet
from sparkhaven.ingest.sample_rows import TypedPart
from sparkhaven.ingest.values.typed_rows import decoded
from sparkhaven.store.conversions.plain_arrays import plain
from sparkhaven.store.conversions.source_types import Group, source_of


def first_rows(
    planned: PlannedFile,
    rows: int,
    *,
    utc96: bool = False,
    bytes_too: bool = False,
    constants: Mapping[str, str | None] | None = None,
) -> tuple[dict[str, TypedPart], int, bool]:
    """Columns of at most so many rows, how many they are, and whether the file has no more.

    ``bytes_too``: bytes are texts where all of them are UTF-8. ``constants`` are columns beside those of the file, with
    one text for all rows. FeedError for a file that is damaged, or has a column twice.
    """
    try:
        file = ParquetFile(planned, utc96)
        if file.twice:
            raise column_twice(planned.split.path, file.twice[0])
        batches: list[ParquetBatch] = []
        count = 0
        whole = True
        for batch in file.batches(None):
            part = batch.slice(0, rows - count) if count + batch.rows.num_rows > rows else batch
            whole = part.rows.num_rows == batch.rows.num_rows
            if part.rows.num_rows:
                batches.append(part)
                count += part.rows.num_rows
            if not whole:
                break
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise no_parquet(planned.split.path, error, "name a complete file") from error
    texts = constants or {}
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
