"""Small tables from rows, and their comparison with data frames."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.epochs.state.log_values import FileId, Split
from sparkhaven.store.errors import SchemaMismatchError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.types.model import TableSchema
from sparkhaven.testing.commits import commit_splits, open_log
from sparkhaven.writers.task.decoding import SplitNotes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
DATE = "Date"
_TYPES = {
    pa.bool_(): "Boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "String",
    pa.large_string(): "String",
}


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
    """Adds rows to the table ``NS.T`` below a root, which it makes if needed. Returns the epoch that they are in.

    ``rows``: lists by column, one mapping a row, an Arrow table, or a data frame of Spark. A column ``Date`` says
    in which partition a row comes. Without it all come in ``date``. The types are those of the values, unless a
    ``schema`` (a ``.schema`` file or its bytes) says otherwise. A table that exists keeps its own. Columns that are
    left out are null. SchemaMismatchError: a column is not in the schema, or its values are not of its type.
    """
    whole = _arrow(rows)
    fs, layout, table = Fs(), Layout(local_path(root)), TableName.parse(name)
    fs.mkdirs(layout.root)
    is_deployed = fs.stat(layout.schema(table)) is not None
    definition = schema if schema is not None or is_deployed else _definition(table, whole.schema).encode()
    if definition is None:
        definition = fs.read(layout.schema(table))
    deployed = deploy(fs, layout, local_path(definition) if isinstance(definition, str | Path) else definition)
    parts = [(LocationKey(source, value), part) for value, part in _by_date(whole, deployed, date)]
    split = FileId(f"/{uuid.uuid4()}", 1, time.time_ns())

    def decode(split: Split, notes: SplitNotes) -> Iterator[tuple[LocationKey, pa.RecordBatch]]:
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


def _arrow(rows: Rows | pa.Table | DataFrame) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, Mapping):
        return pa.table({name: pa.array(values) for name, values in rows.items()})
    if isinstance(rows, Sequence):
        return pa.Table.from_pylist([dict(row) for row in rows])
    return rows.toArrow()


def _definition(table: TableName, fields: Iterable[pa.Field]) -> str:
    columns = [f'<Column name="{DATE}" dataType="String" columnType="Partitioning"/>']
    for field in fields:
        if field.name != DATE:
            spelled = "Instant" if pa.types.is_timestamp(field.type) else _TYPES.get(field.type)
            if spelled is None:
                raise SchemaMismatchError(
                    "no column type for these values",
                    where=f"column {field.name}",
                    expected=", ".join(str(kind) for kind in _TYPES),
                    found=str(field.type),
                    hint="cast them, or give a schema",
                )
            columns.append(f"<Column name={quoteattr(field.name)} dataType={quoteattr(spelled)}/>")
    opened = f'<Table namespace="{table.namespace}" name="{table.table}" storageType="NestedPartitionedOnDisk">'
    return "\n".join([opened, '<Partitions keyFormula="${autobalance_single}"/>', *columns, "</Table>"])


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
        arrays = []
        for column in schema.stored:
            array = rows.column(column.name) if column.name in rows.column_names else pa.nulls(rows.num_rows)
            try:
                arrays.append(array.cast(column.type.arrow))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaMismatchError(
                    "values are not of the type of their column",
                    where=f"column {column.name}",
                    expected=column.type.name,
                    found=str(error),
                ) from None
        yield value, pa.table(arrays, names=[column.name for column in schema.stored])
