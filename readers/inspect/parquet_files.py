"""Decoder of a Parquet file: its footer, checksum and, in the index of a location, its row sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.parquet import ParquetFile

from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.readers.inspect.column_files import changed, extent, record_beside
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.index.row_set import decode_rows
from sparkhaven.store.format.parquet.footer import KEY, decode_footer
from sparkhaven.store.format.parquet.location_files import ROW_SET
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.parquet_file import damage_at

ABOVE = 3  # directories between an index and the location that it belongs to


def parquet(fs: Fs, path: Path, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    size = (fs.stat(path) or _gone(path)).size
    record = record_beside(fs, path)
    committed = record.data_file_sizes.get(path.name) if record else None
    if committed is not None:
        yield from extent(path, committed, size)
        size = min(size, committed)
    with damage_at(path):
        parquet_file = ParquetFile(pa.BufferReader(fs.map(path, size)))
        metadata, schema = parquet_file.metadata, parquet_file.schema_arrow
    facts.update(
        rows=metadata.num_rows,
        rowGroups=metadata.num_row_groups,
        createdBy=metadata.created_by,
        columns=[f"{field.name}: {field.type}" for field in schema],
    )
    own = (metadata.metadata or {}).get(KEY)
    if own is not None:
        try:
            facts["deephaven"] = json.loads(own)
            decode_footer(own, path)
        except ValueError as error:
            yield finding("error", path, "footer entry deephaven is not JSON", found=error)
        except SparkhavenError as error:
            yield from_error(error, path)
    if ROW_SET in schema.names:
        yield from _row_sets(fs, path, parquet_file, facts)
    yield from changed(fs, path, record, 0)


def _row_sets(fs: Fs, path: Path, parquet_file: ParquetFile, facts: dict[str, Any]) -> Iterator[CheckFinding]:
    location = table_size.load(fs, path.parents[ABOVE]) if len(path.parents) > ABOVE else None
    with damage_at(path, f"column {ROW_SET}"):
        sets = parquet_file.read([ROW_SET]).column(0).to_pylist()
    covered = 0
    for row, row_set in enumerate(sets):
        try:
            starts, stops = decode_rows(row_set or b"", f"{path}, row {row}", location.size if location else None)
            covered += int((stops - starts).sum())
        except SparkhavenError as error:
            yield from_error(error, path)
    facts.update(keys=len(sets), indexedRows=covered)
    if location is not None and covered != location.size:
        yield finding(
            "error",
            path,
            "row sets do not cover the location",
            expected=f"{location.size} rows",
            found=f"{covered} rows",
            hint="merge the date again with --rewrite. Rows are read without the index",
        )


def _gone(path: Path) -> Any:
    raise FileNotFoundError(path)
