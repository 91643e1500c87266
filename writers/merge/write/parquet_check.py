"""Writes ``table.parquet`` of a staged location, and reads it back by DuckDB, which did not write it.

The check takes digests and statistics of values as DuckDB decodes them, column by column and block by block.

The file is made from the column files of the location, which have the order and the groups already, row group by row
group: in memory are the symbol tables of the location and the columns of one row group, and of those only what is not
mapped. Row groups do not depend on memory or workers, so that the same rows give the same bytes. For ``parquet`` the
column files are removed at the end; indexes were written before.

pyarrow writes it piece by piece through the one module that touches the disk.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.digest import add, digest_array
from sparkhaven.store.errors import MergeError, ValidationFailedError
from sparkhaven.store.expressions.duckdb_engine import quoted
from sparkhaven.store.format.column.codecs import encode_entries
from sparkhaven.store.format.parquet.footer import Footer, compacted, file_schema
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, sidecar_of
from sparkhaven.store.scan.column_file import OVR, ColumnFile, open_column, read_grouping
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import SIZES
from sparkhaven.writers.merge.write.finish import Finished, sort_directions
from sparkhaven.writers.merge.write.location_check import ColumnFound, fixed_stats, text_stats
from sparkhaven.writers.merge.write.staging import early_sync

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter


SETTINGS = {"threads": "1", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


@dataclass(frozen=True, slots=True)
class ParquetCheck:
    """A task: some columns of one finished destination."""

    plan: MergePlan
    finished: Finished
    columns: tuple[Column, ...]


def check_parquet(fs: Fs, task: ParquetCheck) -> list[ColumnFound]:
    """Reads columns back. ValidationFailedError: the file cannot be read.

    The results name no files.
    """
    location = task.plan.destinations[task.finished.destination].stage(task.plan.table, task.plan.value)
    with duckdb_reader(partial(_wrong, location / PARQUET)) as connection:
        return [_Column(fs, connection, location, task, column).found() for column in task.columns]


@contextmanager
def duckdb_reader(wrong: Callable[[str, object, object], Exception]) -> Iterator[Any]:
    """A connection for ``parquet_batches``; ``wrong`` makes the error of what, expected, found."""
    import duckdb  # which merges into column files do not need

    try:
        with duckdb.connect(config=SETTINGS) as connection:
            connection.execute("set TimeZone = 'UTC'")
            yield connection
    except duckdb.Error as error:
        raise wrong("it cannot be read by DuckDB", "rows", error) from error


def parquet_batches(
    connection: Any, path: Path, columns: Sequence[str], rows: int, part: tuple[int, int] | None = None
) -> pa.RecordBatchReader:
    """Columns of a Parquet file, in batches of at most so many rows; ``part``: of rows from one number to another."""
    shown = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    query = f"select {shown} from read_parquet({quoted(glob.escape(str(path)))}, hive_partitioning=false"
    if part is not None:
        query += f", file_row_number=true) where file_row_number >= {part[0]} and file_row_number < {part[1]}"
    return connection.sql(query if part is not None else f"{query})").to_arrow_reader(rows)


def column_batches(
    connection: Any, path: Path, columns: Sequence[Column], rows: int, part: tuple[int, int] | None = None
) -> Iterator[pa.RecordBatch] | pa.RecordBatchReader:
    """Columns of a Parquet file. Decimals of more than 38 digits, which DuckDB reads as doubles, by Arrow."""
    names = [column.name for column in columns]
    wide = [column.name for column in columns if pa.types.is_decimal256(column.type.arrow)]
    if not wide:
        return parquet_batches(connection, path, names, rows, part)
    from pyarrow.parquet import ParquetFile

    by_arrow = _part(ParquetFile(path).iter_batches(rows, columns=wide), part)
    others = [name for name in names if name not in wide]
    return _joined(parquet_batches(connection, path, others, rows, part), by_arrow, names) if others else by_arrow


def _part(batches: Iterable[pa.RecordBatch], part: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
    """The rows of batches from one number to another."""
    row = 0
    for batch in batches:
        first, stop = (max(0, bound - row) for bound in part or (0, row + len(batch)))
        if first < min(stop, len(batch)):
            yield batch.slice(first, stop - first)
        row += len(batch)


def row_batches(path: Path, columns: Sequence[Column], part: tuple[int, int], rows: int) -> Iterator[pa.RecordBatch]:
    """All columns of the rows from one number to another of a staged ``table.parquet``."""
    with duckdb_reader(partial(_wrong, path)) as connection:
        yield from column_batches(connection, path, columns, rows, part)


def _joined(
    batches: Iterable[pa.RecordBatch], others: Iterator[pa.RecordBatch], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Batches with the columns of others, whose rows are cut in another way, by name."""
    held = pa.Table.from_batches([next(others)])
    for batch in batches:
        while held.num_rows < len(batch):
            held = pa.concat_tables([held, pa.Table.from_batches([next(others)])])
        part = held.slice(0, len(batch)).combine_chunks()
        held = held.slice(len(batch))
        arrays = {**dict(zip(batch.schema.names, batch.columns, strict=True))}
        arrays |= {name: part[name].chunk(0) for name in part.column_names}
        yield pa.RecordBatch.from_arrays([arrays[name] for name in names], names)


