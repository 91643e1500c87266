"""Columns whose names differ in case only: refused, with a way in; and tables of earlier releases that have them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.live.live_column import served_schema
from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, load_history
from sparkhaven.store.schema.deployed.history import Version, encode_history
from tests.support.commands import run, run_json

TABLE = "Test.Event"
STREAM = """name = "s"
table = "Test.Event"
schema = "Test.Event.schema"
[feed]
type = "files"
path = "feed"
format = "{format}"
[columns]
Big = {{ from = "P" }}
Small = {{ from = "p" }}
[partition]
internal = {{ fixed = "0" }}
value = {{ fixed = "2026-11-22" }}
"""


def schema(*columns: str, extra: str = "") -> str:
    lines = [f'  <Column name="{name}" dataType="double"/>' for name in columns]
    head = '<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">\n  <Column name="Date"'
    return "\n".join([f'{head} dataType="String" columnType="Partitioning"/>', *lines, f"{extra}</Table>\n"])


def ingested(base: Path, form: str = "json") -> Path:
    """A database with two rows whose fields ``p`` and ``P`` went into columns of other names."""
    (base / "Test.Event.schema").write_text(schema("Small", "Big"))
    (base / "s.toml").write_text(STREAM.format(format=form))
    (base / "feed").mkdir()
    rows = [{"p": 1.5, "P": 0.02}, {"P": 0.04, "p": 2.5}]
    if form == "json":
        (base / "feed/1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        (base / "feed/1.csv").write_text("p,P\n1.5,0.02\n2.5,0.04\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), base / "feed/1.parquet")
    found = run(base / "db", "ingest", str(base / "s.toml"), "--once", "--local")
    assert found.exit_code == 0, found.stderr
    return base / "db"


def as_by_an_earlier_release(root: Path) -> None:
    """Names ``Small`` and ``Big`` become ``p`` and ``P``, in the schema and in the files of a new table."""
    layout, name = Layout(root), TableName.parse(TABLE)
    text = schema("p", "P").encode()
    (first,) = load_history(TablePlace(Fs(), layout, name))
    names = {"Small": "p", "Big": "P"}
    from dataclasses import replace

    columns = tuple(replace(column, name=names.get(column.name, column.name)) for column in first.columns)
    history = [Version(1, sha256(text).hexdigest(), columns)]
    layout.schema_history(name).write_bytes(encode_history([first, replace(history[0], version=2)]))
    layout.schema(name).write_bytes(text)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_fields_that_differ_in_case_come_in_by_from(tmp_path: Path, form: str) -> None:
    root = ingested(tmp_path, form)
    found = open_table(root, TABLE).to_arrow(["Small", "Big"]).to_pylist()
    assert found == [{"Small": 1.5, "Big": 0.02}, {"Small": 2.5, "Big": 0.04}]
    assert run(root, "sql", f'SELECT "Big" FROM {TABLE} WHERE "Big" < 0.03').exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("twin", [("p", "P"), ("date",)])
def test_a_schema_with_twins_is_refused_everywhere(tmp_path: Path, twin: tuple[str, ...]) -> None:
    root = ingested(tmp_path)
    file = tmp_path / "Test.Event.schema"
    file.write_text(schema("Small", "Big", *twin))
    assert run(root, "schema", "check", str(file)).exit_code == 1
    for words in (
        ["ingest", str(tmp_path / "s.toml"), "--once"],
        ["ingest", str(tmp_path / "s.toml"), "--dry-run"],
        ["schema", "deploy", str(file)],
        ["import", TABLE, "--from", str(tmp_path), "--layout", "flat", "--schema", str(file)],
    ):
        found = run(root, *words)
        assert found.exit_code == 2 and "E112" in found.stderr and "from =" in found.stderr, (words, found.stderr)


@pytest.mark.slow
def test_a_table_of_an_earlier_release_is_read_and_each_other_reader_says_why_not(tmp_path: Path) -> None:
    root = ingested(tmp_path)
    as_by_an_earlier_release(root)
    code, found = run_json(root, "read", TABLE, "--columns", "p,P")
    assert (code, found["rows"]) == (0, 2)
    assert run(root, "verify", "--deep").exit_code == 0
    day = ["--date", "2026-11-22"]
    for words in (
        ["sql", f"SELECT * FROM {TABLE}"],
        ["export", TABLE, "--layout", "flat", "--out", str(tmp_path / "out")],
        ["merge", TABLE, *day, "--local", "--format", "parquet"],
        ["merge", TABLE, *day, "--local", "--format", "both"],
    ):
        refused = run(root, *words)
        assert refused.exit_code in (1, 2) and "apart" in refused.stderr, (words, refused.stderr)
        assert "p and P" in refused.stderr and "schema deploy FILE --rename P=NEW" in refused.stderr
    assert not (tmp_path / "out").exists() and not list(root.rglob("*.parquet"))
    with pytest.raises(SchemaMismatchError, match="apart"):
        served_schema(load_deployed(TablePlace(Fs(), Layout(root), TableName.parse(TABLE))))
    for words in (["merge", TABLE, *day, "--local"], ["validate", TABLE, *day], ["truncate", TABLE, *day]):
        done = run(root, *words)
        assert done.exit_code == 0, done.stderr
    file = tmp_path / "Test.Event.schema"
    file.write_text(schema("p", "Big"))
    assert run(root, "schema", "deploy", str(file), "--rename", "P=Big").exit_code == 0
    assert run(root, "sql", f'SELECT "Big", p FROM {TABLE}').exit_code == 0
    assert open_table(root, TABLE).to_arrow(["Big"])["Big"].to_pylist() == [0.02, 0.04]


@pytest.mark.slow
def test_an_index_that_is_not_built_is_told(tmp_path: Path) -> None:
    root = ingested(tmp_path)
    file = tmp_path / "Test.Event.schema"
    file.write_text(schema("Small", "Big", extra='<DataIndex columns="Small,Date"/>'))
    line = f"DataIndex (Small, Date) of {TABLE} is not built"
    for words in (
        ["ingest", str(tmp_path / "s.toml"), "--dry-run"],
        ["ingest", str(tmp_path / "s.toml"), "--once"],
        ["schema", "deploy", str(file)],
        ["merge", TABLE, "--date", "2026-11-22", "--local"],
    ):
        found = run(root, *words)
        assert found.exit_code == 0 and line in found.stderr, (words, found.stderr)
    assert "W155" in run(root, "schema", "check", str(file)).stdout
