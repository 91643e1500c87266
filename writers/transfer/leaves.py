"""Leaves of an exported tree, from batches of rows: a Parquet file, or a directory of column files.

Both hold one row group, or one batch, in memory, and of column files also the symbols. Digests are those of the rows
as they came. A leaf is read back: a Parquet file by DuckDB, which did not write it, column files by our reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.digest.column_digest import add, digest_array, digest_rows, to_hex
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import DATA_OFFSET, encode_prefix
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.parquet.footer import Footer, compacted, file_schema
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.checksums import crc32, file_state
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.write.parquet_check import (
    GROUP_BYTES,
    FileSink,
    column_batches,
    duckdb_reader,
    parquet_writer,
)


@dataclass(slots=True)
class WrittenLeaf:
    """What a leaf holds: rows, bytes of all its files, digests of its rows and of each column; ``files`` as paths."""

    rows: int = 0
    bytes: int = 0
    row_digest: int = 0
    digests: dict[str, int] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)

    def count(self, columns: Sequence[Column], arrays: Sequence[pa.Array], rows: int) -> None:
        self.rows += rows
        hashes = np.zeros(rows, np.uint64)
        for column, array in zip(columns, arrays, strict=True):
            self.digests[column.name] = add(self.digests.get(column.name, 0), digest_array(column, array, hashes))
        self.row_digest = add(self.row_digest, digest_rows(hashes))


def write_parquet_leaf(
    fs: Fs,
    path: Path,
    columns: Sequence[Column],
    batches: Iterable[pa.RecordBatch],
    codec: str,
    group_rows: int = SIZES.group_rows,
) -> WrittenLeaf:
    """Writes a Parquet file. Row groups depend on the rows alone, see ``row_groups``."""
    written = WrittenLeaf(files=[path])
    schema = file_schema(columns, Footer())
    coded = tuple(field.name for field in schema if pa.types.is_dictionary(field.type))
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, schema, codec, coded) as writer:
        for part in row_groups(_counted(batches, columns, schema, written), schema, group_rows):
            writer.write_table(part, row_group_size=part.num_rows)
    written.bytes = sink.size
    return written


def _counted(
    batches: Iterable[pa.RecordBatch], columns: Sequence[Column], schema: pa.Schema, written: WrittenLeaf
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = [compacted(a) if pa.types.is_dictionary(a.type) else a for a in batch.columns]
        written.count(columns, arrays, batch.num_rows)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, least: int) -> Iterator[pa.Table]:
    """Joins batches to tables of at least ``least`` rows or ``GROUP_BYTES`` bytes, the last one less."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= least or size >= GROUP_BYTES:
            yield _joined(held, schema)
            held, rows, size = [], 0, 0
    if rows:
        yield _joined(held, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()


def write_column_leaf(
    fs: Fs,
    directory: Path,
    schema: TableSchema,
    batches: Iterable[pa.RecordBatch],
    now_ms: int,
    storage_type: int | None = None,
) -> WrittenLeaf:
    """Writes a directory of column files with definition and ``table.size``; ``batches`` have the stored columns.

    ``storage_type``: that of the definition, default: that of the schema.
    """
    symbols: dict[str, dict[str, int]] = {column.name: {} for column in schema.stored}
    written, bases = WrittenLeaf(), {name: Base(0, {}, numbers) for name, numbers in symbols.items()}
    sums: dict[str, int] = {}
    fs.mkdirs(directory)
    for column in schema.stored:
        for name in column.files:
            fs.write_new(directory / name, encode_prefix(column) if name.endswith(DAT) else b"")
            sums[name] = 0
    for batch in batches:
        written.count(schema.stored, batch.columns, batch.num_rows)
        for column, array in zip(schema.stored, batch.columns, strict=True):
            base = bases[column.name]
            encoded = encode_column(column, array, base)
            sizes, numbers = dict(base.sizes), symbols[column.name]
            for name, data in encoded.parts.items():
                offset = DATA_OFFSET if name.endswith(DAT) else 0
                fs.write_at(directory / name, offset + base.size(name), data)
                sizes[name] = base.size(name) + len(data)
                sums[name] = crc32(data, sums[name])
            for text in encoded.symbols:
                numbers[text] = len(numbers)
            bases[column.name] = Base(base.rows + len(array), sizes, numbers)
    lengths = {name: bases[column.name].size(name) for column in schema.stored for name in column.files}
    definition = encode_tbl(schema) if storage_type is None else encode_tbl(schema, storage_type=storage_type)
    fs.write_new(directory / "table.tbl", definition)
    record = table_size.TableSize(written.rows, now_ms, lengths, schema_version=schema.version, checksums=sums)
    fs.write_new(directory / table_size.NAME, table_size.encode(record))
    written.files = [directory / name for name in (*sums, "table.tbl", table_size.NAME)]
    written.bytes = bytes_of(fs, directory)
    return written


def bytes_of(fs: Fs, path: Path) -> int:
    """Bytes of a file, or of all files of a directory; -1 where there is nothing."""
    stat = fs.stat(path)
    if stat is None:
        return -1
    return sum(bytes_of(fs, path / name) for name in fs.names(path)) if stat.is_dir else stat.size


def sums_of(fs: Fs, root: Path, files: Iterable[Path]) -> dict[str, FileState]:
    """Size and CRC-32 of files that were written below ``root``, read back, by their path below it."""
    return {path.relative_to(root).as_posix(): file_state(fs, path) for path in files}


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
