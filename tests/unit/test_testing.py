"""``sparkhaven.testing``: small tables for tests of users."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.errors import SchemaMismatchError
from sparkhaven.readers import open_table
from sparkhaven.testing import make_table

ROWS = {
    "Date": ["2026-01-01", "2026-01-02", "2026-01-01"],
    "Sym": ["a", None, "b"],
    "Size": [1, 2, None],
    "Px": [0.5, None, 1.5],
    "At": [datetime(2026, 1, 1, tzinfo=UTC), None, None],
    "Live": [True, False, None],
}
KINDS = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Day" dataType="String" columnType="Partitioning"/>
  <Column name="Size" dataType="short"/><Column name="Note" dataType="String" symbolTable="None"/>
</Table>"""


def test_rows_become_a_table(tmp_path: Path) -> None:
    assert make_table(tmp_path / "db", "NS.T", ROWS) == 1
    found = open_table(tmp_path / "db", "NS.T").to_arrow(dictionaries=False)
    expected = pa.table(ROWS).sort_by([("Date", "ascending")])
    assert found.to_pylist() == expected.to_pylist()
    assert str(found.schema.field("At").type) == "timestamp[ns, tz=UTC]"


def test_rows_are_added_to_a_table_that_exists(tmp_path: Path) -> None:
    make_table(tmp_path, "NS.T", ROWS)
    assert make_table(tmp_path, "NS.T", [{"Size": 7}, {"Sym": "c"}], date="2026-01-05", source="b") == 2
    table = open_table(tmp_path, "NS.T")
    assert table.values() == ["2026-01-01", "2026-01-02", "2026-01-05"]
    assert table.to_arrow("Size", dates="2026-01-05")["Size"].to_pylist() == [7, None]
    assert table.sources() == ["0", "b"]


def test_a_schema_gives_the_types(tmp_path: Path) -> None:
    make_table(tmp_path, "NS.T", {"Size": [1], "Day": ["d1"]}, schema=KINDS)
    found = open_table(tmp_path, "NS.T").to_arrow(dictionaries=False)
    assert found.to_pylist() == [{"Day": "d1", "Size": 1, "Note": None}]
    assert found.schema.field("Size").type == pa.int16()


@pytest.mark.parametrize(
    ("rows", "words"),
    [({"Sizes": [1]}, "no such column"), ({"Size": [70_000]}, "not of the type"), ({"Size": ["x"]}, "not of the type")],
)
def test_rows_that_do_not_fit_are_reported(tmp_path: Path, rows: dict[str, list[object]], words: str) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        make_table(tmp_path, "NS.T", rows, schema=KINDS)


def test_values_without_a_column_type_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match=r"(?s)no column type.*Tags"):
        make_table(tmp_path, "NS.T", {"Tags": [["a"]]})
