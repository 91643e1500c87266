"""A batch query: one snapshot, planned once, read by as many tasks as its bytes ask for.

Spark plans in one Python process, and reads in others. What a task needs goes with it, so that it reads the same
snapshot however late it runs, also when the epochs of that snapshot are no longer kept.

Filters of a query are Spark's alone. Spark 4.0 to 4.2 plan a frame once and use that plan for all of its queries, so a
reader that took the filters of one query (``pushFilters``) would hide rows from the next.

Stream readers as PySpark 4.0 and 4.1 call them: without the start of a batch, limits, or the trigger.

Those releases ask ``latestOffset()`` for an end, and take everything up to it as one batch.

Slices of a plan as Spark tasks of similar size, and what a task does.

A task costs the bytes of the columns that it reads, and for each file that it opens as much as reading so many bytes
costs. So thousands of small locations share a task, and a large one is divided by rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.releases import message_first
from sparkhaven.readers.spark.source_api import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from sparkhaven.readers.spark.spark_types import require_exact, spark_batch
from sparkhaven.store.expressions.predicate.expression import Predicate, parse_predicate
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.scan.selection import refuse_case_twins
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, TableSchema

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
        size = slice_.files[PARQUET].size * len(columns) // max(len(slice_.stats), len(columns), 1)
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
        files = {PARQUET: slice_.files[PARQUET]}
    stats: dict[str, tuple[RangeStats, ...]] = {}
    for column in columns:
        nulls = slice_.has_nulls(column.name)
        if nulls is not None:
            stats[column.name] = (RangeStats(slice_.start, slice_.stop, int(nulls)),)
    return replace(slice_, files=files, stats=stats, indexes={})


def where_of(options: ReadOptions, schema: TableSchema) -> Predicate | None:
    """The option ``where``; SchemaParseError if it is not an expression over the columns."""
    return parse_predicate(options.where, schema.readable) if options.where else None


def shown_columns(table: PinnedTable, options: ReadOptions) -> tuple[Column, ...]:
    """The columns of a data frame. SchemaMismatchError: no such column, or two that Spark takes for one."""
    columns = table.columns(options.columns)
    refuse_case_twins(table.name, columns, "Spark", 'choose others by .option("columns", "A,B")')
    return columns


def read_columns(schema: TableSchema, shown: Iterable[Column], where: Predicate | None) -> list[Column]:
    """The columns that a task opens: those that it returns, and those that the expression compares."""
    names = {column.name for column in shown} | {*(where.columns if where else ())}
    return [column for column in schema.readable.columns if column.name in names]


class SnapshotReader(DataSourceReader):  # type: ignore[misc]
    """Reads one snapshot. Its table stays where it plans; workers get the tasks."""

    def __init__(self, table: PinnedTable, options: ReadOptions) -> None:
        self._table: PinnedTable | None = table
        self._options = options
        self._columns = shown_columns(table, options)
        self._where = where_of(options, table.schema)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_table": None}

    @message_first()
    def partitions(self) -> list[ReadTask]:
        table, options = self._table, self._options
        assert table is not None  # noqa: S101 a planner has it
        plan = table.plan(dates=options.dates, sources=options.sources, where=self._where, tier=options.tier)
        require_exact(plan.slices, self._columns, options)
        opened = read_columns(table.schema, self._columns, self._where)
        return make_tasks(table, plan.slices, opened, options.task_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._columns, self._where, self._options)


Offset = dict[str, Any]


def planned_source(kind: type[DataSource], *, once: bool) -> type[DataSource]:
    """The source class of one stream, whose reader keeps to its own limits; ``once``: up to what is there now."""

    class PlannedSource(kind):  # type: ignore[misc]
        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return PlannedBatches(super().streamReader(schema), once=once)

    return PlannedSource


class _Adapted(DataSourceStreamReader):  # type: ignore[misc]
    """A reader whose other calls are those of ``reader``."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def initialOffset(self) -> Offset:
        return self._reader.initialOffset()  # type: ignore[no-any-return]

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self._reader.partitions(start, end)  # type: ignore[no-any-return]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)  # type: ignore[no-any-return]

    def commit(self, end: Offset) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


class PlannedBatches(_Adapted):
    """Batch after batch by the limits of the reader. It begins anew with each query, since a start renews
    the checkpoint: the end of the last batch is the start of the next."""

    def __init__(self, reader: Any, *, once: bool) -> None:
        super().__init__(reader)
        self._once = once
        self._end: Offset | None = None

    def __getstate__(self) -> Offset:
        return {"_reader": self._reader}

    def latestOffset(self) -> Offset:
        """The end of the next batch; the last one when nothing is new."""
        if self._end is None:
            self._end = self._reader.initialOffset()
            if self._once:
                self._reader.prepareForTriggerAvailableNow()
        self._end = self._reader.latestOffset(self._end, self._reader.getDefaultReadLimit())
        return self._end


class WholeBatches(_Adapted):
    """All that is there is one batch: where the query has a checkpoint, nobody knows the start of a batch."""

    def latestOffset(self) -> Offset:
        return self._reader.reportLatestOffset()  # type: ignore[no-any-return]
