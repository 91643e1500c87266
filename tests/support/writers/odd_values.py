"""A table whose partition values try the readers of its exported trees, and those readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.format.parquet.trees import TreeLayout
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.testing import make_table
from sparkhaven.writers.transfer.export import export_path, export_tree
from sparkhaven.writers.transfer.export_plan import ExportOptions

ODD = (
    "2026-11-20", "2026-11-20 07", "a%b", "100%", "a%2", "a b", "ü",
    "u\u0308", "日本", "😀", "a.b", "it's", 'a"b', "a#b", "[x]", "a[b]", "{x}", "a+b", "a&b", "a,b", "a;b", "~", "$a",
    "a|b", "<a>",
    "(a)", "!a", "^a", "@a", "`a", "null", "NULL", "nan", "true", "007", "1e5", "-1", "a\u00a0b", "Date",
)  # fmt: skip
"""Values that every layout takes."""
HOSTILE = (
    "a=b", "=", "a=", "=a", "a=b=c", "x?", "*", "a*b", "**", "2024%2D03", "%41", "__HIVE_DEFAULT_PARTITION__", "_a=b",
    "_x", "x.parquet", " a", "a ", "a:b", "2026-11-20 07:00", "2026-11-20T07:00:00Z",
)  # fmt: skip
"""Values that some layout refuses."""

Pairs = list[tuple[str, str]]


def make(root: Path, values: Sequence[str]) -> Path:
    """A database with a row for each value, which has it as a text too."""
    make_table(root, "N.T", {"Date": list(values), "X": list(values)})
    return root


def export(root: Path, out: Path, layout: TreeLayout) -> Path:
    """The tree of that table."""
    table = pinned_of(open_table(root, "N.T"))
    export_tree(table, export_path(Fs(), Layout(root), out), ExportOptions(layout), now_ms=1_700_000_000_000)
    return out


def pattern(out: Path, layout: TreeLayout) -> str:
    """The files of a tree."""
    return str(out / {"nested": "*/*/T/table.parquet", "flat": "*.parquet"}.get(layout, "*/*.parquet"))


def by_pyarrow(out: Path, layout: TreeLayout) -> Pairs:
    """Date and X, as pyarrow reads them."""
    if layout == "metadata":
        return _pairs(ds.parquet_dataset(out / "_metadata", partitioning=_hive()).to_table())
    return _pairs(ds.dataset(out, format="parquet", partitioning=_partitioning(layout)).to_table())


def by_pandas(out: Path, layout: TreeLayout) -> Pairs:
    """The same, as pandas does."""
    frame = pd.read_parquet(out, partitioning=_partitioning(layout))
    return sorted(zip(frame["Date"].astype(str), frame["X"], strict=True))


def by_duckdb(out: Path, layout: TreeLayout) -> Pairs:
    """The same, as DuckDB does."""
    files = pattern(out, layout).replace("'", "''")
    if layout == "nested":
        rows = duckdb.sql(f"select filename, X from read_parquet('{files}', filename = true)").fetchall()
        return sorted((Path(file).parts[-3], x) for file, x in rows)
    hive = "" if layout == "flat" else ", hive_partitioning = true, hive_types = {'Date': VARCHAR}"
    return sorted(duckdb.sql(f"select Date, X from read_parquet('{files}'{hive})").fetchall())


def by_polars(out: Path, layout: TreeLayout) -> Pairs:
    """The same, as polars does."""
    files = pattern(out, layout)
    if layout == "nested":
        rows = pl.scan_parquet(files, include_file_paths="file").select("file", "X").collect().rows()
        return sorted((Path(file).parts[-3], x) for file, x in rows)
    hive = layout != "flat"
    schema = {"Date": pl.String} if hive else None
    frame = pl.scan_parquet(files, hive_partitioning=hive, hive_schema=schema)
    return sorted(frame.select("Date", "X").collect().rows())


def _hive() -> ds.Partitioning:
    return ds.partitioning(pa.schema([("Date", pa.string())]), flavor="hive")


def _partitioning(layout: TreeLayout) -> ds.Partitioning | None:
    if layout == "nested":
        return ds.partitioning(pa.schema([(name, pa.string()) for name in ("internal", "Date", "table")]))
    return None if layout == "flat" else _hive()


def _pairs(table: pa.Table) -> Pairs:
    return sorted(zip(table["Date"].to_pylist(), table["X"].to_pylist(), strict=True))
