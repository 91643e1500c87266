"""Which rows of a location a filter of an engine has to look at, by the indexes of history."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.expressions.predicate.nodes import Key
from sparkhaven.writers.partitions import add_partition
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_tables import NULLS, Attached, Engine
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS, merge

SCHEMA = b"""<Table namespace="Test" name="Every" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="D" dataType="double"/>
  <Column name="Size" dataType="int"/>
  <DataIndex columns="D,Size"/>
</Table>
"""
ROWS = 3_000


def rows_of(first: int) -> pa.Table:
    """Symbols and numbers in turn, each eleventh number null."""
    numbers = range(first, first + ROWS)
    doubles = [None if n % 11 == 0 else float(n % 100) for n in numbers]
    return pa.table({"Sym": [f"S{n % 100}" for n in numbers], "D": doubles, "Size": pa.array(numbers, pa.int32())})


def merged(root: Path) -> tuple[IntradayRows, Engine]:
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): rows_of(0)})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout)
    db.commit({("a", DAY): rows_of(ROWS)})
    return db, Engine(root, fs=FS)


def sizes(attached: Attached, tier: str, column: str, keys: list[Key]) -> list[int] | None:
    """Of the rows that an index gives; None: no index tells."""
    (place,) = [place for place in attached.sizes if place.tier == tier]
    rows = attached.backend.indexed_rows(attached.key, place, column, keys)
    if rows is None:
        return None
    values = attached.backend.values(attached.key, place, "Size", 0, ROWS, ROWS)["Size"]
    return sorted(values.take(pa.array(rows.positions)).to_pylist())


def test_an_index_gives_the_rows_of_history_that_have_the_values(tmp_path: Path) -> None:
    attached = merged(tmp_path)[1].attach("Test_Every")
    every = range(ROWS)
    assert sizes(attached, "history", "Sym", ["S7", "none"]) == [n for n in every if n % 100 == 7]
    assert sizes(attached, "history", "Sym", ["none"]) == []
    assert sizes(attached, "history", "D", [7.0]) == [n for n in every if n % 100 == 7 and n % 11]
    assert sizes(attached, "history", "D", [NULLS["D"]]) == [n for n in every if n % 11 == 0]
    assert sizes(attached, "history", "Size", [7]) is None
    assert sizes(attached, "intraday", "Sym", ["S7"]) is None
    indexed = [attached.backend.is_indexed(attached.key, name) for name in ("Sym", "D", "Size", "Date", "Other")]
    assert indexed == [True, True, False, False, False]


def test_an_ended_table_has_no_indexes(tmp_path: Path) -> None:
    db, engine = merged(tmp_path)
    attached = engine.attach("Test_Every")
    db.log.rollback(1)
    engine.look()
    assert attached.errors
    (place,) = [place for place in attached.sizes if place.tier == "history"]
    assert not attached.backend.is_indexed(attached.key, "Sym")
    with pytest.raises(SnapshotMovedError):
        attached.backend.indexed_rows(attached.key, place, "Sym", ["S7"])
