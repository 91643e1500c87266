"""`sparkhaven metadata` and the Locations table of a tree: differences are named, and mended from the tree alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.format.table.definition import SPLAYED
from sparkhaven.store.format.table.locations import LocationEntry, encode_locations, locations_schema
from sparkhaven.store.scan.location_files import read_locations
from sparkhaven.writers.transfer.tree_writer import write_column_leaf
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.export_cases import NEXT
from tests.support.writers.extended_cases import Rows, add, follow, table
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE
from tests.support.writers.merge_runs import FS, merge

NAME = str(TABLE)
Entries = list[LocationEntry]
PARQUET = b'<ExtendedStorage type="coreplus:hive"/></Table>'
COLUMNS = b'<ExtendedStorage type="coreplus:hive" format="DeephavenV1"/></Table>'


def tree(db: IntradayRows) -> Path:
    return db.layout.extended(TABLE)


@pytest.fixture(params=[PARQUET, COLUMNS], ids=["parquet", "columns"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> IntradayRows:
    """Two dates in a tree."""
    made = IntradayRows(tmp_path, SCHEMA.replace(b"</Table>", request.param), fs=FS)
    rows: Rows = []
    add(made, rows, DAY, 20)
    add(made, rows, NEXT, 9)
    merge(made.layout, DAY, NEXT)
    follow(made)
    return made


def changed(db: IntradayRows, change: Callable[[Entries], Entries]) -> None:
    """Writes a Locations table with other rows."""
    path = tree(db) / ".locations_table"
    entries = change(read_locations(FS, path, "Date", db.schema))
    shutil.rmtree(path)
    schema = locations_schema("Date", db.schema)
    write_column_leaf(FS, path, schema, [encode_locations(entries, schema)], 5, SPLAYED)


def differences(db: IntradayRows, command: str = "validate", *words: str) -> tuple[int, list[tuple[str, Any]]]:
    code, value = run_json(db.root, "metadata", command, NAME, *words)
    assert value["differences"] == []
    assert all(part["code"] == "E264" for part in value["locations"]["differences"])
    return code, [(part["kind"], part["date"]) for part in value["locations"]["differences"]]


def files(db: IntradayRows) -> dict[str, bytes]:
    paths = [path for path in sorted(tree(db).rglob("*")) if path.is_file()]
    return {str(path.relative_to(tree(db))): path.read_bytes() for path in paths}


STRAY = LocationEntry("2020-01-01", "Date=2020-01-01/x", 5, "PARQUET", 1)
OTHER = {"DEEPHAVEN": "PARQUET", "PARQUET": "DEEPHAVEN"}
CHANGES: dict[str, tuple[Callable[[Entries], Entries], tuple[str, str]]] = {
    "missing": (lambda entries: entries[1:], ("missing", DAY)),
    "extra": (lambda entries: [*entries, STRAY], ("extra", "2020-01-01")),
    "size": (lambda e: [replace(e[0], rows=99), *e[1:]], ("size", DAY)),
    "date": (lambda e: [replace(e[0], value=NEXT), *e[1:]], ("size", DAY)),
    "format": (lambda e: [replace(e[0], format=OTHER[e[0].format]), *e[1:]], ("format", DAY)),
    "version": (lambda e: [replace(e[0], version=9), *e[1:]], ("format", DAY)),
    "time": (lambda e: [replace(e[0], modified=7), *e[1:]], ("time", DAY)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_is_told_and_mended(db: IntradayRows, name: str) -> None:
    change, told = CHANGES[name]
    assert differences(db) == (0, [])
    before = files(db)
    changed(db, change)
    wrong = files(db)
    assert differences(db) == (1, [told])
    assert differences(db, "update", "--dry-run") == (0, [told]) and files(db) == wrong
    assert differences(db, "update") == (0, [told])
    after = files(db)
    leaves = {name for name in before if not name.startswith((".locations_table", "_manifest"))}
    assert {name: after[name] for name in leaves} == {name: before[name] for name in leaves}
    assert after.keys() == before.keys()
    assert differences(db) == (0, []) and verify(FS, db.layout, TABLE, deep=True).findings == []
    assert follow(db).written == ()


def test_a_column_that_the_paths_do_not_have(db: IntradayRows) -> None:
    path = tree(db) / ".locations_table"
    schema = locations_schema("Date", db.schema)
    batch = encode_locations(read_locations(FS, path, "Date", db.schema), schema)
    more = next(column for column in db.schema.stored if column.name == "I")
    batch = batch.append_column("I", pa.array([3, None], more.type.arrow))
    shutil.rmtree(path)
    write_column_leaf(FS, path, replace(schema, columns=(*schema.columns, more)), [batch], 5, SPLAYED)
    entries = run_json(db.root, "metadata", "list", NAME)[1]["locations"]["entries"]
    assert [entry["columns"] for entry in entries] == [{"I": "3"}, {"I": None}]
    told = run_json(db.root, "metadata", "validate", NAME)[1]["locations"]["differences"]
    assert [(part["kind"], part["found"].split()[-1]) for part in told] == [("format", "I=3"), ("format", "I=null")]
    assert differences(db, "update")[0] == 0 and differences(db) == (0, [])
    assert not (path / "I.dat").exists()


def test_a_lost_table_and_a_damaged_one(db: IntradayRows) -> None:
    path = tree(db) / ".locations_table"
    (path / "Size.dat").write_bytes(b"")
    assert differences(db) == (1, [("damaged", None)])
    assert differences(db, "update")[0] == 0 and differences(db) == (0, [])
    shutil.rmtree(path)
    assert differences(db) == (1, [("lost", None)])
    assert run_json(db.root, "metadata", "list", NAME)[1]["locations"] == {"index": False, "entries": []}
    assert run_json(db.root, "metadata", "update", NAME)[1]["locations"]["written"] is True
    assert differences(db) == (0, []) and verify(FS, db.layout, TABLE, deep=True).findings == []


def test_two_tables_are_damage_that_an_update_mends(db: IntradayRows) -> None:
    shutil.copytree(tree(db) / ".locations_table", tree(db) / ".location_table")
    assert differences(db) == (1, [("damaged", None)])
    assert differences(db, "update")[0] == 0
    assert not (tree(db) / ".location_table").exists()
    assert differences(db) == (0, []) and verify(FS, db.layout, TABLE, deep=True).findings == []


def test_the_other_name_is_read(db: IntradayRows) -> None:
    (tree(db) / ".locations_table").rename(tree(db) / ".location_table")
    assert differences(db) == (0, [])


def test_without_its_witness_nothing_is_written(db: IntradayRows) -> None:
    leaf = next(path for path in tree(db).glob("Date=*/*"))
    leaf.rename(leaf.with_name("moved"))
    for command in ("validate", "update"):
        code, value = run_json(db.root, "metadata", command, NAME)
        assert (code, value["error"]["type"]) == (1, "CorruptFileError")
        assert value["error"]["what"] == "a leaf of the tree is missing"
    leaf.with_name("moved").rename(leaf)
    (tree(db) / "_manifest.json").unlink()
    shutil.rmtree(tree(db) / ".locations_table")
    code, value = run_json(db.root, "metadata", "update", NAME)
    assert code == 1 and value["error"]["what"] == "the manifest of the tree is missing"
    assert not (tree(db) / ".locations_table").exists()


def test_leaves_are_listed(db: IntradayRows) -> None:
    code, value = run_json(db.root, "metadata", "list", NAME)
    leaves = value["locations"]["entries"]
    assert code == 0 and [(leaf["date"], leaf["rows"]) for leaf in leaves] == [(DAY, 20), (NEXT, 9)]
    assert all((tree(db) / leaf["leaf"]).exists() for leaf in leaves)
    assert "Locations table, leaves: 2" in run(db.root, "metadata", "list", NAME).stdout
    assert "Locations table, right" in run(db.root, "metadata", "validate", NAME).stdout


def test_a_table_with_another_tree_has_none(tmp_path: Path) -> None:
    made = table(tmp_path, "parquet:kv")
    assert "locations" not in run_json(made.root, "metadata", "validate", NAME)[1]