class _Column:
    """One column, read once."""

    def __init__(self, fs: Fs, connection: Any, location: Path, task: ParquetCheck, column: Column) -> None:
        self.fs, self.connection, self.location = fs, connection, location
        self.finished, self.column, self.sizes = task.finished, column, task.plan.options.sizes
        self.digest, self.rows = 0, 0
        self.stats: list[RangeStats] = []

    def found(self) -> ColumnFound:
        for array in self._values():
            self.digest = add(self.digest, digest_array(self.column, array))
            self._count(array)
            self.rows += len(array)
        if self.rows != self.finished.rows:
            raise _wrong(self.location / PARQUET, "it has another number of rows", self.finished.rows, self.rows)
        return ColumnFound(self.finished.destination, self.column.name, self.digest, {}, tuple(self.stats))

    def _values(self) -> Iterator[pa.Array]:
        """The column in blocks, of long texts in smaller ones."""
        rows = self.sizes.rows
        if self.column.storage is Storage.BLOB:
            rows = min(rows, self.sizes.texts)
        batches = column_batches(self.connection, self.location / PARQUET, [self.column], rows)
        return _blocks(batches, self.column.type.arrow, rows)

    def _count(self, array: pa.Array) -> None:
        """Statistics of a block; of long texts there are none but the number of nulls."""
        stats = _stats(array, self.column, self.rows)
        last = self.stats[-1] if self.stats else None
        if last is not None and stats.stop - last.start <= self.sizes.rows:
            self.stats[-1] = replace(last, stop=stats.stop, nulls=last.nulls + stats.nulls)
        else:
            self.stats.append(stats)


def _blocks(batches: Iterable[pa.RecordBatch], kind: pa.DataType, rows: int) -> Iterator[pa.Array]:
    """The one column of a stream in blocks of ``rows`` rows, the last one shorter."""
    held: list[pa.Array] = []
    for batch in batches:
        held.append(batch.column(0).cast(kind))
        while sum(map(len, held)) >= rows:
            whole = pa.concat_arrays(held)
            yield whole.slice(0, rows)
            held = [whole.slice(rows)]
    if sum(map(len, held)):
        yield pa.concat_arrays(held)


def _stats(array: pa.Array, column: Column, first: int) -> RangeStats:
    if column.storage is Storage.FIXED:
        return fixed_stats(encode_entries(array, column.type), column, first)
    stop, nulls = first + len(array), array.null_count
    if column.storage in (Storage.BLOB, Storage.SET) or nulls == len(array):
        return RangeStats(first, stop, nulls)
    bounds = pc.min_max(array)
    return text_stats(first, stop, nulls, bounds["min"].as_py(), bounds["max"].as_py())


def _wrong(path: Path, what: str, expected: object, found: object) -> ValidationFailedError:
    return ValidationFailedError(
        f"staged Parquet: {what}",
        where=path,
        expected=expected,
        found=found,
        hint="merge the date again. If the error comes back, the disk or memory is faulty",
        phase="check",
    )


DEFAULT_CODEC = "SNAPPY"
CODECS = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}  # where pyarrow has another name


class FileSink:
    """A file to be written from its start, in pieces of ``piece`` bytes; the caller syncs it.

    After an error what is held is dropped.
    """

    def __init__(self, fs: Fs, path: Path, piece: int = SIZES.piece) -> None:
        self._fs, self._path, self._piece = fs, path, piece
        self._held = bytearray()
        self.size = 0
        self.closed = False

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._held.clear()
        self.close()

    def write(self, data: Any) -> int:
        self._held += data
        self.size += len(data)
        if len(self._held) >= self._piece:
            self.flush()
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        if self._held:
            self._fs.write_at(self._path, self.size - len(self._held), bytes(self._held))
            self._held.clear()

    def close(self) -> None:
        self.flush()
        self.closed = True


