"""Proves a staged index: its keys ascend, and each row of the location is once in it, with the key that it has.

The rows are those of the column files or, where there are none, of ``table.parquet`` as DuckDB reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.errors import CorruptFileError, ValidationFailedError
from sparkhaven.store.format.parquet.location_files import NAME, index_of, sidecar_of
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.rows import gathered
from sparkhaven.store.scan.column_file import open_column, read_column
from sparkhaven.store.scan.index_file import index_columns, is_contiguous
from sparkhaven.store.scan.row_owners import RowOwners
from sparkhaven.store.types.codings.row_ranges_codec import decode_rows, decode_sets
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, ranked_symbols
from sparkhaven.writers.merge.write.finish import Finished, staged_source
from sparkhaven.writers.merge.write.indexes import key_words

Positions = npt.NDArray[np.int64]
KEYS = 1 << 14  # that are looked at together
NO_ID = np.int32(-1)


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A task: the index over some columns of a finished location."""

    plan: MergePlan
    finished: Finished
    columns: tuple[str, ...]

    def size(self) -> int:
        """Bytes of rows that are read."""
        names = [name for column in self.plan.columns if column.name in self.columns for name in column.files]
        return sum(self.finished.sizes.get(name, 0) for name in names)


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
        """In memory are four bytes a row, some keys, and what a block of rows takes."""
        record, wanted = table_size.load(self.fs, self.directory), self.finished.indexes[self.names]
        if record is None or record.size != wanted:
            raise self._wrong("it has another number of keys", wanted, record and record.size)
        stored = index_columns(self.columns, contiguous=self.contiguous)
        arrays = [read_column(self.fs, self.directory, c, record.data_file_sizes, record.size) for c in stored]
        keys, values = arrays[: len(self.names)], arrays[len(self.names) :]
        owners = RowOwners(self.finished.rows)
        for first in range(0, record.size, KEYS):
            before = max(first - 1, 0)
            part = [key.slice(before, min(KEYS, record.size - first) + first - before) for key in keys]
            words = [word for array, column in zip(part, stored, strict=False) for word in key_words(array, column)]
            if not _ascend(words):
                raise self._wrong("its keys do not ascend", "each key behind the one before it", "others")
            wrong = owners.add(first, *self._ranges([value.slice(first, KEYS) for value in values]))
            if wrong is not None:
                raise self._wrong("not each row is in it once", f"{self.finished.rows} rows", f"others, range {wrong}")
        if (row := owners.missing()) is not None:
            raise self._wrong("not each row is in it once", f"{self.finished.rows} rows", f"no key of row {row}")
        for column, key in zip(self.columns, keys, strict=True):
            if not self._has_rows(column, key, owners):
                raise self._wrong(f"a row has another {column.name} than its key", "equal values", "others")
        if self.plan.format != "deephaven":
            self._check_sidecar(keys, values)

    def _ranges(self, values: Sequence[pa.Array]) -> tuple[Positions, Positions, Positions]:
        """First rows and ends of the ranges of some keys, and how many each key has."""
        if self.contiguous:
            starts, stops = (array.to_numpy(zero_copy_only=False) for array in values)
            return starts, stops, np.ones(len(starts), np.int64)
        try:
            ranges = decode_sets(values[0].to_pylist(), lambda _: self.directory, self.finished.rows)
        except CorruptFileError as error:
            raise self._wrong(error.what, error.expected, error.found) from error
        if not ranges[2].all():
            raise self._wrong("a key has no rows", "one or more", 0)
        return ranges

    def _has_rows(self, column: Column, key: pa.Array, owners: RowOwners) -> bool:
        """Whether each row has the value of its key."""
        if column.storage is Storage.SYMBOL and self.plan.format != "parquet":
            return self._has_symbols(column, key, owners)
        for first, array in self._blocks(column):
            if not _equal(array, key.take(pa.array(owners.of(first, first + len(array)))), column):
                return False
        return True

    def _has_symbols(self, column: Column, key: pa.Array, owners: RowOwners) -> bool:
        """Whether each row has the value of its key, by the ids that the rows of each key must have."""
        source = ColumnSource(self.fs, staged_source(self.plan, self.finished), column)
        symbols = source.symbols()
        union, (symbol_ranks, key_ranks) = ranked_symbols([symbols, key])
        by_rank = np.full(len(union) + 1, NO_ID, np.int32)
        present = np.flatnonzero(symbol_ranks[:-1] != INT_NULL)
        by_rank[symbol_ranks[present]] = present
        by_rank[-1] = INT_NULL
        ids = by_rank[np.where(key_ranks[:-1] == INT_NULL, len(union), key_ranks[:-1])]
        if (ids == NO_ID).any():  # a key that no row has
            return False
        return all(
            np.array_equal(source.entries(first, stop), gathered(ids, owners.of(first, stop)))
            for first, stop in source.source.blocks(self.plan.options.sizes.rows)
        )

    def _blocks(self, column: Column) -> Iterator[tuple[int, pa.Array]]:
        """A key column of the location, block by block, with the number of the first row."""
        rows, most = self.finished.rows, self.plan.options.sizes.rows
        if self.plan.format != "parquet":
            opened = open_column(self.fs, self.location, column, self.finished.sizes, rows)
            for first in range(0, rows, most):
                yield first, opened.read(first, min(first + most, rows))
            return
        from sparkhaven.writers.merge.write.parquet_check import column_batches, duckdb_reader

        path, first = self.location / NAME, 0
        with duckdb_reader(self._wrong) as connection:
            for batch in column_batches(connection, path, [column], most):
                yield first, batch.column(0).cast(column.type.arrow)
                first += batch.num_rows

    def _check_sidecar(self, keys: Sequence[pa.Array], values: Sequence[pa.Array]) -> None:
        from sparkhaven.writers.merge.write.parquet_check import column_batches, duckdb_reader

        path, first = self.location / sidecar_of(self.names), 0
        stored = index_columns(self.columns, contiguous=False)
        with duckdb_reader(self._wrong) as connection:
            for batch in column_batches(connection, path, stored, KEYS):
                own = [value.slice(first, len(batch)) for value in values]
                if len(own[0]) != len(batch) or not self._same_sets(batch.column(len(keys)), own):
                    raise self._wrong("the sidecar has other row sets", "those of the index", "others")
                for array, key, column in zip(batch.columns, keys, self.columns, strict=False):
                    if not _equal(array.cast(column.type.arrow), key.slice(first, len(batch)), column):
                        raise self._wrong("the sidecar has other keys", f"{len(key)} keys", "others")
                first += len(batch)
        if first != len(keys[0]):
            raise self._wrong("the sidecar has other row sets", f"{len(keys[0])} sets", f"{first} sets")

    def _same_sets(self, sets: pa.Array, own: Sequence[pa.Array]) -> bool:
        if sets.null_count:
            return False
        if not self.contiguous:
            return bool(sets.cast(pa.large_binary()).equals(own[0].cast(pa.large_binary())))
        try:
            ranges = [decode_rows(data, self.directory, self.finished.rows) for data in sets.to_pylist()]
        except CorruptFileError as error:
            raise self._wrong(error.what, error.expected, error.found) from error
        pairs = zip(own[0].to_pylist(), own[1].to_pylist(), strict=True)
        return [(starts.tolist(), stops.tolist()) for starts, stops in ranges] == [
            ([low], [high]) for low, high in pairs
        ]

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
    """Whether each key, of the words of its columns, is behind the one before it."""
    less = np.zeros(max(len(words[0]) - 1, 0), np.bool_)
    for word in reversed(words):
        less = (word[:-1] < word[1:]) | ((word[:-1] == word[1:]) & less)
    return bool(less.all())


def _equal(one: pa.Array, other: pa.Array, column: Column) -> bool:
    """Whether values are equal, null and NaN to themselves, both zeros not to each other."""
    if len(one) != len(other):
        return False
    if column.storage is Storage.FIXED:
        left, right = (key_words(array, column) for array in (one, other))
        return all(map(np.array_equal, left, right))
    left, right = (array.cast(pa.large_string()) for array in (one, other))
    same = pc.all(pc.fill_null(pc.equal(left, right), True)).as_py()
    return same is not False and bool(np.array_equal(np.asarray(left.is_null()), np.asarray(right.is_null())))
