"""What a process remembers between two openings and two reads never gives rows that are not the table's."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers import Snapshot, open_table
from sparkhaven.store.errors import CorruptFileError, SnapshotMovedError
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.partitions import add_partition
from tests.support.disks.clock import wait_for_tick
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.removals import empty, unlink

SCHEMA = b"""<Table namespace="Test" name="Every" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Size" dataType="int"/>
  <DataIndex columns="Size"/>
</Table>
"""
WHERE = "Sym = 'S1'"
SYMBOLS = 10


def rows_of(numbers: range) -> pa.Table:
    return pa.table({"Sym": [f"S{n % SYMBOLS}" for n in numbers], "Size": pa.array(numbers, pa.int32())})


def built(root: Path, rows: int) -> IntradayRows:
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): rows_of(range(rows))})
    add_partition(FS, db.layout, "Test", "0")
    return db


def asked(table: Snapshot) -> list[int]:
    """All sizes, after the filters by group and by index were compared with them."""
    everything: list[int] = sorted(table.to_arrow("Size")["Size"].to_pylist())
    by_group = table.to_arrow("Size", where=WHERE)["Size"].to_pylist()
    assert sorted(by_group) == [size for size in everything if size % SYMBOLS == 1]
    for size in (11, 31, 71):
        assert table.to_arrow("Size", where=f"Size = {size}")["Size"].to_pylist() == [size] * everything.count(size)
    assert table.count(where=WHERE) == len(by_group)
    assert table.count() == len(everything)
    return everything


def test_each_change_between_two_openings_is_seen(tmp_path: Path) -> None:
    """Each is opened and asked twice, and the table that was open meanwhile keeps its rows, or says that it cannot."""
    db = built(tmp_path, 40)
    before: list[tuple[Snapshot, list[int]]] = []

    def sees(expected: range, *, moved: bool = False) -> None:
        for _ in range(2):
            assert asked(open_table(tmp_path, "Test.Every")) == list(expected)
        for table, rows in list(before):
            try:
                assert asked(table) == rows
            except SnapshotMovedError:
                assert moved
                before.remove((table, rows))
        before.append((open_table(tmp_path, "Test.Every"), list(expected)))

    sees(range(40))
    db.commit({("a", DAY): rows_of(range(40, 60))})
    sees(range(60))
    db.log.rollback(1)
    sees(range(40), moved=True)
    assert len(before) == 2
    db.commit({("a", DAY): rows_of(range(40, 80))})
    sees(range(80))
    merge(db.layout)
    sees(range(80))
    db.commit({("b", DAY): rows_of(range(80, 90))})
    sees(range(90))
    merge(db.layout)  # a supplement
    sees(range(90))
    merge(db.layout, rewrite=True)
    sees(range(90))
    empty(db)
    sees(range(90))
    unlink(db)
    sees(range(90), moved=True)
    db.log.close()
    db.log = db.open()
    db.commit({("a", DAY): rows_of(range(90, 95))})
    sees(range(95))
    deploy(FS, db.layout, SCHEMA.replace(b"  <DataIndex", b'  <Column name="New" dataType="int"/>\n  <DataIndex'))
    assert open_table(tmp_path, "Test.Every").to_arrow("New")["New"].to_pylist() == [None] * 95
    sees(range(95))


class CountingFs(QuickFs):
    """Counts the files that are read or mapped, by name."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()

    def read_range(self, path: Path, *args: Any) -> bytes:
        self.opened[path.name] += 1
        return super().read_range(path, *args)

    def map(self, path: Path, length: int) -> pa.Buffer:
        self.opened[path.name] += 1
        return super().map(path, length)


def history(root: Path) -> tuple[CountingFs, Snapshot, Path]:
    """A merged table with its rows asked once, and its one location."""
    db = built(root, 20_000)
    merge(db.layout)
    fs = CountingFs()
    table = open_table(root, "Test.Every", fs=fs)
    assert table.to_arrow("Size", where=WHERE).num_rows == 20_000 // SYMBOLS
    assert fs.opened["Size.dat"]
    return fs, table, next(db.layout.partitions("Test").rglob("Size.dat")).parent


def test_a_second_read_of_a_part_opens_no_file_of_history(tmp_path: Path) -> None:
    fs, table, _ = history(tmp_path)
    fs.opened.clear()
    other = table.to_arrow("Size", where="Sym = 'S2'")["Size"].to_pylist()
    assert other == list(range(2, 20_000, SYMBOLS))
    assert not fs.opened
    table.to_arrow("Size")  # all rows: nothing of it stays open
    fs.opened.clear()
    table.to_arrow("Size")
    assert fs.opened["Size.dat"]


def test_damage_after_the_first_read_is_seen_by_the_second(tmp_path: Path) -> None:
    _, table, location = history(tmp_path)
    with open(location / "Size.dat", "r+b") as file:
        file.seek(5000)
        file.write(b"\xff")
    with pytest.raises(CorruptFileError, match="checksum does not match"):
        table.to_arrow("Size", where=WHERE)


def test_a_file_that_was_restored_is_opened_again(tmp_path: Path) -> None:
    fs, table, location = history(tmp_path)
    expected = table.to_arrow("Size", where=WHERE)
    shutil.copy(location / "Size.dat", tmp_path / "copy")
    (tmp_path / "copy").rename(location / "Size.dat")
    fs.opened.clear()
    assert table.to_arrow("Size", where=WHERE).equals(expected)
    assert fs.opened["Size.dat"]
    assert not fs.opened["Sym.dat"]


def test_a_location_that_is_gone_is_an_error_though_its_files_were_open(tmp_path: Path) -> None:
    _, table, location = history(tmp_path)
    wait_for_tick(tmp_path)
    shutil.rmtree(location)
    with pytest.raises(SnapshotMovedError):
        table.to_arrow("Size", where=WHERE)
