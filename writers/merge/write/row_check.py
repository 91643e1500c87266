"""Reads rows of a staged location back, all columns together: the digest of rows that the merge record keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from sparkhaven.store.digest.column_digest import add, digest_array
from sparkhaven.store.digest.row_hashes import digest_rows
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.merge_proof import Digests, HashedColumn, digest_block
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.write.finish import Finished, staged_source


@dataclass(frozen=True, slots=True)
class RowTask:
    """A task: rows ``[first, stop)`` of one finished destination."""

    plan: MergePlan
    finished: Finished
    first: int
    stop: int

    def size(self) -> int:
        """Bytes that are read."""
        return sum(self.finished.sizes.values()) * (self.stop - self.first) // max(self.finished.rows, 1)


@dataclass(frozen=True, slots=True)
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
    digests = Digests(plan.schema)
    columns = [
        HashedColumn(ColumnSource(fs, source, column), column, digests, counted=False) for column in plan.columns
    ]
    digest, most = 0, plan.options.sizes.rows
    for first in range(task.first, task.stop, most):
        digest = add(digest, digest_block(columns, first, min(first + most, task.stop)))
    fixed = {column.name for column in plan.columns if column.storage is Storage.FIXED} & digests.totals.keys()
    return RowsFound(task.finished.destination, digest, {name: digests.totals[name] for name in fixed})


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
