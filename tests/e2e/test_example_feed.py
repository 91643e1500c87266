"""A feed that no module of the project knows, by the command line, in Spark and without it: every row exactly once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run_json
from tests.support.spark.one_session import one_session

pytestmark = pytest.mark.spark

SCHEMA = """<Table namespace="Test" name="Order" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="id" dataType="long"/>
  <Column name="item" dataType="String"/>
</Table>"""
STREAM = """name = "orders"
table = "Test.Order"
schema = "Test.Order.schema"
[feed]
type = "examples.sqlite_feed:SqliteFeed"
path = "orders.db"
table = "orders"
max_per_trigger = { rows = 40 }
[partition]
internal = { fixed = "0" }
value = { fixed = "2026-11-22" }
[bad_rows]
max_rows = 0
"""


def add(base: Path, count: int) -> None:
    with closing(sqlite3.connect(base / "orders.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, item TEXT)")
        database.executemany("INSERT INTO orders (item) VALUES (?)", [(f"item {n}",) for n in range(count)])


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    """Its workers, processes of their own, find the module by PYTHONPATH."""
    with one_session():
        yield


def ingest(base: Path, *more: str) -> dict[str, Any]:
    """A run of the command; what it has done."""
    code, found = run_json(base / "db", "ingest", str(base / "orders.toml"), *more)
    assert code == 0, found
    return found


def ids(base: Path) -> list[int]:
    return open_table(base / "db", "Test.Order").to_arrow("id")["id"].to_pylist()  # type: ignore[no-any-return]


def test_rows_come_once_and_a_second_run_takes_only_new_ones(tmp_path: Path) -> None:
    (tmp_path / "Test.Order.schema").write_text(SCHEMA)
    (tmp_path / "orders.toml").write_text(STREAM)
    add(tmp_path, 100)
    assert ingest(tmp_path, "--dry-run")["waiting_messages"] == 101  # from id 0 on
    first = ingest(tmp_path, "--once", "--spark")
    assert (first["rows"], first["records"], first["epochs"]) == (100, 101, 3)
    assert first["positions"] == {"orders/0": 101}
    assert sorted(ids(tmp_path)) == [*range(1, 101)]
    add(tmp_path, 5)
    second = ingest(tmp_path, "--once")
    assert (second["rows"], second["epochs"], second["positions"]) == (5, 1, {"orders/0": 106})
    assert sorted(ids(tmp_path)) == [*range(1, 106)]
