"""Readers through a real day: appends, merge, late rows, re-merge, truncate, delete; and beside a running writer."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.jobs.cli.reading.stats import list_tables, table_figures
from sparkhaven.readers import open_table
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import make, merge

FS = Fs()
NOW = 1_700_000_000.0


def rows_of(root: Path, **options: Any) -> list[tuple[Any, ...]]:
    """Rows of a read as a sorted multiset, without the date."""
    epoch = options.pop("epoch", None)
    table = open_table(root, "Test.Every", epoch=epoch).to_arrow(**options)
    at = table.schema.get_field_index("T")
    table = table.set_column(at, "T", table["T"].cast(pa.int64()))
    names = [name for name in table.column_names if name != "Date"]
    columns = [[comparable(value) for value in table[name].to_pylist()] for name in names]
    return sorted(zip(*columns, strict=True), key=repr)


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(comparable(value) for value in row.values()) for row in rows), key=repr)


def errors(db: IntradayRows) -> list[str]:
    report = verify(FS, db.layout, TABLE, deep=True)
    return [found.text() for found in report.findings if found.severity != "note"]


@pytest.mark.slow
def test_a_day_from_first_row_to_delete(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 90)
    assert rows_of(tmp_path) == expected(rows)
    assert errors(db) == []
    merge(db.layout)
    assert rows_of(tmp_path) == rows_of(tmp_path, tier="history") == rows_of(tmp_path, tier="intraday")
    assert errors(db) == []
    early = rows_of(tmp_path, epoch=1)

    late = [random_row(random.Random(7)) for _ in range(5)]
    db.commit({("a", DAY): as_table(late)})
    assert rows_of(tmp_path) == expected(rows + late)
    assert rows_of(tmp_path, tier="history") == expected(rows)
    assert rows_of(tmp_path, epoch=2) == expected(rows)
    assert rows_of(tmp_path, epoch=1) == early
    found = table_figures(db.place)
    assert found["rows"] == 95
    assert found["dates"] == [{"date": DAY, "rows": 95, "intraday": 95, "history": 90, "bytes": found["bytes"]}]
    assert found["waste"] == 0
    assert list_tables(FS, db.layout)[0]["rows"] == 95

    merge(db.layout, rewrite=True)
    assert rows_of(tmp_path, tier="history") == rows_of(tmp_path) == expected(rows + late)
    assert rows_of(tmp_path, epoch=2) == expected(rows)
    assert errors(db) == []
    assert table_figures(db.place)["waste"] > 0  # the replaced generation stands until its grace is over

    pinned = open_table(tmp_path, "Test.Every")
    truncate(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW)
    assert rows_of(tmp_path) == expected(rows + late)
    assert rows_of(tmp_path, tier="intraday") == []
    assert pinned.count(tier="intraday") == 95  # its files are still there
    assert errors(db) == []
    delete(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW + 4000)
    assert rows_of(tmp_path) == expected(rows + late)
    assert pinned.count(where="L is not null or L is null") == 95
    assert errors(db) == []
    with pytest.raises(SettingsError, match="can no longer be read"):
        rows_of(tmp_path, epoch=1)


@pytest.mark.slow
def test_a_reader_beside_a_writer_sees_whole_epochs(tmp_path: Path) -> None:
    schema = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
      <Partitions keyFormula="${autobalance_single}"/>
      <Column name="Date" dataType="String" columnType="Partitioning"/>
      <Column name="Sym" dataType="String"/><Column name="Epoch" dataType="long"/><Column name="Note" dataType="String"
      symbolTable="None"/></Table>"""
    db = IntradayRows(tmp_path, schema)
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            epoch = 0
            while not stop.is_set() and epoch < 400:
                epoch += 1
                columns = {"Sym": f"s{epoch}", "Epoch": epoch, "Note": f"n{epoch}"}
                part = pa.table({name: [value] * epoch_rows(epoch) for name, value in columns.items()})
                db.commit({("a", DAY): part, ("b", DAY): part})
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        opened = 0
        while opened < 25 and not failures:
            table = open_table(tmp_path, "NS.T")
            epoch = table.epochs.get("rows", 0)
            found = table.to_arrow()
            wanted = [n for n in range(1, epoch + 1) for _ in range(epoch_rows(n))]
            assert found["Epoch"].to_pylist() == wanted * 2
            assert found["Sym"].to_pylist() == [f"s{n}" for n in wanted] * 2
            assert found["Note"].to_pylist() == [f"n{n}" for n in wanted] * 2
            opened += epoch > 0
    finally:
        stop.set()
        writer.join()
    assert failures == []


def epoch_rows(epoch: int) -> int:
    return epoch % 3 + 1
