"""Tables whose chars, and arrays of them, have the null of Deephaven from before November 2021, in each form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.store.layout import TableName
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

DAY, OLD, NAME = "2024-03-05", 0xFFFE, "Test.Chars"
SCHEMA = (
    b'<Table namespace="Test" name="Chars" storageType="NestedPartitionedOnDisk">'
    b'<Partitions keyFormula="${autobalance_single}"/>'
    b'<Column name="Date" dataType="String" columnType="Partitioning"/>'
    b'<Column name="C" dataType="char"/><Column name="Cs" dataType="char[]"/><Column name="N" dataType="long"/>'
    b'<DataIndex columns="C"/>'
    b'<Validator><assertFracNull column="C" min="0.5" max="0.5"/>'
    b'<assertAllValuesInArrayInDistinctSet column="Cs" expectedValues="A" removeNull="true"/></Validator></Table>'
)
FORMS = ("intraday", "deephaven", "parquet")
COUNT = 40
Rows = list[tuple[Any, Any]]


def rows_with(null: int | None) -> Rows:
    """C and Cs, with ``null`` where old files have 0xFFFE."""
    return [(65, [65, null]), (null, []), (66, None), (null, [null])] * (COUNT // 4)


def table_in(root: Path, form: str, rows: Rows) -> IntradayRows:
    """The rows intraday, or also in history in a format."""
    db = IntradayRows(root, SCHEMA, fs=FS, statistics=True)
    chars, arrays = zip(*rows, strict=True)
    columns = {"C": pa.array(chars, pa.uint16()), "Cs": pa.array(arrays, pa.list_(pa.uint16())), "N": range(len(rows))}
    db.commit({("a", DAY): pa.table(columns)})
    add_partition(FS, db.layout, "Test", "0")
    if form != "intraday":
        merge(db.layout, table=TableName.parse(NAME), format=form)
    return db


def shown(table: pa.Table) -> Rows:
    return list(zip(table["C"].to_pylist(), table["Cs"].to_pylist(), strict=True))