def parquet_writer(sink: FileSink, schema: pa.Schema, codec: str, dictionaries: tuple[str, ...] = ()) -> ParquetWriter:
    """A writer with statistics, page indexes and a checksum of each page; ``dictionaries`` are columns with few values.

    The Arrow schema is stored, as pyarrow drops the other entries of the footer without it.
    """
    from pyarrow.parquet import ParquetWriter  # which merges into column files do not need

    return ParquetWriter(
        pa.PythonFile(sink, "w"),
        schema,
        version="2.6",
        compression=CODECS.get(codec, codec),
        use_dictionary=list(dictionaries),
        write_statistics=True,
        write_page_index=True,
        write_page_checksum=True,
        store_schema=True,
    )


GROUP_BYTES = 64 << 20  # bytes of a row group's columns at most, about
LEAST = 8  # a row group ends at the border of a group from an eighth of its length on


@dataclass(frozen=True, slots=True)
class ParquetTask:
    """A task: a finished location with its indexes, to be written as Parquet."""

    plan: MergePlan
    finished: Finished


def write_parquet(fs: Fs, task: ParquetTask) -> Finished:
    """Writes ``table.parquet``; returns the location with its new files."""
    plan, finished, block = task.plan, task.finished, task.plan.options.sizes
    location = plan.destinations[finished.destination].stage(plan.table, plan.value)
    codec = plan.schema.merge_codec or DEFAULT_CODEC
    starts: npt.NDArray[np.int64] | None = None
    grouped = [column for column in plan.schema.grouping if finished.grouped.get(column.name)]
    if grouped:  # groups of further columns lie inside of these
        ranges = read_grouping(fs, location, grouped[0], finished.rows)
        starts = None if ranges is None else ranges.starts
    columns = [(column, open_column(fs, location, column, finished.sizes, finished.rows)) for column in plan.columns]
    footer = Footer({names: sidecar_of(names) for names in finished.indexes}, sorting=sort_directions(plan))
    schema = file_schema(plan.columns, footer)
    coded = tuple(column.name for column in plan.columns if column.storage is Storage.SYMBOL)
    width = sum(finished.sizes.values()) // max(finished.rows, 1)
    most = max(1, min(block.group_rows, GROUP_BYTES // max(width, 1)))
    fs.write_new(location / PARQUET, b"")
    with FileSink(fs, location / PARQUET, block.piece) as sink, parquet_writer(sink, schema, codec, coded) as writer:
        for first, stop in row_groups(finished.rows, starts, most):
            arrays = [_values(column, opened, first, stop) for column, opened in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=stop - first)
    with early_sync(fs, plan) as syncs:
        syncs.written(location / PARQUET, sink.size)
    sizes = dict(finished.sizes)
    if plan.format == "parquet":
        del columns
        _remove_columns(fs, location, finished, plan.columns)
        sizes = {}
    sizes[PARQUET] = sink.size
    return replace(finished, sizes=sizes)


def row_groups(rows: int, starts: npt.NDArray[np.int64] | None, most: int) -> Iterator[tuple[int, int]]:
    """Row groups of at most ``most`` rows, which end where groups begin (``starts``), unless they would be small."""
    first = 0
    while first < rows:
        stop = min(first + most, rows)
        if starts is not None and stop < rows:
            border = int(starts[np.searchsorted(starts, stop, side="right") - 1])
            if border - first >= most // LEAST and border > first:
                stop = border
        yield first, stop
        first = stop


def _values(column: Column, opened: ColumnFile, first: int, stop: int) -> pa.Array:
    """A column of one row group; of a symbol table only the symbols that the rows have."""
    array = opened.read(first, stop)
    if pa.types.is_large_string(array.type):
        raise MergeError(
            f"texts of column {column.name} are too large for one row group",
            where=f"rows {first} to {stop} of the merged date",
            expected="less than 2 GiB",
            found=f"{array.nbytes} bytes",
            hint="merge with --format deephaven",
            phase="stage",
        )
    if column.storage is not Storage.SYMBOL:
        return array
    return compacted(array)


def _remove_columns(fs: Fs, location: Path, finished: Finished, columns: Sequence[Column]) -> None:
    for name in [*finished.sizes, *(column.name + OVR for column in columns)]:
        fs.unlink(location / name)
