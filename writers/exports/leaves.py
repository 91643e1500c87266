"""Leaves of an exported tree, from batches of rows: a Parquet file, or a directory of column files.

Both hold one row group, or one batch, in memory, and of column files also the symbols. Digests are those of the rows
as they came.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.digest.column_digest import add, digest_array
from sparkhaven.store.digest.row_hashes import digest_rows
from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import DATA_OFFSET, encode_prefix
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.parquet.fields import compacted, file_schema
from sparkhaven.store.format.parquet.footer import Footer
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.write.parquet_sink import FileSink, parquet_writer
from sparkhaven.writers.merge.write.parquet_write import GROUP_BYTES


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
                sums[name] = zlib.crc32(data, sums[name])
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
