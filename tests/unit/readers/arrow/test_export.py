"""Rows into files: what other tools read from them, and that a file is whole or absent."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.export import check_target, export
from sparkhaven.store.errors import SettingsError
from tests.support.tables.small_tables import SmallTable


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path / "db")
    made.add("a", "2026-11-20", {"Sym": ["X", None], "Size": [1, None], "Note": ["", None], "At": [1, 2]})
    made.add("b", "2026-11-20", {"Sym": ["Y", "X"], "Size": [3, 4], "Live": [True, None]})
    return made


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_typed_files_hold_the_rows(small: SmallTable, tmp_path: Path, suffix: str) -> None:
    table = open_table(small.root, "NS.T")
    path = tmp_path / f"out{suffix}"
    assert export(table.to_batches(dictionaries=False, batch_rows=1), path) == 4
    with pa.memory_map(str(path)) as source:
        found = pyarrow.parquet.read_table(path) if suffix == ".parquet" else pa.ipc.open_file(source).read_all()
        assert found.equals(table.to_arrow(dictionaries=False))


def test_csv_tells_null_from_empty(small: SmallTable, tmp_path: Path) -> None:
    table = open_table(small.root, "NS.T")
    assert export(table.to_batches(["Sym", "Size", "Note"], dictionaries=False), tmp_path / "out.csv") == 4
    text = (tmp_path / "out.csv").read_text()
    assert text.splitlines()[:3] == ['"Sym","Size","Note"', '"X",1,""', ",,"]
    assert list(csv.reader(text.splitlines()))[3:] == [["Y", "3", ""], ["X", "4", ""]]


def test_a_failed_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    path.write_bytes(b"old")
    schema = pa.schema([("a", pa.int32())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([1], pa.int32())], schema=schema)
        raise ValueError("the disk went away")

    with pytest.raises(ValueError, match="the disk went away"):
        export(pa.RecordBatchReader.from_batches(schema, batches()), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize("place", [".", "Systems"])
def test_copies_take_no_file(small: SmallTable, tmp_path: Path, place: str) -> None:
    """A snapshot with a file more is no snapshot."""
    copy = tmp_path / "monday"
    (copy / "Systems").mkdir(parents=True)
    (copy / "snapshot.json").touch()
    before = sorted(copy.rglob("*"))
    with pytest.raises(SettingsError, match="the root is a snapshot, which is not written"):
        export(open_table(small.root, "NS.T").to_batches(dictionaries=False), copy / place / "rows.csv")
    assert sorted(copy.rglob("*")) == before


def test_names_that_say_no_format(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        check_target(tmp_path / "out.xlsx")
    assert caught.value.expected == "a name that ends in .parquet, .csv, .arrow"
    with pytest.raises(SettingsError, match="no such directory"):
        check_target(tmp_path / "nowhere" / "out.csv")
