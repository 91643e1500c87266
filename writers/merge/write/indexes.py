"""Indexes of a location in Parquet format: for each grouping column, which rows hold which value.

An index is written twice. The sidecar ``.dh_metadata/indexes/<Col>/index_<Col>_table.parquet`` is what Deephaven's
Parquet reader takes: one row group with the keys, ascending, and the row set of each. ``Index-<Col>`` is a table of
column files: the keys with ``dh_begin_pos`` (inclusive) and ``dh_end_pos`` (exclusive).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix
from sparkhaven.store.format.index.grouping import GroupRanges
from sparkhaven.store.format.index.row_set import encode_range
from sparkhaven.store.format.parquet.fields import file_schema
from sparkhaven.store.format.parquet.footer import ROW_SET_CODEC, Footer
from sparkhaven.store.format.parquet.location_files import BEGIN, END, ROW_SET, index_of, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema
from sparkhaven.writers.merge.write.parquet_sink import FileSink, parquet_writer


@frozen
class Index:
    """An index that was written: its column, its keys, and its files as paths below the location."""

    column: str
    keys: int
    files: tuple[str, ...]


def write_index(
    fs: Fs, location: Path, schema: TableSchema, column: Column, ranges: GroupRanges, codec: str, now_ms: int
) -> Index:
    """Writes both forms of the index over a grouping column."""
    keys = key_array(column, ranges)
    sidecar = sidecar_of((column.name,))
    fs.mkdirs((location / sidecar).parent)
    _write_sidecar(fs, location / sidecar, column, keys, ranges, codec)
    directory = index_of((column.name,))
    fs.mkdirs(location / directory)
    files = _write_table(fs, location / directory, schema, column, keys, ranges, now_ms)
    return Index(column.name, len(ranges), (sidecar, *(f"{directory}/{name}" for name in files)))


def key_array(column: Column, ranges: GroupRanges) -> pa.Array:
    if pa.types.is_timestamp(column.type.arrow):
        return pa.array(ranges.keys, pa.int64()).cast(column.type.arrow)
    return pa.array(ranges.keys, column.type.arrow)


def _write_sidecar(fs: Fs, path: Path, column: Column, keys: pa.Array, ranges: GroupRanges, codec: str) -> None:
    sets = [
        encode_range(start, stop) for start, stop in zip(ranges.starts.tolist(), ranges.stops.tolist(), strict=True)
    ]
    footer = Footer(codecs={ROW_SET: ROW_SET_CODEC}, sorting={column.name: "Ascending"})
    key = index_columns(column)[0]
    schema = file_schema([key], footer).append(pa.field(ROW_SET, pa.binary()))
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, schema, codec) as writer:
        writer.write_table(pa.table([keys, pa.array(sets, pa.binary())], schema), row_group_size=max(len(keys), 1))


def index_columns(column: Column) -> tuple[Column, Column, Column]:
    """The columns of ``Index-<Col>``. Keys are distinct, so texts need no symbol table."""
    storage = Storage.FIXED if column.storage is Storage.FIXED else Storage.BLOB
    encoding = charset_of(column) if storage is Storage.BLOB else None
    long = BY_NAME["long"]
    return (
        Column(column.name, column.type, Kind.NORMAL, storage, 1, encoding),
        Column(BEGIN, long, Kind.NORMAL, Storage.FIXED, 2),
        Column(END, long, Kind.NORMAL, Storage.FIXED, 3),
    )


def _write_table(
    fs: Fs, directory: Path, schema: TableSchema, column: Column, keys: pa.Array, ranges: GroupRanges, now_ms: int
) -> list[str]:
    columns = index_columns(column)
    arrays = (keys, pa.array(ranges.starts, pa.int64()), pa.array(ranges.stops, pa.int64()))
    sizes: dict[str, int] = {}
    sums: dict[str, int] = {}
    for stored, array in zip(columns, arrays, strict=True):
        for name, data in encode_column(stored, array, Base()).parts.items():
            prefix = encode_prefix(stored) if name.endswith(".dat") else b""
            fs.write_new(directory / name, prefix + bytes(data))
            sizes[name], sums[name] = len(data), zlib.crc32(data)
    own = TableSchema(schema.namespace, schema.name, columns, nested=False)
    fs.write_new(directory / "table.tbl", encode_tbl(own, storage_type=SPLAYED))
    size = table_size.TableSize(len(keys), now_ms, sizes, sorted_columns={column.name: "Ascending"}, checksums=sums)
    fs.write_new(directory / table_size.NAME, table_size.encode(size))
    return [*sorted(sizes), "table.tbl", table_size.NAME]


def directories_of(files: tuple[str, ...]) -> Iterator[str]:
    """The directories of files below a location, each once, those inside first."""
    directories = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    yield from sorted(directories, key=lambda name: (-name.count("/"), name))
