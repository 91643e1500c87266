"""``sparkhaven.testing``: small tables for tests of users."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.errors import SchemaMismatchError
from sparkhaven.readers import open_table
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.testing import make_table
from tests.support.writers.coded_rows import SCHEMA, coded_row, coded_table
from tests.unit.writers.users.test_save_table import TYPES

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
    assert table.dates() == ["2026-01-01", "2026-01-02", "2026-01-05"]
    assert table.to_arrow("Size", dates="2026-01-05")["Size"].to_pylist() == [7, None]
    assert table.sources() == ["0", "b"]


def test_a_schema_gives_the_types(tmp_path: Path) -> None:
    make_table(tmp_path, "NS.T", {"Size": [1], "Day": ["d1"]}, schema=KINDS)
    found = open_table(tmp_path, "NS.T").to_arrow(dictionaries=False)
    assert found.to_pylist() == [{"Day": "d1", "Size": 1, "Note": None}]
    assert found.schema.field("Size").type == pa.int16()


@pytest.mark.parametrize(
    ("rows", "words"),
    [({"Sizes": [1]}, "no such column"), ({"Size": [70_000]}, "70000"), ({"Size": ["x"]}, "another type")],
)
def test_rows_that_do_not_fit_are_reported(tmp_path: Path, rows: dict[str, list[object]], words: str) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        make_table(tmp_path, "NS.T", rows, schema=KINDS)


@pytest.mark.parametrize("name", list(TYPES))
def test_every_type_of_arrow_that_a_column_holds_comes_back(tmp_path: Path, name: str) -> None:
    values, _ = TYPES[name]
    make_table(tmp_path, "NS.T", pa.table({name: values}))
    found = open_table(tmp_path, "NS.T").to_arrow(name, dictionaries=False)[name].combine_chunks()
    expected = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    assert [str(value) for value in found.cast(expected.type).to_pylist()] == [str(v) for v in expected.to_pylist()]


def test_a_schema_gives_types_that_arrow_does_not_have(tmp_path: Path) -> None:
    schema = parse_schema(SCHEMA, "").schema
    rows = [coded_row(random.Random(7), number) for number in range(20)]
    given = coded_table(schema, rows)
    make_table(tmp_path, "Test.Coded", given, schema=SCHEMA)
    found = open_table(tmp_path, "Test.Coded").to_arrow(given.column_names, dictionaries=False)
    assert found.to_pylist() == given.to_pylist()


def test_values_without_a_column_type_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match=r"(?s)column Tags.*struct"):
        make_table(tmp_path, "NS.T", {"Tags": [{"a": 1}]})
