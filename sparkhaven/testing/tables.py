"""Small tables from rows, batches of splits that this process commits, and comparison with data frames."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.epochs.generation import Opening
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import FileId, Split
from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace, writable_layout
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.batch.task import Task, TaskResult, run_task
from sparkhaven.writers.task import Decode, SplitNotes, StreamTarget
from sparkhaven.writers.users.arrow_columns import IncomingRows, arrow_stream, columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
DATE = "Date"


def make_table(
    root: str | Path,
    name: str,
    rows: Rows | pa.Table | DataFrame,
    *,
    schema: str | Path | bytes | None = None,
    date: str = "2026-01-01",
    source: str = "0",
    stream: str = "test",
) -> int:
    """Adds rows to the table ``NS.T`` below a root, which it makes if needed.

    Args:
        root: The root of a database.
        name: The table, as ``NS.T``.
        rows: Lists by column, one mapping a row, or all that ``save_table`` takes. A column ``Date`` names the
            partition of each row.
        schema: A ``.schema`` file or its bytes. Default: the types of the values. A table that exists keeps its own.
        date: The partition of rows without a column ``Date``.
        source: The internal partition of the rows.
        stream: The stream that commits them.

    Returns:
        The epoch that has the rows. Columns that are left out are null in it.

    Raises:
        SchemaMismatchError: A column is not in the schema, or does not hold a value exactly.

    Example:
        >>> make_table(tmp_path, "Equity.Trade", {"Sym": ["IBM"], "Price": [307.25]}, date="2026-11-20")
        1
    """
    if isinstance(rows, Mapping):
        rows = pa.table({column: pa.array(values) for column, values in rows.items()})
    elif isinstance(rows, Sequence):
        rows = pa.Table.from_pylist([dict(row) for row in rows])
    whole = arrow_stream(rows).read_all()
    fs, layout, table = Fs(), writable_layout(local_path(root)), TableName.parse(name)
    fs.mkdirs(layout.root)
    is_deployed = fs.stat(layout.schema(table)) is not None
    definition = schema if schema is not None or is_deployed else _definition(table, whole.schema).encode()
    if definition is None:
        definition = fs.read(layout.schema(table))
    deployed = deploy(fs, layout, local_path(definition) if isinstance(definition, str | Path) else definition)
    parts = [(LocationKey(source, value), part) for value, part in _by_date(whole, deployed, date)]
    split = FileId(f"/{uuid.uuid4()}", 1, time.time_ns())

    def decode(split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
        notes.source.count(whole.num_rows)
        for key, part in parts:
            for batch in part.combine_chunks().to_batches():
                yield key, batch

    with open_log(fs, layout, deployed, stream) as log:
        return commit_splits(fs, layout, log, deployed, [split], decode).epoch or log.state.epoch


def assert_table_equal(
    spark: SparkSession,
    root: str | Path,
    name: str,
    expected: DataFrame,
    *,
    ignore_row_order: bool = True,
    **options: Any,
) -> None:
    """Fails with the differing rows unless the table ``NS.T`` has the rows of a data frame, whatever their order.

    The columns are those of ``expected``, in any order. ``options`` are those of ``read_frame``. Nullability and
    metadata of columns are not compared, and NaN equals NaN. AssertionError of chispa: rows or schema differ.
    """
    try:
        from chispa import assert_df_equality
    except ImportError:
        raise SettingsError("chispa is not installed", hint="pip install chispa") from None
    from sparkhaven.jobs.dataframes.frames import read_frame

    frame = read_frame(spark, root, name, **{"columns": expected.columns, **options})
    assert_df_equality(
        frame,
        expected,
        ignore_nullable=True,
        ignore_metadata=True,
        ignore_column_order=True,
        ignore_row_order=ignore_row_order,
        allow_nan_equality=True,
    )


def _definition(table: TableName, fields: pa.Schema) -> str:
    """A schema file with the column types of user tables, which hold the values exactly."""
    shown = [f'<Column name="{DATE}" dataType="String" columnType="Partitioning"/>']
    stored = pa.schema([field for field in fields if field.name != DATE])
    for column in columns_of(stored, None):
        attributes = {"name": column.name, "dataType": column.type.name, "objectCodec": column.codec}
        attributes["objectCodecArguments"] = column.codec_args
        words = "".join(f" {name}={quoteattr(text)}" for name, text in attributes.items() if text is not None)
        shown.append(f"<Column{words}/>")
    opened = f'<Table namespace="{table.namespace}" name="{table.table}" storageType="NestedPartitionedOnDisk">'
    return "\n".join([opened, '<Partitions keyFormula="${autobalance_single}"/>', *shown, "</Table>"])


def _by_date(whole: pa.Table, schema: TableSchema, date: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each date, with all stored columns, as their types."""
    partitioning = schema.partitioning.name if schema.partitioning else DATE
    strange = sorted(set(whole.column_names) - {column.name for column in schema.stored} - {partitioning})
    if strange:
        columns = ", ".join(column.name for column in schema.stored)
        raise SchemaMismatchError(f"{schema.full_name} has no such column", expected=columns, found=", ".join(strange))
    dates = whole.column(partitioning) if partitioning in whole.column_names else pa.repeat(date, whole.num_rows)
    for value in sorted(pc.unique(dates).to_pylist()):
        rows = whole.filter(pc.equal(dates, value))
        missing = [column for column in schema.stored if column.name not in rows.column_names]
        for column in missing:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type.arrow))
        yield (
            value,
            pa.Table.from_batches(IncomingRows(rows.combine_chunks().to_reader(), schema.stored, schema.full_name)),
        )


def open_log(fs: Fs, layout: Layout, schema: TableSchema, stream: str) -> StreamLog:
    """The log of a stream of this table, held by this process."""
    table = TableName(schema.namespace, schema.name)
    return StreamLog.open(StreamPlace(fs, layout, table, stream), Opening(schema, "test", time.time))


def commit_splits(
    fs: Fs, layout: Layout, log: StreamLog, schema: TableSchema, splits: Sequence[Split], decode: Decode
) -> BatchOutcome:
    """One batch by one task. Nothing is synced."""
    table, state = TableName(schema.namespace, schema.name), log.state
    target = StreamTarget(layout, table, state.stream, schema, state.generation, CommitPolicy("none"))

    def execute(scratch: str, instead: Mapping[Split, Split | None]) -> list[TaskResult]:
        task = Task(0, 0, scratch, splits, alone=True, instead=instead)
        return [run_task(fs, WorkerCache(), target, decode, task)]

    request = BatchRequest(execute, query_id="test", batch_id=0, proposed=splits)
    return write_batch(fs, log, target, WorkerCache(), request)
