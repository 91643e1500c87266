"""Reads leaves of an exported tree back: Parquet files by DuckDB, which did not write them, column files by ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.digest.column_digest import to_hex
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.exports.leaves import WrittenLeaf
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.write.parquet_check import column_batches, duckdb_reader


def check_leaf(fs: Fs, path: Path, columns: Sequence[Column], written: WrittenLeaf) -> None:
    """ValidationFailedError: a leaf does not hold the rows and values that were written."""
    if fs.is_dir(path):
        _compare(path, columns, written, _of_files(fs, path, columns))
        return
    with duckdb_reader(partial(_wrong, path)) as connection:
        _compare(path, columns, written, _of_parquet(connection, path, columns))


def _of_parquet(connection: Any, path: Path, columns: Sequence[Column]) -> Iterator[list[pa.Array]]:
    rows = SIZES.texts if any(column.storage is Storage.BLOB for column in columns) else SIZES.rows
    for batch in column_batches(connection, path, columns, rows):
        yield [array.cast(column.type.arrow) for column, array in zip(columns, batch.columns, strict=True)]


def _of_files(fs: Fs, directory: Path, columns: Sequence[Column]) -> Iterator[list[pa.Array]]:
    record = table_size.load(fs, directory)
    if record is None:
        raise _wrong(directory, "it has no table.size", "a record of its rows", "nothing")
    opened = [open_column(fs, directory, column, record.data_file_sizes, record.size) for column in columns]
    for first in range(0, record.size, SIZES.rows):
        yield [column.read(first, min(first + SIZES.rows, record.size)) for column in opened]


def _compare(path: Path, columns: Sequence[Column], written: WrittenLeaf, parts: Iterator[list[pa.Array]]) -> None:
    read = WrittenLeaf()
    for arrays in parts:
        read.count(columns, arrays, len(arrays[0]))
    if read.rows != written.rows:
        raise _wrong(path, "it has another number of rows", written.rows, read.rows)
    if read.row_digest == written.row_digest:
        return
    names = [name for name, digest in written.digests.items() if read.digests.get(name) != digest]
    what = f"other values in {', '.join(names)}" if names else "rows whose values were exchanged"
    raise _wrong(path, f"it has {what}", to_hex(written.row_digest), to_hex(read.row_digest))


def _wrong(path: Path, what: str, expected: object, found: object) -> ValidationFailedError:
    return ValidationFailedError(
        f"exported file: {what}",
        where=path,
        expected=expected,
        found=found,
        hint="nothing was published. Export again. If the error comes back, the disk or memory is faulty",
        phase="check",
    )
