"""Indexes of a staged location: for each grouping column, and for each ``DataIndex`` of the schema.

``Index-<Cols>`` is a table of column files: the keys, ascending, null first. Keys of a grouping column have
``dh_begin_pos`` (inclusive) and ``dh_end_pos`` (exclusive), those of any other index ``dh_row_set``. Beside
``table.parquet`` each index is written twice: ``.dh_metadata/indexes/<Cols>/index_<Cols>_table.parquet`` is what
Deephaven's Parquet reader takes, the keys and the row set of each in row groups of as many as those of the rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.format.column.codecs import Base, encode_column
from sparkhaven.store.format.column.prefix import DATA_OFFSET, encode_prefix
from sparkhaven.store.format.parquet.fields import file_schema
from sparkhaven.store.format.parquet.footer import ROW_SET_CODEC, Footer
from sparkhaven.store.format.parquet.location_files import ROW_SET, index_of, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.tbl import encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.scan.index_file import index_columns, is_contiguous, key_columns
from sparkhaven.store.types.model import Column, TableSchema
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.write.finish import Finished, staged_source
from sparkhaven.writers.merge.write.index_rows import KeyRows, group_rows, key_pieces
from sparkhaven.writers.merge.write.parquet_sink import DEFAULT_CODEC, FileSink, parquet_writer


@dataclass(frozen=True, slots=True)
class IndexTask:
    """A task: an index over some columns of a finished location; ``now_ms`` is the time of the merge.

    ``groups``: the keys of a grouping column, if the order of the rows told them; else they are read.
    """

    plan: MergePlan
    finished: Finished
    columns: tuple[str, ...]
    now_ms: int
    groups: KeyRows | None = None


@dataclass(frozen=True, slots=True)
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
    """Writes one index of a location whose column files are there, in pieces that fit a worker's memory."""
    plan, finished, names = task.plan, task.finished, task.columns
    location = plan.destinations[finished.destination].stage(plan.table, plan.value)
    by_name = {column.name: column for column in plan.columns}
    columns = [by_name[name] for name in names]
    contiguous = is_contiguous(names, finished.grouped)
    table = _IndexTable(fs, location / index_of(names), index_columns(columns, contiguous=contiguous))
    whole: list[pa.Array] | None = None  # of groups, which are few
    if contiguous:
        source = staged_source(plan, finished)
        groups = task.groups or group_rows(ColumnSource(fs, source, columns[0]), plan.options.sizes.rows)
        table.append([*groups.keys, groups.starts, groups.stops])
        whole = [*groups.keys, pa.array(groups.sets(), pa.binary())] if plan.format != "deephaven" else None
    else:
        limits = {"block": plan.options.sizes.rows, "budget": plan.options.sizes.index_bytes or plan.usable()}
        for piece in key_pieces(fs, location, columns, finished.sizes, finished.rows, **limits):
            table.append([*piece.keys, piece.sets()])
    written = [f"{index_of(names)}/{name}" for name in table.close(plan.schema, names, task.now_ms)]
    if plan.format != "deephaven":
        fs.mkdirs((location / sidecar_of(names)).parent)
        most = plan.options.sizes.group_rows
        pieces = _pieces(whole, most) if whole else table.pieces(most)
        _write_sidecar(fs, location / sidecar_of(names), plan.schema, columns, pieces)
        written.insert(0, sidecar_of(names))
    return Index(names, table.rows, tuple(written))


def _write_sidecar(
    fs: Fs, path: Path, schema: TableSchema, columns: Sequence[Column], pieces: Iterable[Sequence[pa.Array]]
) -> None:
    """Writes the keys and row sets of each piece as a row group."""
    footer = Footer(codecs={ROW_SET: ROW_SET_CODEC}, sorting={column.name: "Ascending" for column in columns})
    file = file_schema(key_columns(columns), footer).append(pa.field(ROW_SET, pa.binary()))
    fs.write_new(path, b"")
    with FileSink(fs, path) as sink, parquet_writer(sink, file, schema.merge_codec or DEFAULT_CODEC) as writer:
        for arrays in pieces:
            writer.write_table(pa.table([*arrays], file), row_group_size=max(len(arrays[0]), 1))


def _pieces(arrays: Sequence[pa.Array], most: int) -> Iterator[list[pa.Array]]:
    for first in range(0, max(len(arrays[0]), 1), most):
        yield [array.slice(first, most) for array in arrays]


class _IndexTable:
    """The column files of an index, which grow by pieces."""

    def __init__(self, fs: Fs, directory: Path, columns: Sequence[Column]) -> None:
        self._fs, self._directory, self._columns = fs, directory, tuple(columns)
        self.rows = 0
        self._sizes: dict[str, int] = {}
        self._sums: dict[str, int] = {}
        fs.mkdirs(directory)
        for column in columns:
            for name in column.files:
                fs.write_new(directory / name, encode_prefix(column) if name.endswith(".dat") else b"")
                self._sizes[name] = self._sums[name] = 0

    def append(self, values: Sequence[Any]) -> None:
        """Rows behind those that are there: an array, a list, or positions, for each column."""
        arrays = [_array(part, column) for part, column in zip(values, self._columns, strict=True)]
        for column, array in zip(self._columns, arrays, strict=True):
            for name, data in encode_column(column, array, Base(self.rows, dict(self._sizes))).parts.items():
                front = DATA_OFFSET if name.endswith(".dat") else 0
                self._fs.write_at(self._directory / name, front + self._sizes[name], data)
                self._sums[name] = zlib.crc32(data, self._sums[name])
                self._sizes[name] += len(data)
        self.rows += len(arrays[0])

    def close(self, schema: TableSchema, names: Sequence[str], now_ms: int) -> list[str]:
        """Writes definition and sizes; the names of all files."""
        own = TableSchema(schema.namespace, schema.name, self._columns, nested=False)
        self._fs.write_new(self._directory / "table.tbl", encode_tbl(own, storage_type=SPLAYED))
        sorting = dict.fromkeys(names, "Ascending")
        size = table_size.TableSize(self.rows, now_ms, self._sizes, sorted_columns=sorting, checksums=self._sums)
        self._fs.write_new(self._directory / table_size.NAME, table_size.encode(size))
        return [*sorted(self._sizes), "table.tbl", table_size.NAME]

    def pieces(self, most: int) -> Iterator[list[pa.Array]]:
        """Keys and row sets of at most ``most`` keys each, mapped from the files where their form allows it."""
        opened = [open_column(self._fs, self._directory, c, self._sizes, self.rows) for c in self._columns]
        for first in range(0, max(self.rows, 1), most):
            arrays = [column.read(first, min(first + most, self.rows)) for column in opened]
            yield [*arrays[:-1], arrays[-1].cast(pa.binary())]


def _array(values: Any, column: Column) -> pa.Array:
    return pa.array(values) if isinstance(values, np.ndarray) else pa.array(values, column.type.arrow)


def directories_of(files: tuple[str, ...]) -> Iterator[str]:
    """The directories of files below a location, each once, those inside first."""
    directories = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    yield from sorted(directories, key=lambda name: (-name.count("/"), name))
