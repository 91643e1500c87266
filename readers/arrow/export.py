"""Streams the rows of a read into one Parquet, CSV or Arrow file, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.arrow.cell_values import is_written_as_text, value_texts
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.instants import DAY_NS, UNIT_NS, day_text
from sparkhaven.store.io.read_only_roots import refuse_change

FIRST_DAY, LAST_DAY = -12_687_428, 11_248_737  # -32767-01-01 and 32767-12-31


class BatchWriter(Protocol):
    """The common interface of the writers of pyarrow."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...


def _parquet(path: Path, schema: pa.Schema) -> AbstractContextManager[BatchWriter]:
    from pyarrow import parquet  # most reads write no file

    return parquet.ParquetWriter(path, schema, compression="zstd")  # type: ignore[no-any-return]


def _csv(path: Path, schema: pa.Schema) -> AbstractContextManager[BatchWriter]:
    return CsvFile(path, schema)


class CsvFile:
    """CSV of any rows: what has no form there is a text, as ``cell_values`` says."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import csv  # most reads write no file

        fields = [field.with_type(pa.string()) if is_written_as_text(field.type) else field for field in schema]
        self._schema = pa.schema(fields)
        self._writer = csv.CSVWriter(path, self._schema)

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            _refuse_far(name, array)
        columns = [value_texts(array) if is_written_as_text(array.type) else array for array in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _refuse_far(name: str, column: pa.Array) -> None:
    """SettingsError for a year that Arrow's CSV does not write."""
    kind, kinds = column.type, pa.types
    if not kinds.is_date(kind) and not kinds.is_timestamp(kind):
        return
    ends = pc.min_max(column.cast(pa.int32() if kinds.is_date32(kind) else pa.int64()))
    day = 1 if kinds.is_date32(kind) else DAY_NS // UNIT_NS["ms" if kinds.is_date64(kind) else kind.unit]
    for end in (ends["min"].as_py(), ends["max"].as_py()):
        if end is not None and not FIRST_DAY <= end // day <= LAST_DAY:
            raise SettingsError(
                "CSV has no form for a date or time of this year",
                where=f"column {name}",
                expected="years from -32767 to 32767",
                found=day_text(end // day),
                hint="write .parquet or .arrow, or leave such rows out",
            )


WRITERS: dict[str, Callable[[Path, pa.Schema], AbstractContextManager[BatchWriter]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".arrow": pa.ipc.new_file,
}


def check_target(path: Path) -> Path:
    """A path that ``export`` can write.

    SettingsError for another suffix, a missing directory, or a root that is never written above it.
    """
    if path.suffix not in WRITERS:
        raise SettingsError(
            "the file name has no known ending",
            where=path,
            expected="a name that ends in " + ", ".join(WRITERS),
            found=path.suffix or "no suffix",
        )
    if not path.parent.is_dir():
        raise SettingsError("no such directory", where=path.parent, hint="create it first")
    refuse_change(path)
    return path


def export(batches: pa.RecordBatchReader, path: Path) -> int:
    """Writes all batches and returns their rows; the file appears atomically.

    ``batches`` must have plain string columns (``to_batches(dictionaries=False)``): neither CSV nor an Arrow file
    can hold a dictionary that changes from batch to batch. In CSV a null is an empty field, an empty string ``""``;
    bytes are base64, lists and maps JSON.
    """
    check_target(path)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    rows = 0
    try:
        with WRITERS[path.suffix](temporary, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return rows
