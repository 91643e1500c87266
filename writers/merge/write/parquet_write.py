"""Writes ``table.parquet`` of a staged location from its column files, which have the order and the groups already.

Row group by row group: in memory are the symbol tables of the location and the columns of one row group, and of those
only what is not mapped. Row groups do not depend on memory or workers, so that the same rows give the same bytes. For
``parquet`` the column files are removed at the end; indexes were written before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import MergeError
from sparkhaven.store.format.parquet.fields import compacted, file_schema
from sparkhaven.store.format.parquet.footer import Footer
from sparkhaven.store.format.parquet.location_files import NAME, sidecar_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.column_file import OVR, ColumnFile, open_column, read_grouping
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.write.finish import Finished, sort_directions
from sparkhaven.writers.merge.write.parquet_sink import DEFAULT_CODEC, FileSink, parquet_writer
from sparkhaven.writers.merge.write.staging import early_sync

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
    fs.write_new(location / NAME, b"")
    with FileSink(fs, location / NAME, block.piece) as sink, parquet_writer(sink, schema, codec, coded) as writer:
        for first, stop in row_groups(finished.rows, starts, most):
            arrays = [_values(column, opened, first, stop) for column, opened in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=stop - first)
    with early_sync(fs, plan) as syncs:
        syncs.written(location / NAME, sink.size)
    sizes = dict(finished.sizes)
    if plan.format == "parquet":
        del columns
        _remove_columns(fs, location, finished, plan.columns)
        sizes = {}
    sizes[NAME] = sink.size
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
