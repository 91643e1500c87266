"""Reads a staged ``table.parquet`` back by DuckDB, a reader that did not write it: digests, statistics, groups.

Values are taken as DuckDB decodes them, column by column and block by block. The sidecars are read by DuckDB too, and
compared with the runs of the data and with ``Index-<Col>``.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.digest.column_digest import add, digest_array
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.format.column.fixed import encode_entries
from sparkhaven.store.format.index.row_set import decode_rows
from sparkhaven.store.format.parquet.location_files import NAME, ROW_SET, index_of, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import pc
from sparkhaven.store.scan.checksums import file_state
from sparkhaven.store.scan.column_file import read_column
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.sort_keys import ordinals
from sparkhaven.writers.merge.write.finish import Finished
from sparkhaven.writers.merge.write.indexes import index_columns
from sparkhaven.writers.merge.write.location_check import ColumnFound, fixed_stats, text_stats

SETTINGS = {"threads": "1", "autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


@frozen
class ParquetCheck:
    """A task: some columns of one finished destination."""

    plan: MergePlan
    finished: Finished
    columns: tuple[Column, ...]


def check_parquet(fs: Fs, task: ParquetCheck) -> list[ColumnFound]:
    """Reads columns back. ValidationFailedError: the file cannot be read, or indexes do not match the data.

    The results name no files; ``whole_files`` has their checksums.
    """
    location = task.plan.destinations[task.finished.destination].stage(task.plan.table, task.plan.value)
    with duckdb_reader(partial(_wrong, location / NAME)) as connection:
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


def parquet_batches(connection: Any, path: Path, columns: Sequence[str], rows: int) -> pa.RecordBatchReader:
    """Columns of a Parquet file, in batches of at most so many rows."""
    shown = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    quoted = glob.escape(str(path)).replace("'", "''")
    query = f"select {shown} from read_parquet('{quoted}', hive_partitioning=false)"
    return connection.sql(query).to_arrow_reader(rows)


def column_batches(connection: Any, path: Path, column: Column, rows: int) -> Iterator[pa.RecordBatch]:
    """A column of a Parquet file. Decimals of more than 38 digits, which DuckDB reads as doubles, by Arrow."""
    if not pa.types.is_decimal256(column.type.arrow):
        yield from parquet_batches(connection, path, [column.name], rows)
        return
    from pyarrow.parquet import ParquetFile

    yield from ParquetFile(path).iter_batches(rows, columns=[column.name])


def whole_files(fs: Fs, location: Path, finished: Finished) -> tuple[FileState, dict[str, FileState]]:
    """Size and checksum of ``table.parquet``, and of each file of the indexes."""
    return file_state(fs, location / NAME), {name: file_state(fs, location / name) for name in finished.index_files}


class _Column:
    """One column, read once."""

    def __init__(self, fs: Fs, connection: Any, location: Path, task: ParquetCheck, column: Column) -> None:
        self.fs, self.connection, self.location = fs, connection, location
        self.finished, self.column, self.sizes = task.finished, column, task.plan.options.sizes
        self.indexed = column.name in task.finished.indexes
        self.digest, self.rows = 0, 0
        self.stats: list[RangeStats] = []
        self._starts: list[npt.NDArray[np.int64]] = []
        self._last: pa.Array | None = None

    def found(self) -> ColumnFound:
        for array in self._values():
            self.digest = add(self.digest, digest_array(self.column, array))
            self._count(array)
            if self.indexed:
                self._changes(array)
            self.rows += len(array)
        if self.rows != self.finished.rows:
            raise _wrong(self.location / NAME, "it has another number of rows", self.finished.rows, self.rows)
        if self.indexed:
            self._check_index()
        return ColumnFound(self.finished.destination, self.column.name, self.digest, {}, tuple(self.stats))

    def _values(self) -> Iterator[pa.Array]:
        """The column in blocks, of long texts in smaller ones."""
        rows = self.sizes.rows
        if self.column.storage is Storage.BLOB:
            rows = min(rows, self.sizes.texts)
        batches = column_batches(self.connection, self.location / NAME, self.column, rows)
        return _blocks(batches, self.column.type.arrow, rows)

    def _count(self, array: pa.Array) -> None:
        """Statistics of a block; of long texts there are none but the number of nulls."""
        stats = _stats(array, self.column, self.rows)
        last = self.stats[-1] if self.stats else None
        if last is not None and stats.stop - last.start <= self.sizes.rows:
            self.stats[-1] = replace(last, stop=stats.stop, nulls=last.nulls + stats.nulls)
        else:
            self.stats.append(stats)

    def _read(self, name: str, columns: list[str], rows: int) -> pa.RecordBatchReader:
        return parquet_batches(self.connection, self.location / name, columns, rows)

    def _changes(self, array: pa.Array) -> None:
        before = array.slice(0, 0) if self._last is None else self._last
        words = _words(pa.concat_arrays([before, array]), self.column)
        starts = np.flatnonzero(words[1:] != words[:-1]) + 1 - len(before)
        if self._last is None:
            starts = np.concatenate([np.zeros(1, np.int64), starts])
        self._starts.append(starts + self.rows)
        self._last = array.slice(len(array) - 1)

    def _check_index(self) -> None:
        """The sidecar and ``Index-<Col>`` against the runs of the data."""
        name = self.column.name
        starts = np.concatenate(self._starts) if self._starts else np.zeros(0, np.int64)
        stops = np.append(starts[1:], self.rows)
        path = self.location / sidecar_of((name,))
        table = pa.Table.from_batches(self._read(sidecar_of((name,)), [name, ROW_SET], self.sizes.rows))
        sets = [decode_rows(data, path, self.rows) for data in table.column(ROW_SET).to_pylist()]
        if [(a.tolist(), b.tolist()) for a, b in sets] != [([a], [b]) for a, b in zip(starts, stops, strict=True)]:
            raise _wrong(path, "row sets are not the runs of the data", f"{len(starts)} runs", f"{len(sets)} sets")
        directory = self.location / index_of((name,))
        record = table_size.load(self.fs, directory)
        key, *positions = index_columns(self.column)
        for column, positions_ in zip(positions, (starts, stops), strict=True):
            sizes = record.data_file_sizes if record else {}
            if (
                record is None
                or read_column(self.fs, directory, column, sizes, record.size).to_pylist() != positions_.tolist()
            ):
                raise _wrong(
                    directory, f"{column.name} is not that of the runs of the data", f"{len(positions_)} rows", "others"
                )
        assert record is not None  # noqa: S101
        keys = read_column(self.fs, directory, key, record.data_file_sizes, record.size)
        first = _words(pa.concat_arrays([keys, pa.chunked_array(table.column(name)).combine_chunks()]), self.column)
        if not np.array_equal(first[: len(keys)], first[len(keys) :]):
            raise _wrong(directory, "its keys are not those of the sidecar", f"{len(keys)} keys", "others")
        if not self._keys_of(table.column(name), starts):
            raise _wrong(path, "its keys are not the values of their rows", f"{len(starts)} keys", "others")

    def _keys_of(self, keys: pa.ChunkedArray, starts: npt.NDArray[np.int64]) -> bool:
        """Whether the first row of each run has the key of its place."""
        first = 0
        for array in self._values():
            inside = starts[(starts >= first) & (starts < first + len(array))]
            expected = keys.slice(int(np.searchsorted(starts, first)), len(inside)).combine_chunks()
            words = _words(pa.concat_arrays([expected, array.take(pa.array(inside - first))]), self.column)
            if not np.array_equal(words[: len(expected)], words[len(expected) :]):
                return False
            first += len(array)
        return len(keys) == len(starts)


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


def _words(array: pa.Array, column: Column) -> npt.NDArray[Any]:
    """Numbers that are equal where values are: null is a value, and all NaN are one."""
    if column.storage is Storage.FIXED:
        return ordinals(encode_entries(array, column.type), column.type)
    coded = array.cast(pa.string()).dictionary_encode().indices
    return pc.fill_null(coded, -1).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _wrong(path: Path, what: str, expected: object, found: object) -> ValidationFailedError:
    return ValidationFailedError(
        f"staged Parquet: {what}",
        where=path,
        expected=expected,
        found=found,
        hint="merge the date again. If the error comes back, the disk or memory is faulty",
        phase="check",
    )
