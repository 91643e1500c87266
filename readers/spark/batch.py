"""A batch query: one snapshot, planned once, read by as many tasks as its bytes ask for.

Spark plans in one Python process, and reads in others. What a task needs goes with it, so that it reads the same
snapshot however late it runs, also when the epochs of that snapshot are no longer kept.

Filters of a query are Spark's alone. Spark 4.0 to 4.2 plan a frame once and use that plan for all of its queries, so a
reader that took the filters of one query (``pushFilters``) would hide rows from the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.spark.error_messages import message_first
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.slice_tasks import ReadTask, make_tasks, read_task
from sparkhaven.readers.spark.source_api import DataSourceReader, InputPartition
from sparkhaven.readers.spark.spark_types import require_exact
from sparkhaven.store.expressions.predicate.expression import Predicate, parse_predicate
from sparkhaven.store.scan.case_twins import refuse_case_twins
from sparkhaven.store.types.model import Column, TableSchema


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
