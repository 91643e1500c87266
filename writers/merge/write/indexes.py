"""Indexes of a staged location: for each grouping column, and for each ``DataIndex`` of the schema.

``Index-<Cols>`` is a table of column files: the keys, ascending, null first. Keys of a grouping column have
``dh_begin_pos`` (inclusive) and ``dh_end_pos`` (exclusive), those of any other index ``dh_row_set``. Beside
``table.parquet`` each index is written twice: ``.dh_metadata/indexes/<Cols>/index_<Cols>_table.parquet`` is what
Deephaven's Parquet reader takes, one row group with the keys and the row set of each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import encode_prefix
from sparkhaven.store.format.parquet.fields import file_schema
from sparkhaven.store.format.parquet.footer import ROW_SET_CODEC, Footer
from sparkhaven.store.format.parquet.location_files import ROW_SET, index_of, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.index_file import index_columns, is_contiguous, key_columns
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.write.finish import Finished
from sparkhaven.writers.merge.write.index_rows import KeyRows, group_rows, key_rows
from sparkhaven.writers.merge.write.parquet_sink import DEFAULT_CODEC, FileSink, parquet_writer


@frozen
class IndexTask:
    """A task: an index over some columns of a finished location; ``now_ms`` is the time of the merge."""

    plan: MergePlan
    finished: Finished
    columns: tuple[str, ...]
    now_ms: int


@frozen
class Index:
    """An index that was written: its columns, its keys, and its files as paths below the location."""

    columns: tuple[str, ...]
    keys: int
    files: tuple[str, ...]


def planned_indexes(plan: MergePlan, finished: Finished) -> list[tuple[str, ...]]:
    """The columns of each index of a location: grouping columns that are grouped there, then those of the schema."""
    grouped = [(name,) for name, contiguous in finished.grouped.items() if contiguous]
    return list(dict.fromkeys([*grouped, *plan.schema.built_indexes]))


def with_indexes(finished: Finished, indexes: Sequence[Index]) -> Finished:
    """The location with its new files."""
    files = tuple(name for index in indexes for name in index.files)
    return replace(finished, indexes={index.columns: index.keys for index in indexes}, index_files=files)


def write_index(fs: Fs, task: IndexTask) -> Index:
    """Writes one index of a location whose column files are there."""
    plan, finished, names = task.plan, task.finished, task.columns
    location = plan.destinations[finished.destination].stage(plan.table, plan.value)
    by_name = {column.name: column for column in plan.columns}
    columns = [by_name[name] for name in names]
    contiguous = is_contiguous(names, finished.grouped)
    size = finished.sizes, finished.rows
    rows = group_rows(fs, location, columns[0], *size) if contiguous else key_rows(fs, location, columns, *size)
    sets = [] if contiguous and plan.format == "deephaven" else rows.sets()
    values = [rows.starts, rows.stops] if contiguous else [sets]
    stored = index_columns(columns, contiguous=contiguous)
    kinds = [column.type.arrow for column in stored[len(names) :]]
    arrays = [*rows.keys, *(pa.array(part, kind) for part, kind in zip(values, kinds, strict=True))]
    files = _write_table(fs, location / index_of(names), plan.schema, stored, arrays, names, task.now_ms)
    written = [f"{index_of(names)}/{name}" for name in files]
    if plan.format != "deephaven":
        fs.mkdirs((location / sidecar_of(names)).parent)
        _write_sidecar(fs, location / sidecar_of(names), plan.schema, columns, rows, sets)
        written.insert(0, sidecar_of(names))
    return Index(names, len(arrays[0]), tuple(written))


def _write_sidecar(
    fs: Fs, path: Path, schema: TableSchema, columns: Sequence[Column], rows: KeyRows, sets: list[bytes]
) -> None:
    footer = Footer(codecs={ROW_SET: ROW_SET_CODEC}, sorting={column.name: "Ascending" for column in columns})
    file = file_schema(key_columns(columns), footer).append(pa.field(ROW_SET, pa.binary()))
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, file, schema.merge_codec or DEFAULT_CODEC) as writer:
        writer.write_table(pa.table([*rows.keys, pa.array(sets, pa.binary())], file), row_group_size=max(len(sets), 1))


def _write_table(
    fs: Fs,
    directory: Path,
    schema: TableSchema,
    columns: Sequence[Column],
    arrays: Sequence[pa.Array],
    names: Sequence[str],
    now_ms: int,
) -> list[str]:
    fs.mkdirs(directory)
    sizes: dict[str, int] = {}
    sums: dict[str, int] = {}
    for stored, array in zip(columns, arrays, strict=True):
        for name, data in encode_column(stored, array, Base()).parts.items():
            prefix = encode_prefix(stored) if name.endswith(".dat") else b""
            fs.write_new(directory / name, prefix + bytes(data))
            sizes[name], sums[name] = len(data), zlib.crc32(data)
    own = TableSchema(schema.namespace, schema.name, tuple(columns), nested=False)
    fs.write_new(directory / "table.tbl", encode_tbl(own, storage_type=SPLAYED))
    sorting = dict.fromkeys(names, "Ascending")
    size = table_size.TableSize(len(arrays[0]), now_ms, sizes, sorted_columns=sorting, checksums=sums)
    fs.write_new(directory / table_size.NAME, table_size.encode(size))
    return [*sorted(sizes), "table.tbl", table_size.NAME]


def directories_of(files: tuple[str, ...]) -> Iterator[str]:
    """The directories of files below a location, each once, those inside first."""
    directories = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    yield from sorted(directories, key=lambda name: (-name.count("/"), name))
