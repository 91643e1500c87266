"""`sparkhaven symbols`: what the symbol tables of a table hold, by column and date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.layout import LocationKey
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

TABLE = "Test.Named"
SCHEMA = (
    b'<Table namespace="Test" name="Named" storageType="NestedPartitionedOnDisk">'
    b'<Partitions keyFormula="${autobalance_single}"/>'
    b'<Column name="Date" dataType="String" columnType="Partitioning"/>'
    b'<Column name="Few" dataType="String"/><Column name="Many" dataType="String"/>'
    b'<Column name="Blob" dataType="String" symbolTable="None"/><Column name="Tags" dataType="StringSet"/></Table>'
)


def rows(first: int, count: int, tags: int = 2) -> pa.Table:
    numbers = range(first, first + count)
    texts = {
        "Few": ["abc"[number % 3] if number % 5 else None for number in numbers],
        "Many": [f"id-{number}" for number in numbers],
        "Blob": [f"id-{number}" for number in numbers],
        "Tags": [[f"tag{number % tags}"] for number in numbers],
    }
    kinds = {"Tags": pa.list_(pa.string())}
    return pa.table({name: pa.array(values, kinds.get(name, pa.string())) for name, values in texts.items()})


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    made = IntradayRows(tmp_path, SCHEMA, fs=FS)
    made.commit(
        {("a", "2024-03-05"): rows(0, 900), ("b", "2024-03-05"): rows(600, 900), ("a", "2024-03-06"): rows(0, 9)}
    )
    return made


def use(db: IntradayRows, *words: str) -> dict[tuple[str, str], dict[str, Any]]:
    code, value = run_json(db.root, "symbols", TABLE, *words)
    assert code == 0
    return {(line["column"], line["date"]): line for line in value["symbols"]}


def test_ids_texts_and_bytes_by_column_and_date(db: IntradayRows) -> None:
    lines = use(db)
    assert sorted(lines) == [(c, d) for c in ("Few", "Many", "Tags") for d in ("2024-03-05", "2024-03-06")]
    few = lines["Few", "2024-03-05"]
    figures = ("locations", "rows", "ids", "distinct", "duplicates", "bytes", "advice")
    assert [few[name] for name in figures] == [2, 1800, 6, 3, 0, 6 * 8 + 6, None]
    many = lines["Many", "2024-03-05"]
    assert [many[name] for name in figures[:-2]] == [2, 1800, 1800, 1500, 0]
    assert many["bytes"] == sum(
        path.stat().st_size for path in db.root.glob("Intraday/**/2024-03-05/**/Many.sym*") if path.is_file()
    )
    assert many["advice"] == 'a text occurs 1.0 times in a location: symbolTable="None" takes less space'
    assert lines["Many", "2024-03-06"]["advice"] is None, "too few rows"


def test_dates_are_chosen(db: IntradayRows) -> None:
    assert {date for _, date in use(db, "--dates", "2024-03-06")} == {"2024-03-06"}
    assert {date for _, date in use(db, "--dates", "2024-03-01..2024-03-05")} == {"2024-03-05"}
    assert run(db.root, "symbols", TABLE, "--dates", "2020-01-01").exit_code == 2


def test_duplicates_of_another_writer(db: IntradayRows) -> None:
    path = db.place.intraday_location(LocationKey("a", "2024-03-06")) / "Few.sym.bytes"
    assert sorted(path.read_bytes()) == sorted(b"bca")
    path.write_bytes(b"aba")
    few = use(db)["Few", "2024-03-06"]
    assert (few["ids"], few["distinct"], few["duplicates"]) == (3, 2, 1)
    assert few["advice"] == "entries that repeat a text: 1. A merge writes each text once"


def test_history_counts_its_own_tables(db: IntradayRows) -> None:
    merge(db.layout, "2024-03-05", table=db.table)
    merge(db.layout, "2024-03-06", table=db.table, format="parquet")
    lines = use(db)
    many = lines["Many", "2024-03-05"]
    assert (many["locations"], many["rows"], many["ids"], many["distinct"]) == (1, 1800, 1500, 1500)
    assert not [date for _, date in lines if date == "2024-03-06"], "Parquet has no symbol tables"
    assert "no symbol tables" in run(db.root, "symbols", TABLE, "--dates", "2024-03-06").stdout


def test_a_set_that_is_nearly_full(db: IntradayRows) -> None:
    db.commit({("c", "2024-03-07"): rows(0, 100, tags=60)})
    tags = use(db)["Tags", "2024-03-07"]
    assert (tags["ids"], tags["advice"]) == (60, "60 of 64 texts are used: a column of type String[] has no limit")
    assert "60 of 64" in run(db.root, "symbols", TABLE).stdout


def test_a_damaged_table(db: IntradayRows) -> None:
    path = db.place.intraday_location(LocationKey("a", "2024-03-06")) / "Few.sym"
    path.write_bytes(b"\xff" * 24)
    code, value = run_json(db.root, "symbols", TABLE)
    assert (code, value["error"]["type"]) == (1, "CorruptFileError")
    assert run(db.root, "symbols", "No.Table").exit_code == 2
