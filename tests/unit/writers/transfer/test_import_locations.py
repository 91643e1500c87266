"""``coreplus:hive`` trees of several partitioning columns: paths and the Locations table give values, and agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.errors import CorruptFileError, SchemaMismatchError
from sparkhaven.store.format.parquet.trees import HIVE_NULL
from sparkhaven.store.format.table.locations import LocationEntry, encode_locations, locations_schema
from sparkhaven.store.layout import TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import Column, Storage, TableSchema
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.transfer.tree_writer import write_column_leaf
from tests.support.commands import run
from tests.support.writers.import_cases import bring, empty
from tests.support.writers.merge_runs import FS

TABLE = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/><Column name="C" dataType="int"/>
  <Column name="D" dataType="double"/><Column name="N" dataType="long"/></Table>"""
Leaf = tuple[str, dict[str, Any]]  # directories, values of the row
LEAVES: list[Leaf] = [
    ("Sym=a%3Ab/Date=2026-01-01/C=007/D=NaN", {"Sym": "a:b", "Date": "2026-01-01", "C": 7, "D": float("nan")}),
    ("Sym=b/Date=2026-01-02/C=-3/D=0.10", {"Sym": "b", "Date": "2026-01-02", "C": -3, "D": 0.1}),
    (f"Sym={HIVE_NULL}/Date=2026-01-02/C={HIVE_NULL}/D=1", {"Sym": None, "Date": "2026-01-02", "C": None, "D": 1.0}),
]


def schema_of(columns: list[Column], name: str) -> TableSchema:
    return TableSchema("NS", name, tuple(columns), nested=False)


def tree(tmp_path: Path, leaves: list[Leaf], kind: str, *, lacks: str = "", first: tuple[str, ...] = ("D", "C")) -> Any:
    """A root, and a tree with two rows a leaf; ``lacks``: a column that the Locations table has not."""
    layout, root = empty(tmp_path / "db", TABLE), tmp_path / "tree"
    add_partition(FS, layout, "NS", "0")
    schema = load_deployed(TablePlace(FS, layout, TableName("NS", "T")))
    entries = []
    for number, (directories, row) in enumerate(leaves):
        own = [column for column in schema.stored if f"{column.name}=" not in directories]
        rows = pa.record_batch({"N": pa.array([2 * number, 2 * number + 1], pa.int64())})
        path = root / directories / ("part.parquet" if kind == "PARQUET" else "part")
        if kind == "PARQUET":
            path.parent.mkdir(parents=True)
            pq.write_table(pa.table(rows), path)
        else:
            assert [column.name for column in own] == ["N"]
            write_column_leaf(FS, path, schema_of(own, "T"), [rows], 1)
        name = path.relative_to(root).as_posix()
        entries.append(LocationEntry(row["Date"], name, 2, kind, 1))
    fixed = locations_schema("Date", schema)
    found = dict(zip((column.name for column in fixed.columns), encode_locations(entries, fixed).columns, strict=True))
    mine = {column.name: column for column in schema.stored}
    if kind == "PARQUET":  # the Locations table has texts where the table has symbols
        mine["Sym"] = replace(mine["Sym"], storage=Storage.BLOB)
    given = [mine[name] for name in (*first, "Sym") if name != lacks]
    found |= {column.name: pa.array([row[column.name] for _, row in leaves], column.type.arrow) for column in given}
    columns = [*given, *fixed.columns]
    batch = pa.record_batch([found[column.name] for column in columns], names=[column.name for column in columns])
    write_column_leaf(FS, root / ".locations_table", schema_of(columns, "T"), [batch], 1)
    return layout, root


@pytest.mark.parametrize("kind", ["PARQUET", "DEEPHAVEN"])
@pytest.mark.parametrize("first", [("D", "C"), ("C", "D")])
def test_values_of_the_path_are_values_of_rows(tmp_path: Path, kind: str, first: tuple[str, ...]) -> None:
    layout, root = tree(tmp_path, LEAVES, kind, first=first)
    assert [each.given[0] for each in bring(layout, root)] == [2, 4]
    table = open_table(layout.root, "NS.T").to_arrow(["N", "Date", "Sym", "C", "D"], dictionaries=False)
    found = sorted(table.to_pylist(), key=lambda row: row["N"])
    expected = [{"N": 2 * n + i, **row} for n, (_, row) in enumerate(LEAVES) for i in (0, 1)]
    assert list(map(repr, found)) == [repr({name: row[name] for name in table.column_names}) for row in expected]


CONTRADICTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "date": ("Date=2026-01-02/Sym=b/C=3/D=1", {"Date": "2026-01-01", "Sym": "b", "C": 3, "D": 1.0}, "Date=2026-01-01"),
    "text": ("Date=d/Sym=b/C=3/D=1", {"Date": "d", "Sym": "c", "C": 3, "D": 1.0}, "Sym=c"),
    "number": ("Date=d/Sym=b/C=3/D=1", {"Date": "d", "Sym": "b", "C": 4, "D": 1.0}, "C=4"),
    "null": ("Date=d/Sym=None/C=3/D=1", {"Date": "d", "Sym": None, "C": 3, "D": 1.0}, "Sym null"),
    "no null": (f"Date=d/Sym=b/C=3/D={HIVE_NULL}", {"Date": "d", "Sym": "b", "C": 3, "D": 1.0}, "D=1.0"),
    "no date": ("Sym=b/C=3/D=1", {"Date": "d", "Sym": "b", "C": 3, "D": 1.0}, "levels of Date"),
    "no level": ("Date=d/Sym=b/D=1", {"Date": "d", "Sym": "b", "C": 3, "D": 1.0}, "levels of Date"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_path_and_row_that_contradict_each_other(tmp_path: Path, case: str) -> None:
    directories, row, expected = CONTRADICTIONS[case]
    layout, root = tree(tmp_path, [(directories, row)], "PARQUET")
    with pytest.raises(CorruptFileError, match="contradicts the Locations table") as caught:
        bring(layout, root)
    assert caught.value.where == str(root / directories / "part.parquet")
    assert expected in str(caught.value.expected)
    assert str(caught.value.found).split(", ") == directories.split("/")
    found = run(layout.root, "import", "NS.T", "--from", str(root), "--layout", "hive")
    assert found.exit_code == 1 and "to do: have the Locations table written anew" in found.stderr, found.stderr
    assert open_table(layout.root, "NS.T").count() == 0


def test_a_level_that_the_locations_table_lacks(tmp_path: Path) -> None:
    layout, root = tree(tmp_path, LEAVES, "PARQUET", lacks="C")
    with pytest.raises(CorruptFileError, match="contradicts the Locations table"):
        bring(layout, root)


def test_a_column_that_a_leaf_of_column_files_has_too(tmp_path: Path) -> None:
    layout, root = tree(tmp_path, LEAVES[1:2], "DEEPHAVEN")
    schema = load_deployed(TablePlace(FS, layout, TableName("NS", "T")))
    leaf = root / LEAVES[1][0] / "part"
    FS.remove_tree(leaf)
    both = [column for column in schema.stored if column.name in ("C", "N")]
    rows = pa.record_batch({"C": pa.array([-3, -3], pa.int32()), "N": pa.array([1, 2], pa.int64())})
    write_column_leaf(FS, leaf, schema_of(both, "T"), [rows], 1)
    with pytest.raises(SchemaMismatchError, match="leaf has a column that its directories give too"):
        bring(layout, root)
