"""Slices of a plan as Spark tasks of similar size, and what a task does.

A task costs the bytes of the columns that it reads, and for each file that it opens as much as reading so many bytes
costs. So thousands of small locations share a task, and a large one is divided by rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.spark.error_messages import message_first
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.source_api import InputPartition
from sparkhaven.readers.spark.spark_types import spark_batch
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column

OPEN_BYTES = 64 << 10
LEAST_BYTES = 4 << 20  # a task costs Spark some milliseconds
SPREAD = 32  # tasks that a read of middling size is divided into: a planner does not know the cores


@dataclass
class ReadTask(InputPartition):  # type: ignore[misc]
    """Slices, with the part of the table's snapshot that they are of."""

    table: PinnedTable
    slices: tuple[Slice, ...]


def make_tasks(table: PinnedTable, slices: Sequence[Slice], columns: Sequence[Column], most: int) -> list[ReadTask]:
    """Tasks of at most ``most`` bytes, in the order of the slices; ``columns``: all that they read."""
    total = sum(_cost(slice_, columns) for slice_ in slices)
    target = max(min(most, total // SPREAD), min(most, LEAST_BYTES))
    groups: list[list[Slice]] = []
    room = 0
    for slice_ in slices:
        for piece in _divided(slice_, columns, target):
            cost = _cost(piece, columns)
            if not groups or cost > room:
                groups.append([])
                room = target
            groups[-1].append(_lightened(piece, columns))
            room -= cost
    return [ReadTask(table.narrowed(group), tuple(group)) for group in groups]


def read_task(
    task: InputPartition, columns: Sequence[Column], where: Predicate | None, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """The rows of a task, as Spark takes them; none of another partition, as Spark makes one of an empty plan."""
    if isinstance(task, ReadTask):
        names = [column.name for column in columns]
        with message_first():
            for batch in task.table.read(task.slices, names, where=where):
                yield spark_batch(batch, columns, options)


def _cost(slice_: Slice, columns: Sequence[Column]) -> int:
    names = [name for column in columns for name in slice_.placed(column).files]
    size = sum(slice_.files[name].size for name in names if name in slice_.files)
    if in_parquet(slice_.files):  # the part of these columns is not known before the file is opened
        size = slice_.files[NAME].size * len(columns) // max(len(slice_.stats), len(columns), 1)
    return size * slice_.count // max(1, slice_.rows) + OPEN_BYTES * len(names)


def _divided(slice_: Slice, columns: Sequence[Column], target: int) -> Iterator[Slice]:
    rows = slice_.count
    parts = min(rows, -(-_cost(slice_, columns) // target))
    if slice_.selected is not None:
        for chosen in slice_.selected.steps(-(-rows // parts)):
            yield replace(slice_, start=chosen.start, stop=chosen.stop, selected=chosen)
        return
    for index in range(parts):
        start, stop = slice_.start + rows * index // parts, slice_.start + rows * (index + 1) // parts
        yield replace(slice_, start=start, stop=stop)


def _lightened(slice_: Slice, columns: Sequence[Column]) -> Slice:
    names = (name for column in columns for name in slice_.placed(column).files)
    files = {name: slice_.files[name] for name in names if name in slice_.files}
    if in_parquet(slice_.files):
        files = {NAME: slice_.files[NAME]}
    stats: dict[str, tuple[RangeStats, ...]] = {}
    for column in columns:
        nulls = slice_.has_nulls(column.name)
        if nulls is not None:
            stats[column.name] = (RangeStats(slice_.start, slice_.stop, int(nulls)),)
    return replace(slice_, files=files, stats=stats, indexes={})
