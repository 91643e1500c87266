"""Reads rows of a staged location back, all columns together: the digest of rows that the merge record keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.digest.column_digest import add, add_symbol_hashes, digest_array, symbol_hashes
from sparkhaven.store.digest.row_hashes import digest_rows
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.digests import Hashes
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.write.finish import Finished, staged_source

CACHED_ROWS = 1 << 16  # whose columns are hashed one after the other while their hashes stay in the processor's cache


@frozen
class RowTask:
    """A task: rows ``[first, stop)`` of one finished destination."""

    plan: MergePlan
    finished: Finished
    first: int
    stop: int

    def size(self) -> int:
        """Bytes that are read."""
        return sum(self.finished.sizes.values()) * (self.stop - self.first) // max(self.finished.rows, 1)


@frozen
class RowsFound:
    """The digest of rows of a destination, and those of its columns of fixed width where column files were read."""

    destination: int
    digest: int
    columns: Mapping[str, int] = field(default_factory=dict)


def row_tasks(plan: MergePlan, finished: Finished, parts: int) -> Iterator[RowTask]:
    """The rows of a destination in about so many parts."""
    most = plan.options.sizes.rows
    step = -(-max(finished.rows, 1) // (parts * most)) * most
    for first in range(0, finished.rows, step):
        yield RowTask(plan, finished, first, min(first + step, finished.rows))


def check_rows(fs: Fs, task: RowTask) -> RowsFound:
    """Reads the rows back from column files."""
    plan, source = task.plan, staged_source(task.plan, task.finished)
    columns = [_Rows(ColumnSource(fs, source, column), column, Digests(plan.schema)) for column in plan.columns]
    digest, most = 0, plan.options.sizes.rows
    for first in range(task.first, task.stop, most):
        stop = min(first + most, task.stop)
        adding = [column.block(first, stop) for column in columns]
        hashes = np.zeros(stop - first, np.uint64)
        for low in range(0, stop - first, CACHED_ROWS):
            part = hashes[low : low + CACHED_ROWS]
            for add_to in adding:
                add_to(low, part)
        digest = add(digest, digest_rows(hashes))
    fixed = {c.column.name: c.digests.totals for c in columns if c.column.storage is Storage.FIXED}
    return RowsFound(task.finished.destination, digest, {name: of[name] for name, of in fixed.items() if name in of})


class _Rows:
    """One column, whose hashes are added to those of rows."""

    def __init__(self, source: ColumnSource, column: Column, digests: Digests) -> None:
        self.source, self.column, self.digests = source, column, digests
        self._symbols = source.symbols() if column.storage in (Storage.SYMBOL, Storage.SET) else None
        self._table = symbol_hashes(column, self._symbols) if column.storage is Storage.SYMBOL else None

    def block(self, first: int, stop: int) -> Callable[[int, Hashes], object]:
        """What adds the hashes of the rows from a number on, counted from ``first``."""
        if self.column.storage is Storage.BLOB:
            return partial(self._texts, self.source.blobs(first, stop))
        return partial(self._entries, self.source.entries(first, stop))

    def _texts(self, values: Any, low: int, hashes: Hashes) -> None:
        self.digests.encoded(self.column, values.slice(low, len(hashes)), f"column {self.column.name}", hashes)

    def _entries(self, entries: npt.NDArray[Any], low: int, hashes: Hashes) -> None:
        part = entries[low : low + len(hashes)]
        if self._table is not None:
            add_symbol_hashes(part, self._table, hashes)
        elif self.column.storage is Storage.SET:
            self.digests.sets(self.column, part, self._symbols, hashes)
        else:
            self.digests.fixed(self.column, part, hashes)


def check_parquet_rows(fs: Fs, task: RowTask) -> RowsFound:
    """Reads the rows back from ``table.parquet``."""
    from sparkhaven.writers.merge.write.parquet_check import row_batches  # only merges into Parquet need DuckDB

    plan, digest = task.plan, 0
    location = plan.destinations[task.finished.destination].stage(plan.table, plan.value)
    for batch in row_batches(location / NAME, plan.columns, (task.first, task.stop), plan.options.sizes.texts):
        hashes = np.zeros(len(batch), np.uint64)
        for column, array in zip(plan.columns, batch.columns, strict=True):
            digest_array(column, array.cast(column.type.arrow), hashes)
        digest = add(digest, digest_rows(hashes))
    return RowsFound(task.finished.destination, digest)
