"""Reads leaves of an exported tree back: Parquet files by DuckDB, which did not write them, column files by ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.digest.column_digest import add, digest_array, to_hex
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.write.parquet_check import column_batches, duckdb_reader


def check_leaf(fs: Fs, path: Path, columns: Sequence[Column], rows: int, digests: Mapping[str, int]) -> None:
    """ValidationFailedError: a leaf does not hold the rows and values that were written."""
    if fs.is_dir(path):
        _compare(path, columns, rows, digests, {column.name: _of_files(fs, path, column) for column in columns})
        return
    with duckdb_reader(partial(_wrong, path)) as connection:
        parts = {column.name: _of_parquet(connection, path, column) for column in columns}
        _compare(path, columns, rows, digests, parts)


def _of_parquet(connection: Any, path: Path, column: Column) -> Iterator[pa.Array]:
    rows = SIZES.texts if column.storage is Storage.BLOB else SIZES.rows
    for batch in column_batches(connection, path, [column], rows):
        yield batch.column(0).cast(column.type.arrow)


def _of_files(fs: Fs, directory: Path, column: Column) -> Iterator[pa.Array]:
    record = table_size.load(fs, directory)
    if record is None:
        raise _wrong(directory, "it has no table.size", "a record of its rows", "nothing")
    opened = open_column(fs, directory, column, record.data_file_sizes, record.size)
    for first in range(0, record.size, SIZES.rows):
        yield opened.read(first, min(first + SIZES.rows, record.size))


def _compare(
    path: Path,
    columns: Sequence[Column],
    rows: int,
    digests: Mapping[str, int],
    parts: Mapping[str, Iterator[pa.Array]],
) -> None:
    for column in columns:
        digest = count = 0
        for array in parts[column.name]:
            digest, count = add(digest, digest_array(column, array)), count + len(array)
        if count != rows:
            raise _wrong(path, f"column {column.name} has another number of rows", rows, count)
        if digest != digests.get(column.name, 0):
            expected = to_hex(digests.get(column.name, 0))
            raise _wrong(path, f"column {column.name} has other values", expected, to_hex(digest))


def _wrong(path: Path, what: str, expected: object, found: object) -> ValidationFailedError:
    return ValidationFailedError(
        f"exported file: {what}",
        where=path,
        expected=expected,
        found=found,
        hint="nothing was published. Export again. If the error comes back, the disk or memory is faulty",
        phase="check",
    )
