"""Files that were moved aside for late rows are read there by the Spark reader in Java, as by Python's readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.readers import open_table
from sparkhaven.store.epochs.files.removals import aside_of, move_away, write_removals
from sparkhaven.store.epochs.state.removed_locations import Removal, RemovalPhase
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.layout import LocationKey
from tests.support.spark.pushed_queries import Java, Planned
from tests.support.tables.small_tables import SmallTable

pytestmark = pytest.mark.jvm
SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/><Column name="Size" dataType="int"/>
</Table>
"""
DAY = "2026-11-20"
KEY = LocationKey("b", DAY)
ROWS = 20_000  # a file that is not read at once
LEFT = "SnapshotMovedError: rows of this snapshot were merged and deleted"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    table = SmallTable(tmp_path, SCHEMA)
    table.add("a", DAY, {"Sym": ["x"], "Size": [-1]})
    table.add("b", DAY, {"Sym": ["y", None] * (ROWS // 2), "Size": list(range(ROWS))})
    return table


def reopened(small: SmallTable) -> Path:
    """Late rows begin the location anew; where its files went."""
    state = small.log().state
    location = state.locations[KEY]
    aside = aside_of(small.place, location)
    truncate, delete = (
        Removal(KEY, location.since, location.rows, phase, state.epoch, made_ms=location.made_ms)
        for phase in (RemovalPhase.TRUNCATE, RemovalPhase.DELETE)
    )
    write_removals(small.place.of_stream("s"), [truncate])
    move_away(small.place, [location])
    write_removals(small.place.of_stream("s"), [delete])
    small.log().refresh()
    small.add("b", DAY, {"Size": [70]})
    return aside


def test_they_are_read_where_they_lie(small: SmallTable, java: Java) -> None:
    opened, planned = open_table(small.root, "NS.T"), Planned(small.root, java)
    aside = reopened(small)
    expected = [["x", "-1"], *([None if row % 2 else "y", str(row)] for row in range(ROWS))]
    for _ in range(2):
        assert java.ask(columns=["Sym", "Size"])["values"] == expected
        assert opened.to_arrow("Size")["Size"].to_pylist() == [-1, *range(ROWS)]
    assert planned.read(java.ask()) == planned.every()
    data = (aside / "Size.dat").read_bytes()
    (aside / "Size.dat").write_bytes(data[:-1])
    assert "CorruptFileError: file is shorter than its committed length" in java.ask(columns=["Size"])["error"]
    (aside / "Size.dat").write_bytes(data)
    aside.rename(aside.with_name("gone"))
    assert java.ask(columns=["Size"])["error"].startswith(LEFT)
    with pytest.raises(SnapshotMovedError):
        opened.to_arrow("Size")
    Planned(small.root, java)
    assert java.ask(columns=["Sym", "Size"])["values"] == [["x", "-1"], [None, "70"]]


def test_rows_that_were_rolled_back_before_are_an_error(small: SmallTable, java: Java) -> None:
    Planned(small.root, java)
    small.log().rollback(1)
    assert "the pinned epoch has been rolled back" in java.ask(columns=["Size"])["error"]
