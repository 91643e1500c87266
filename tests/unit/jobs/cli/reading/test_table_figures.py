"""Figures of tables: rows once, bytes by tier, and what is waste."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.jobs.cli.reading.stats import list_tables, table_figures
from sparkhaven.store.layout import TableName
from tests.support.tables.small_tables import SmallTable

D1, D2 = "2026-11-20", "2026-11-21"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path)
    made.add("a", D1, {"Size": [1, 2]})
    made.add("b", D1, {"Size": [3]})
    made.add("a", D2, {"Size": [4]})
    return made


def test_figures_of_one_table(small: SmallTable) -> None:
    found = table_figures(small.place)
    row = 4 + 4 + 8 + 8 + 1 + 8  # Sym, Size, Px, At, Live, Note without text
    assert (found["table"], found["rows"], found["bytes"], found["waste"]) == ("NS.T", 4, 4 * row, 0)
    assert found["tiers"]["intraday"] == {"rows": 4, "bytes": 4 * row, "locations": 3}
    assert found["tiers"]["history"] == {"rows": 0, "bytes": 0, "locations": 0}
    assert found["dates"][0] == {"date": D1, "rows": 3, "intraday": 3, "history": 0, "bytes": 3 * row}
    assert [(s["source"], s["rows"]) for s in found["sources"]] == [("a", 3), ("b", 1)]
    stream = found["streams"][0]
    assert (stream["stream"], stream["epoch"], stream["floor"], stream["rememberedFiles"]) == ("s", 3, 0, 3)
    assert stream["logBytes"] > 0


def test_waste_is_what_no_read_needs(small: SmallTable) -> None:
    path = small.location("a", D1) / "Size.dat"
    path.write_bytes(path.read_bytes() + b"x" * 10)
    (path.parent / "Old.dat").write_bytes(b"x" * 100)
    stray = small.location("c", D1)
    stray.mkdir(parents=True)
    (stray / "Size.dat").write_bytes(b"x" * 1000)
    assert table_figures(small.place)["waste"] == 1110


def test_a_damaged_table_hides_no_other(small: SmallTable) -> None:
    other = SmallTable(small.root, SCHEMA_OF_ANOTHER)
    other.add("a", D1, {"A": [1]})
    small.layout.stream_log(small.table, "s").write_bytes(b"damaged, all of it")
    broken, sound = list_tables(small.fs, small.layout)
    assert broken["table"] == "NS.T" and "file starts with other bytes" in str(broken["error"])
    assert sound == {"table": "NS.U", "rows": 1, "dates": 1, "first": D1, "last": D1, "epochs": {"s": 1}}
    assert TableName.parse(sound["table"]) == other.table


SCHEMA_OF_ANOTHER = """<Table namespace="NS" name="U" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/><Column name="A" dataType="int"/>
</Table>
"""
