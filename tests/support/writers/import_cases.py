"""Imports of trees into the table of every type, and small trees that others write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.readers import open_table
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.date_plan import merged_schema
from sparkhaven.writers.transfer.date_import import DateImports, ImportOptions
from sparkhaven.writers.transfer.trees import TreeRows, find_tree
from tests.support.writers.merge_cases import SCHEMA
from tests.support.writers.merge_runs import FS

NOW_S = 1_700_000_000.0
SMALL = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="X" dataType="%s"/></Table>"""


def empty(root: Path, schema: bytes = SCHEMA) -> Layout:
    """A root with one table and nothing in it."""
    layout = Layout(root)
    FS.mkdirs(root)
    deploy(FS, layout, schema)
    return layout


def small(root: Path, kind: str = "int") -> Layout:
    """The same of ``NS.T``, with a column ``X`` of a type."""
    return empty(root, SMALL % kind.encode())


def bring(
    layout: Layout,
    tree: Path,
    *,
    table: str = "NS.T",
    fs: Fs = FS,
    tree_layout: str = "auto",
    raw_values: bool = False,
    dry_run: bool = False,
    dates: tuple[str, ...] | None = None,
    conversions: AllowedConversions = STRICT,
    **options: Any,
) -> list[DateResult]:
    """Imports a tree; raises the error of a date."""
    schema = merged_schema(TablePlace(fs, layout, TableName.parse(table)))
    found = find_tree(fs, tree, schema, tree_layout, raw_values=raw_values)
    rows = TreeRows(fs, schema, found, dates, conversions)
    chosen = ImportOptions(**options)
    place = TablePlace(fs, layout, TableName(schema.namespace, schema.name))
    imports = DateImports(place, schema, chosen, LocalExecutor(), lambda: NOW_S)
    results = list(imports.planned(rows) if dry_run else imports.locked(rows))
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def write(path: Path, x: Any, sym: list[str | None] | None = None, **columns: Any) -> Path:
    """A file with a column ``X`` (an Arrow array, or values), and ``Sym``."""
    values = x if isinstance(x, pa.Array | pa.ChunkedArray) else pa.array(x)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"Sym": sym or ["a"] * len(values), "X": values, **columns}), path)
    return path


def values(layout: Layout, name: str = "X") -> list[Any]:
    """A column of ``NS.T``."""
    column = open_table(layout.root, "NS.T").to_arrow([name])[name]
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()  # type: ignore[no-any-return]
