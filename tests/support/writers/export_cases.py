"""A table of every type with a merged and an intraday date, and its exported trees as pyarrow and DuckDB read them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.writers.transfer.export import Exported, export_path, export_tree, planned_export
from sparkhaven.writers.transfer.export_plan import ExportOptions
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import ARROW, DAY, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, make, merge

NEXT = "2024-03-06"
NOW = 1_700_000_000_000
Row = tuple[Any, ...]


def two_days(root: Path, number: int = 60) -> tuple[IntradayRows, list[tuple[str, dict[str, Any]]]]:
    """A date in history with late rows intraday, another one intraday; the rows with their dates."""
    db, rows = make(root, number)
    merge(db.layout)
    rng = random.Random(9)
    late, after = ([random_row(rng) for _ in range(number // 4)] for _ in range(2))
    db.commit({("a", DAY): as_table(late), ("new", NEXT): as_table(after)})
    return db, [*((DAY, row) for row in (*rows, *late)), *((NEXT, row) for row in after)]


def export(
    root: Path, out: Path, *, fs: Fs = FS, replace: bool = False, dry_run: bool = False, **options: Any
) -> Exported:
    """Exports the table of these tests."""
    table = pinned_of(open_table(root, str(TABLE), fs=fs))
    target = export_path(fs, Layout(root), out)
    if dry_run:
        return planned_export(table, target, ExportOptions(**options), replace_other=replace)
    return export_tree(table, target, ExportOptions(**options), now_ms=NOW, replace_other=replace)


def wanted(rows: list[tuple[str, dict[str, Any]]]) -> list[Row]:
    """Rows as values that can be compared, in an order of their own."""
    return sorted(((day, *(comparable(row[name]) for name in ARROW)) for day, row in rows), key=repr)


def found(table: pa.Table) -> list[Row]:
    """The same of what a reader returns."""
    columns = []
    for name in ("Date", *ARROW):
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        columns.append([comparable(value) for value in column.to_pylist()])
    return sorted(zip(*columns, strict=True), key=repr)


def by_pyarrow(root: Path, layout: str) -> pa.Table:
    """The whole tree by pyarrow's datasets."""
    if layout == "metadata":
        return ds.parquet_dataset(root / "_metadata", partitioning=hive()).to_table()
    if layout == "nested":
        nested = ds.partitioning(pa.schema([("internal", pa.string()), ("Date", pa.string())]))
        return ds.dataset(root, format="parquet", partitioning=nested).to_table()
    if layout == "flat":
        return pq.read_table(root)
    return ds.dataset(root, format="parquet", partitioning=hive()).to_table()


def hive() -> ds.Partitioning:
    return ds.partitioning(pa.schema([("Date", pa.string())]), flavor="hive")


def by_duckdb(root: Path, layout: str) -> pa.Table:
    """The whole tree by DuckDB."""
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        if layout == "flat":
            return connection.sql(f"select * from read_parquet('{root}/*.parquet')").to_arrow_table()
        if layout == "nested":
            source = f"read_parquet('{root}/*/*/*/table.parquet', filename=true)"
            return connection.sql(f"select *, split_part(filename, '/', -3) as Date from {source}").to_arrow_table()
        types = "hive_partitioning=true, hive_types={'Date': varchar}"
        return connection.sql(f"select * from read_parquet('{root}/*/*.parquet', {types})").to_arrow_table()


def files(root: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def schema_of(data: bytes) -> Any:
    """The definition of a schema file."""
    return parse_schema(data, "").schema
