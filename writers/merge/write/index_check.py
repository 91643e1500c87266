"""Proves a staged index by the check of ``verify``, with the rows as the readers of a merge have them.

The rows are those of the column files or, where there are none, of ``table.parquet`` as DuckDB reads it; so is the
file that Deephaven's Parquet reader takes. Symbols are compared by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.readers.checks.findings import Finding
from sparkhaven.readers.checks.index_rows import KEYS, Blocks, Index, index_findings, open_index, sidecar_findings
from sparkhaven.store.errors import CorruptFileError, ValidationFailedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, index_of, sidecar_of
from sparkhaven.store.scan.column_file import open_column
from sparkhaven.store.scan.index_file import index_columns, is_contiguous
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, ranked_symbols
from sparkhaven.writers.merge.write.finish import Finished, staged_source
from sparkhaven.writers.merge.write.indexes import key_words

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

    def run(self) -> None:
        """In memory are four bytes a row, the index, and what a block of rows takes."""
        try:
            contiguous = is_contiguous(self.names, self.finished.grouped)
            index = open_index(self.fs, self.directory, self.columns, self.names, contiguous=contiguous)
            if len(index) != self.finished.indexes[self.names]:
                keys = self.finished.indexes[self.names]
                raise self._wrong("it has another number of keys", f"{keys} keys", f"{len(index)} keys")
            self._require(index_findings(index, self.finished.rows, self._rows, _first_disorder))
            if self.plan.format != "deephaven":
                self._require(sidecar_findings(self._sidecar(index), index, self.finished.rows))
        except CorruptFileError as error:
            raise self._wrong(error.what, error.expected, error.found) from error

    def _require(self, findings: Iterator[Finding]) -> None:
        for defect in findings:
            raise self._wrong(defect.what, defect.expected, f"{defect.found}, {defect.at}")

    def _rows(self, number: int, keys: pa.Array) -> tuple[pa.Array, Blocks]:
        column = self.columns[number]
        if column.storage is Storage.SYMBOL and self.plan.format != "parquet":
            return self._symbols(column, keys)
        return keys, self._blocks(column)

    def _symbols(self, column: Column, keys: pa.Array) -> tuple[pa.Array, Blocks]:
        """The ids that the rows of each key must have, and those that they have."""
        source = ColumnSource(self.fs, staged_source(self.plan, self.finished), column)
        symbols = source.symbols()
        union, (symbol_ranks, key_ranks) = ranked_symbols([symbols, keys])
        by_rank = np.full(len(union) + 1, NO_ID, np.int32)
        present = np.flatnonzero(symbol_ranks[:-1] != INT_NULL)
        by_rank[symbol_ranks[present]] = present
        by_rank[-1] = INT_NULL
        ids = by_rank[np.where(key_ranks[:-1] == INT_NULL, len(union), key_ranks[:-1])]  # NO_ID: no row has the key
        blocks = source.source.blocks(self.plan.options.sizes.rows)
        return pa.array(ids), ((first, pa.array(source.entries(first, stop))) for first, stop in blocks)

    def _blocks(self, column: Column) -> Iterator[tuple[int, pa.Array]]:
        """A key column of the location, block by block, with the number of the first row."""
        rows, most = self.finished.rows, self.plan.options.sizes.rows
        if self.plan.format != "parquet":
            opened = open_column(self.fs, self.location, column, self.finished.sizes, rows)
            for first in range(0, rows, most):
                array = opened.read(first, min(first + most, rows))
                yield first, array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
            return
        first = 0
        for batch in self._batches(self.location / PARQUET, [column], most):
            yield first, batch.column(0).cast(column.type.arrow)
            first += batch.num_rows

    def _sidecar(self, index: Index) -> Index:
        path, stored = self.location / sidecar_of(self.names), index_columns(self.columns, contiguous=False)
        batches = list(self._batches(path, stored, KEYS))
        kinds = (*(key.type for key in index.keys), pa.large_binary())
        arrays = [
            pa.concat_arrays([batch.column(number).cast(kind) for batch in batches]) if batches else pa.array([], kind)
            for number, kind in enumerate(kinds)
        ]
        return Index(path, index.columns, tuple(arrays[:-1]), (arrays[-1],))

    def _batches(self, path: Path, columns: Sequence[Column], most: int) -> Iterator[pa.RecordBatch]:
        """What DuckDB reads of a Parquet file."""
        from sparkhaven.writers.merge.write.parquet_check import column_batches, duckdb_reader

        with duckdb_reader(self._wrong) as connection:
            yield from column_batches(connection, path, columns, most)

    def _wrong(self, what: str, expected: object, found: object) -> ValidationFailedError:
        return ValidationFailedError(
            f"staged index: {what}",
            where=self.directory,
            expected=expected,
            found=found,
            hint="merge the date again. If the error comes back, the disk or memory is faulty",
            phase="check",
        )


def _first_disorder(index: Index, first: int, stop: int) -> int | None:
    """The same by words that are ordered as the keys are, all of a column at once."""
    begin = max(first - 1, 0)
    words = [
        word
        for key, column in zip(index.keys, index.columns, strict=True)
        for word in key_words(key.slice(begin, stop - begin), column)
    ]
    less: npt.NDArray[np.bool_] = np.zeros(max(len(words[0]) - 1, 0), np.bool_)
    for word in reversed(words):
        less = (word[:-1] < word[1:]) | ((word[:-1] == word[1:]) & less)
    return None if less.all() else begin + 1 + int(np.argmin(less))
