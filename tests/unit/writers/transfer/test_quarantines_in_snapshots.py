"""Quarantines in snapshots: rows of the copied epochs, also where streams of two tables share one Delta table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.commands import run, run_json

SCHEMA = """<Table namespace="Bad" name="{name}" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/><Column name="N" dataType="long"/>
</Table>
"""
STREAM = """name = "rows"
table = "Bad.{name}"
schema = "{name}.schema"
[feed]
type = "files"
path = "{name}/*.json"
format = "json"
max_per_trigger = {{ files = 1 }}
[partition]
internal = {{ fixed = "0" }}
value = {{ fixed = "2024-01-01" }}
"""
TABLES = ("A", "B")


def ingest(base: Path, root: Path, name: str, *rows: object) -> None:
    """Ingests one more file of a table."""
    feed = base / name
    feed.mkdir(exist_ok=True)
    (base / f"{name}.schema").write_text(SCHEMA.format(name=name))
    (base / f"{name}.toml").write_text(STREAM.format(name=name))
    text = "".join(json.dumps({"N": row}) + "\n" for row in rows)
    (feed / f"{len(list(feed.iterdir()))}.json").write_text(text)
    result = run(root, "ingest", base / f"{name}.toml", "--once")
    assert result.exit_code == 0, result.output


def rejected(root: Path, name: str) -> list[str]:
    result = run(root, "quarantine", "list", f"Bad.{name}", "rows", "--json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return sorted(row["payload"] for row in rows)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in TABLES:
        ingest(tmp_path, tmp_path / "db", name, 1, f"bad{name}", 2)
    return tmp_path / "db"


def test_restored_tables_share_a_quarantine_as_before(tmp_path: Path, root: Path) -> None:
    before = {name: rejected(root, name) for name in TABLES}
    assert all(before.values())
    assert run(root, "snapshot", "--out", tmp_path / "snap").exit_code == 0
    for name in TABLES:
        ingest(tmp_path, root, name, f"later{name}", 3)
        assert rejected(root, name) != before[name]
    for back, words in ((tmp_path / "both", ((),)), (tmp_path / "one by one", (("Bad.A",), ("Bad.B",)))):
        for names in words:
            assert run(back, "restore", tmp_path / "snap", *names).exit_code == 0
        shutil.rmtree(back / ".spark", ignore_errors=True)
        for name in TABLES:
            assert rejected(back, name) == before[name]
            result = run(back, "ingest", tmp_path / f"{name}.toml", "--once")  # goes on, and rejects what came later
            assert result.exit_code == 0, result.output
            assert rejected(back, name) == rejected(root, name)
            assert run_json(back, "read", f"Bad.{name}")[1]["rows"] == 3
        assert run(back, "verify", "--deep").exit_code == 0


def test_replaced_table_has_the_rejected_rows_of_its_epochs(tmp_path: Path, root: Path) -> None:
    before = {name: rejected(root, name) for name in TABLES}
    assert run(root, "snapshot", "--out", tmp_path / "snap").exit_code == 0
    for name in TABLES:
        ingest(tmp_path, root, name, f"later{name}", 3)
    kept = rejected(root, "B")
    assert run(root, "restore", tmp_path / "snap", "Bad.A", "--replace", "Bad.A").exit_code == 0
    assert (rejected(root, "A"), rejected(root, "B")) == (before["A"], kept)
    assert run(root, "ingest", tmp_path / "A.toml", "--once").exit_code == 0
    assert len(rejected(root, "A")) == len(before["A"]) + 1
    assert rejected(root, "B") == kept


def test_another_quarantine_is_not_replaced(tmp_path: Path, root: Path) -> None:
    assert run(root, "snapshot", "--out", tmp_path / "snap").exit_code == 0
    shutil.copytree(root / ".quarantine", tmp_path / "back" / ".quarantine")
    version = min((tmp_path / "back").rglob("0*.json"))  # the first, which has the id
    assert b'"id":"' in version.read_bytes()
    version.write_bytes(version.read_bytes().replace(b'"id":"', b'"id":"0'))
    code, failed = run_json(tmp_path / "back", "restore", str(tmp_path / "snap"))
    assert (code, failed["error"]["type"]) == (2, "TableExistsError")
    assert ".quarantine" in failed["error"]["where"]
