"""Files whose char columns have the null 0xFFFE, as Deephaven wrote them before November 2021: each reader takes it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.live.live_table import LiveTable
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.layout import TableName
from sparkhaven.store.types.datatypes import BY_NAME, CHAR_NULL
from sparkhaven.store.types.null_char import as_written, char_type, chosen_null_char, with_null_char
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run, run_json
from tests.support.tables import naive_reader
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS

DAY, OLD = "2024-03-05", 0xFFFE
TABLE = TableName("Test", "Chars")
SCHEMA = (
    b'<Table namespace="Test" name="Chars" storageType="NestedPartitionedOnDisk">'
    b'<Partitions keyFormula="${autobalance_single}"/>'
    b'<Column name="Date" dataType="String" columnType="Partitioning"/>'
    b'<Column name="C" dataType="char"/><Column name="N" dataType="long"/></Table>'
)
UNITS = [65, OLD, None, 66] * 300
NEW_READING = UNITS
OLD_READING = [None if unit == OLD else CHAR_NULL if unit is None else unit for unit in UNITS]


def old_files(root: Path, units: list[int | None]) -> IntradayRows:
    """A table that the new convention takes for one with the value 0xFFFE, with statistics."""
    made = IntradayRows(root, SCHEMA, fs=FS, statistics=True)
    numbers = pa.array(range(len(units)), pa.int64())
    made.commit({("a", DAY): pa.table({"C": pa.array(units, pa.uint16()), "N": numbers})})
    return made


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    return old_files(tmp_path / "db", UNITS)


def units(db: IntradayRows, null: str | int | None = None, **selection: Any) -> list[int | None]:
    table = open_table(db.root, "Test.Chars", null_char=null)
    values: list[int | None] = table.to_arrow(["C"], **selection).column("C").to_pylist()
    return values


def test_the_setting_is_one_of_two() -> None:
    assert chosen_null_char(None, {}) == CHAR_NULL
    assert chosen_null_char(None, {"SPARKHAVEN_NULL_CHAR": "0xfffe"}) == OLD
    assert chosen_null_char("0xFFFF", {"SPARKHAVEN_NULL_CHAR": "0xFFFE"}) == CHAR_NULL
    for wrong in ("65534", "", 7):
        with pytest.raises(SettingsError, match="unknown null of char"):
            chosen_null_char(wrong, {})


def test_workers_get_the_same_type() -> None:
    again = pickle.loads(pickle.dumps(char_type(OLD)))
    assert again == char_type(OLD) != BY_NAME["char"]
    assert again.null == OLD


def test_arrow(db: IntradayRows, monkeypatch: pytest.MonkeyPatch) -> None:
    assert units(db) == NEW_READING
    assert units(db, "0xFFFE") == units(db, OLD) == OLD_READING
    monkeypatch.setenv("SPARKHAVEN_NULL_CHAR", "0xFFFE")
    assert units(db) == OLD_READING and units(db, "0xFFFF") == NEW_READING


def test_filters_do_not_believe_statistics(db: IntradayRows) -> None:
    assert units(db, OLD, where="C is null") == [None] * 300
    assert units(db, OLD, where="C = '￿'") == [CHAR_NULL] * 300
    assert units(db, OLD, where="C = '￾'") == []
    assert units(db, where="C = '￾'") == [OLD] * 300


def test_commands(db: IntradayRows, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    assert run_json(db.root, "read", "Test.Chars", "--null-char", "0xFFFE", "--out", str(out))[1]["rows"] == len(UNITS)
    assert duckdb.sql(f"select count(*) - count(C) from '{out}'").fetchall() == [(300,)]
    wrong = run(db.root, "read", "Test.Chars", "--null-char", "x")
    assert wrong.exit_code == 2 and "0xFFFF or 0xFFFE" in wrong.stderr
    for command in ("serve", "import"):
        assert "--null-char" in run(db.root, command, "--help").stdout


def test_sql(db: IntradayRows, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "select count(*) as n from Test.Chars where C is null"
    monkeypatch.setenv("SPARKHAVEN_NULL_CHAR", "0xFFFE")
    assert run_json(db.root, "sql", query)[1]["rows"] == 1
    assert '"n":300' in run(db.root, "sql", query, "--json").stdout.replace(" ", "").replace("'", '"')


def test_spark_without_a_session(db: IntradayRows) -> None:
    options = {"root": str(db.root), "path": "Test.Chars", "nullChar": "0xFFFE", "char": "int"}
    source = DeephavenSource(options)
    reader = source.reader(source.schema())
    tasks = pickle.loads(pickle.dumps(list(reader.partitions())))
    again = pickle.loads(pickle.dumps(reader))
    values = [unit for task in tasks for batch in again.read(task) for unit in batch.column("C").to_pylist()]
    assert values == OLD_READING
    with pytest.raises(SettingsError, match="unknown null of char"):
        DeephavenSource(options | {"nullChar": "x"}).schema()


@pytest.mark.parametrize("null", [OLD, CHAR_NULL])
def test_live(db: IntradayRows, null: int) -> None:
    """An engine has the null 0xFFFF only, so it is given that."""
    table = LiveTable(db.place, null_char=null)
    values = table.values(table.places()[0], "C", 0, len(UNITS), len(UNITS))
    found = np.frombuffer(values.buffers()[1], np.uint16).tolist()
    due = OLD_READING if null == OLD else NEW_READING
    assert values.null_count == 0 and found == [CHAR_NULL if unit is None else unit for unit in due]


def exported(db: IntradayRows, out: Path, *words: str) -> Path:
    options = ["--layout", "hive", "--leaf", "deephaven", *words]
    done = run(db.root, "export", "Test.Chars", "--out", str(out), *options)
    assert done.exit_code == 0, done.stderr
    return next(out.glob("Date=*/*"))


def test_a_tree_of_old_files_is_imported(tmp_path: Path) -> None:
    db = old_files(tmp_path / "db", [65, OLD, 66])
    exported(db, tmp_path / "tree")
    (tmp_path / "tree" / "_manifest.json").unlink()  # as a tree of another program
    for number, (words, due) in enumerate((((), [65, OLD, 66]), (("--null-char", "0xFFFE"), [65, None, 66]))):
        other = IntradayRows(tmp_path / f"other{number}", SCHEMA, fs=FS)
        add_partition(FS, other.layout, "Test", "0")
        done = run(other.root, "import", "Test.Chars", "--from", str(tmp_path / "tree"), "--layout", "hive", *words)
        assert done.exit_code == 0, done.stderr
        assert units(other) == due, "history has the null of today"


def test_an_import_refuses_what_history_cannot_hold(db: IntradayRows, tmp_path: Path) -> None:
    exported(db, tmp_path / "tree")
    (tmp_path / "tree" / "_manifest.json").unlink()
    other = IntradayRows(tmp_path / "other", SCHEMA, fs=FS)
    add_partition(FS, other.layout, "Test", "0")
    words = ["--from", str(tmp_path / "tree"), "--layout", "hive", "--null-char", "0xFFFE"]
    done = run(other.root, "import", "Test.Chars", *words)
    assert done.exit_code == 2
    assert "65535" in done.stderr


def test_an_export_has_the_null_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = old_files(tmp_path / "db", [65, OLD, 66])
    plain = run_json(db.root, "export", "Test.Chars", "--out", str(tmp_path / "x"), "--layout", "kv", "--dry-run")[1]
    monkeypatch.setenv("SPARKHAVEN_NULL_CHAR", "0xFFFE")
    leaf = exported(db, tmp_path / "tree")
    assert naive_reader.read(leaf, "C", "char", 3) == [65, None, 66]
    other = run_json(db.root, "export", "Test.Chars", "--out", str(tmp_path / "x"), "--layout", "kv", "--dry-run")[1]
    assert plain["id"] != other["id"], "another content"


def test_a_user_table(tmp_path: Path) -> None:
    data = pa.table({"C": pa.array([65, OLD, 66], pa.uint16())})
    schema = (
        b'<Table namespace="mine" name="Chars" storageType="SplayedOnDisk"><Column name="C" dataType="char"/></Table>'
    )
    sparkhaven.save_table(tmp_path, "mine.Chars", data, schema=schema)
    for null, due in ((None, [65, OLD, 66]), ("0xFFFE", [65, None, 66])):
        table = open_table(tmp_path, "mine.Chars", null_char=null)
        assert table.to_arrow(["C"]).column("C").to_pylist() == due
        assert len(table.to_arrow(["C"], where="C is null")) == due.count(None)


# --- arrays ------------------------------------------------------------------------------------------------

ARRAYS = SCHEMA.replace(b'<Column name="N"', b'<Column name="Cs" dataType="char[]"/><Column name="N"')
Lists = list[list[int | None] | None]
LISTS: Lists = [[65, OLD, None], [], None, [OLD]] * 3


def with_arrays(root: Path, lists: Lists = LISTS) -> IntradayRows:
    made = IntradayRows(root, ARRAYS, fs=FS, statistics=True)
    kind = pa.list_(pa.uint16())
    count = len(lists)
    rows = {"C": pa.array([OLD, None] * (count // 2), pa.uint16()), "Cs": pa.array(lists, kind), "N": range(count)}
    made.commit({("a", DAY): pa.table(rows)})
    return made


def lists(root: Path, null: str | None = None) -> Lists:
    found: list[list[int | None] | None] = (
        open_table(root, "Test.Chars", null_char=null).to_arrow(["Cs"])["Cs"].to_pylist()
    )
    return found


def test_arrays_have_the_null_too(tmp_path: Path) -> None:
    db = with_arrays(tmp_path / "db")
    old = [[65, None, CHAR_NULL], [], None, [None]] * 3
    assert (lists(db.root), lists(db.root, "0xFFFE")) == (LISTS, old)
    column = with_null_char(db.schema, OLD).column("Cs")
    assert column is not None
    again = pickle.loads(pickle.dumps(column))
    assert again.type == column.type != db.schema.column("Cs").type  # type: ignore[union-attr]
    assert as_written(again).type == db.schema.column("Cs").type  # type: ignore[union-attr]
    source = DeephavenSource({"root": str(db.root), "path": "Test.Chars", "nullChar": "0xFFFE", "char": "int"})
    reader = source.reader(source.schema())
    read = [v for task in reader.partitions() for batch in reader.read(task) for v in batch.column("Cs").to_pylist()]
    assert read == old


def test_arrays_of_old_files_are_imported_with_the_null_of_today(tmp_path: Path) -> None:
    schema = ARRAYS.replace(b'<Column name="C" dataType="char"/>', b"")
    db = IntradayRows(tmp_path / "db", schema, fs=FS)
    cells = pa.array([[65, OLD], [OLD], [], None], pa.list_(pa.uint16()))
    db.commit({("a", DAY): pa.table({"Cs": cells, "N": range(4)})})
    exported(db, tmp_path / "tree")
    (tmp_path / "tree" / "_manifest.json").unlink()
    for number, (words, null) in enumerate((((), OLD), (("--null-char", "0xFFFE"), None))):
        other = IntradayRows(tmp_path / f"other{number}", schema, fs=FS)
        add_partition(FS, other.layout, "Test", "0")
        done = run(other.root, "import", "Test.Chars", "--from", str(tmp_path / "tree"), "--layout", "hive", *words)
        assert done.exit_code == 0, done.stderr
        assert lists(other.root) == [[65, null], [null], [], None]
