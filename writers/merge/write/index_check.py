"""Proves a staged index: its keys ascend, and each row of the location is once in it, with the key that it has.

The rows are those of the column files or, where there are none, of ``table.parquet`` as DuckDB reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, ValidationFailedError
from sparkhaven.store.format.column.fixed import encode_entries
from sparkhaven.store.format.parquet.location_files import NAME, ROW_SET, index_of, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import null_mask, pc, positions
from sparkhaven.store.scan.column_file import open_column, read_column
from sparkhaven.store.scan.index_file import index_columns, is_contiguous
from sparkhaven.store.types.codings.row_ranges_codec import decode_rows
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.sort_keys import ordinals
from sparkhaven.writers.merge.write.finish import Finished
from sparkhaven.writers.merge.write.index_rows import key_words

Positions = npt.NDArray[np.int64]


@frozen
class _IndexedRows:
    """Ranges of rows, each with the number of its key."""

    starts: Positions
    stops: Positions
    keys: Positions

    def ordered(self) -> _IndexedRows:
        """The same by their first rows."""
        order = np.argsort(self.starts, kind="stable")
        return _IndexedRows(self.starts[order], self.stops[order], self.keys[order])

    def tile(self, rows: int) -> bool:
        """Whether ordered ranges follow each other and cover the rows."""
        starts, stops = self.starts, self.stops
        whole = len(starts) and starts[0] == 0 and stops[-1] == rows
        return bool(whole and (starts[1:] == stops[:-1]).all() and (stops > starts).all())

    def keys_of(self, first: int, stop: int) -> Positions:
        """The key of each row of ``[first, stop)``, of ordered ranges."""
        low = int(np.searchsorted(self.starts, first, side="right")) - 1
        high = int(np.searchsorted(self.starts, stop, side="left"))
        counts = np.minimum(self.stops[low:high], stop) - np.maximum(self.starts[low:high], first)
        numbers: Positions = np.repeat(self.keys[low:high], counts)
        return numbers

    def same(self, other: _IndexedRows) -> bool:
        pairs = ((self.starts, other.starts), (self.stops, other.stops), (self.keys, other.keys))
        return all(np.array_equal(one, two) for one, two in pairs)


@frozen
class IndexCheck:
    """A task: the index over some columns of a finished location."""

    plan: MergePlan
    finished: Finished
    columns: tuple[str, ...]


def check_index(fs: Fs, task: IndexCheck) -> None:
    """ValidationFailedError: the index is not that of the rows."""
    _Check(fs, task).run()


class _Check:
    def __init__(self, fs: Fs, task: IndexCheck) -> None:
        self.fs, self.plan, self.finished, self.names = fs, task.plan, task.finished, task.columns
        self.location = task.plan.destinations[task.finished.destination].stage(task.plan.table, task.plan.value)
        self.directory = self.location / index_of(task.columns)
        by_name = {column.name: column for column in task.plan.columns}
        self.columns = [by_name[name] for name in task.columns]
        self.contiguous = is_contiguous(task.columns, task.finished.grouped)

    def run(self) -> None:
        record, wanted = table_size.load(self.fs, self.directory), self.finished.indexes[self.names]
        if record is None or record.size != wanted:
            raise self._wrong("it has another number of keys", wanted, record and record.size)
        stored = index_columns(self.columns, contiguous=self.contiguous)
        arrays = [read_column(self.fs, self.directory, c, record.data_file_sizes, record.size) for c in stored]
        keys, values = arrays[: len(self.names)], arrays[len(self.names) :]
        if not _ascend([key_words(array, column) for array, column in zip(keys, stored, strict=False)]):
            raise self._wrong("its keys do not ascend", "each key behind the one before it", "others")
        sets = None if self.contiguous else values[0].to_pylist()
        if sets is None:
            starts, stops = (array.to_numpy(zero_copy_only=False) for array in values)
            indexed = _IndexedRows(starts, stops, np.arange(len(starts)))
        else:
            indexed = self._decoded(sets)
        ordered = indexed.ordered()
        if not ordered.tile(self.finished.rows):
            ranges = f"{len(ordered.starts)} ranges"
            raise self._wrong("not each row is in it once", f"{self.finished.rows} rows", ranges)
        for first, block in self._blocks():
            numbers = positions(ordered.keys_of(first, first + len(block[0])))
            for array, key, column in zip(block, keys, self.columns, strict=True):
                if not _equal(array, key.take(numbers), column):
                    raise self._wrong(f"a row has another {column.name} than its key", "equal values", "others")
        if self.plan.format != "deephaven":
            self._check_sidecar(keys, sets, indexed)

    def _decoded(self, sets: Sequence[bytes]) -> _IndexedRows:
        try:
            ranges = [decode_rows(data, self.directory, self.finished.rows) for data in sets]
        except CorruptFileError as error:
            raise self._wrong(error.what, error.expected, error.found) from error
        counts = [len(starts) for starts, _ in ranges]
        if 0 in counts:
            raise self._wrong("a key has no rows", "one or more", 0)
        starts, stops = (np.concatenate([pair[side] for pair in ranges]) for side in (0, 1))
        return _IndexedRows(starts, stops, np.repeat(np.arange(len(sets)), counts))

    def _blocks(self) -> Iterator[tuple[int, list[pa.Array]]]:
        """The key columns of the location, block by block, with the number of the first row."""
        rows, most = self.finished.rows, self.plan.options.sizes.rows
        if self.plan.format != "parquet":
            opened = [open_column(self.fs, self.location, c, self.finished.sizes, rows) for c in self.columns]
            for first in range(0, rows, most):
                yield first, [column.read(first, min(first + most, rows)) for column in opened]
            return
        from sparkhaven.writers.merge.write.parquet_check import duckdb_reader, parquet_batches

        path, first = self.location / NAME, 0
        with duckdb_reader(self._wrong) as connection:
            for batch in parquet_batches(connection, path, self.names, most):
                columns = zip(batch.columns, self.columns, strict=True)
                yield first, [array.cast(column.type.arrow) for array, column in columns]
                first += batch.num_rows

    def _check_sidecar(self, keys: Sequence[pa.Array], sets: list[bytes] | None, indexed: _IndexedRows) -> None:
        from sparkhaven.writers.merge.write.parquet_check import duckdb_reader, parquet_batches

        path = self.location / sidecar_of(self.names)
        with duckdb_reader(self._wrong) as connection:
            batches = parquet_batches(connection, path, [*self.names, ROW_SET], self.plan.options.sizes.rows)
            table = pa.Table.from_batches(batches, batches.schema)
        other = table.column(ROW_SET).to_pylist()
        same = other == sets if sets is not None else self._decoded(other).same(indexed)
        if not same:
            raise self._wrong("the sidecar has other row sets", f"{len(keys[0])} sets", f"{len(other)} sets")
        for name, key, column in zip(self.names, keys, self.columns, strict=True):
            array = table.column(name).combine_chunks().cast(column.type.arrow)
            if not _equal(array, key, column):
                raise self._wrong("the sidecar has other keys", f"{len(key)} keys", "others")

    def _wrong(self, what: str, expected: object, found: object) -> ValidationFailedError:
        return ValidationFailedError(
            f"staged index: {what}",
            where=self.directory,
            expected=expected,
            found=found,
            hint="merge the date again. If the error comes back, the disk or memory is faulty",
            phase="check",
        )


def _ascend(words: Sequence[npt.NDArray[np.unsignedinteger]]) -> bool:
    """Whether each key, of one word a column, is behind the one before it."""
    less = np.zeros(max(len(words[0]) - 1, 0), np.bool_)
    for word in reversed(words):
        less = (word[:-1] < word[1:]) | ((word[:-1] == word[1:]) & less)
    return bool(less.all())


def _equal(one: pa.Array, other: pa.Array, column: Column) -> bool:
    """Whether values are equal, null and NaN to themselves, both zeros not to each other."""
    if len(one) != len(other):
        return False
    if column.storage is Storage.FIXED:
        left, right = (ordinals(encode_entries(array, column.type), column.type) for array in (one, other))
        return bool(np.array_equal(left, right))
    left, right = (array.cast(pa.large_string()) for array in (one, other))
    same = pc.all(pc.fill_null(pc.equal(left, right), True)).as_py()
    return same is not False and bool(np.array_equal(null_mask(left), null_mask(right)))
