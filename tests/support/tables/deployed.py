"""A small schema, deployed for a table that has data or none."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed

TABLE = TableName("Ns", "Tab")
COLUMNS = {"Date": "String", "A": "int", "B": "String", "C": "double"}
FS = Fs()


def schema(columns: dict[str, str] = COLUMNS, **attributes: str) -> bytes:
    """A schema; ``attributes`` adds text to the element of a column."""
    lines = ['<Table namespace="Ns" name="Tab" storageType="NestedPartitionedOnDisk">']
    for name, kind in columns.items():
        role = ' columnType="Partitioning"' if name == "Date" else ""
        lines.append(f'  <Column name="{name}" dataType="{kind}"{role}{attributes.get(name, "")}/>')
    return "\n".join([*lines, "</Table>\n"]).encode()


def with_data(root: Path) -> Layout:
    layout = Layout(root)
    (layout.intraday(TABLE) / "EWR" / "2013-01-01" / "Tab").mkdir(parents=True)
    return layout


def ids(layout: Layout) -> dict[str, int]:
    return {c.name: c.id for c in load_deployed(TablePlace(FS, layout, TABLE)).columns}
