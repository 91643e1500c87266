"""Whatever command takes a directory of data files asks who manages it: no removed or leftover file becomes rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkhaven
from tests.support.commands import run, run_json
from tests.support.ingest.delta.tables import put_version
from tests.support.writers.import_cases import SMALL, small

DATE = "2026-11-20"
STREAM = """name = "s"
table = "NS.T"
schema = "NS.T.schema"
[feed]
type = "files"
path = "%s"
format = "parquet"
settle = "0 s"
[partition]
internal = { fixed = "0" }
value = { fixed = "2026-11-20" }
"""


def rows(path: Path, *x: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"Sym": ["a"] * len(x), "X": pa.array(x, pa.int32())}), path)
    return path


def marked(marker: str) -> Callable[[Path], Path]:
    """A table with two files, one of which its log has removed."""

    def make(base: Path) -> Path:
        rows(base / f"Date={DATE}" / "a.parquet", 1, 2), rows(base / f"Date={DATE}" / "b.parquet", 9)
        (base / marker).parent.mkdir(parents=True, exist_ok=True)
        (base / marker).write_text("{}")
        return base

    return make


TABLES = {
    "Delta": marked(f"_delta_log/{0:020}.json"),
    "Delta, nothing committed": marked("_delta_log/.tmp"),
    "Hudi": marked(".hoodie/hoodie.properties"),
    "a partition of Hudi": marked(f"Date={DATE}/.hoodie_partition_metadata"),
    "Iceberg": marked("metadata/v1.metadata.json"),
    "Paimon": marked("snapshot/snapshot-1"),
}
COMMANDS: dict[str, Callable[[Path, Path], tuple[str, ...]]] = {
    "import": lambda base, path: ("import", "NS.T", "--from", str(path), "--dates", DATE),
    "schema infer": lambda base, path: ("schema", "infer", f"{path}/*.parquet"),
    "schema new": lambda base, path: ("schema", "new", str(base / "NS.T.schema"), f"{path}/*.parquet", "--dry-run"),
    "ingest --dry-run": lambda base, path: ("ingest", stream(base, path), "--dry-run"),
    "ingest --once": lambda base, path: ("ingest", stream(base, path), "--once", "--local"),
}


def stream(base: Path, path: Path) -> str:
    (base / "s.toml").write_text(STREAM % f"{path}/*.parquet")
    return str(base / "s.toml")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    small(tmp_path / "db")
    (tmp_path / "NS.T.schema").write_bytes(SMALL % b"int")
    return tmp_path


def committed(base: Path) -> list[int]:
    return sorted(sparkhaven.open_table(base / "db", "NS.T").to_arrow(["X"])["X"].to_pylist())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", TABLES)
def test_the_directory_of_a_table_is_refused_with_all_that_lies_in_it(base: Path, kind: str, command: str) -> None:
    table = TABLES[kind](base / "lake" / "t")
    places = [table / f"Date={DATE}"]
    if command == "import":
        places += [table] if kind != "Delta" else []
        (base / "link").symlink_to(places[0])
        places.append(base / "link")
    for place in places:
        code, value = run_json(base / "db", *COMMANDS[command](base, place))
        assert (code, value["error"]["type"]) == (2, "SettingsError"), place
        assert value["error"]["what"].endswith("whose log says which files count"), place
        assert value["error"]["where"].startswith((str(table), str(base / "link"))), place
    assert committed(base) == []


def sink(base: Path, *names: str) -> Path:
    """The output of a sink that has committed files by name; b.parquet is what a failed try has left."""
    place = base / "out" / f"Date={DATE}"
    rows(place / "a.parquet", 1, 2), rows(place / "b.parquet", 9)
    lines = [
        {"path": f"file://{place / name}", "size": (place / name).stat().st_size, "action": "add"} for name in names
    ]
    log = base / "out" / "_spark_metadata" / "0"
    log.parent.mkdir()
    log.write_text("\n".join(["v1", *map(json.dumps, lines)]))
    return base / "out"


@pytest.mark.parametrize("place", ["out", f"out/Date={DATE}", "link"])
def test_of_the_output_of_a_sink_its_log_decides(base: Path, place: str) -> None:
    out = sink(base, "a.parquet")
    (base / "link").symlink_to(out / f"Date={DATE}")
    found = run(base / "db", *COMMANDS["import"](base, base / place))
    assert (found.exit_code, committed(base)) == (0, [1, 2]), found.output
    assert "1 file is left out (not committed by _spark_metadata)" in found.stderr


@pytest.mark.parametrize("damage", ["gone", "shorter"])
def test_a_committed_file_that_is_gone_or_of_another_size_ends_an_import(base: Path, damage: str) -> None:
    out = sink(base, "a.parquet", "b.parquet")
    if damage == "gone":
        (out / f"Date={DATE}" / "b.parquet").unlink()
    else:
        rows(out / f"Date={DATE}" / "b.parquet", *range(100))
    code, value = run_json(base / "db", *COMMANDS["import"](base, out))
    assert (code, value["error"]["type"]) == (1, "CorruptFileError")
    assert value["error"]["where"].endswith("b.parquet") and "_spark_metadata" in str(value["error"])
    assert committed(base) == []


def test_a_removed_delta_file_is_merged_by_the_log_alone(base: Path) -> None:
    table = base / "t"
    (table / "_delta_log").mkdir(parents=True)
    fields = [
        {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("Sym", "string"), ("X", "integer"))
    ]
    kept, removed = rows(table / "a.parquet", 9), rows(table / "b.parquet", 1, 2)
    adds = [
        {"add": {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1,
                 "dataChange": True}} for file in (kept, removed)]  # fmt: skip
    meta = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
    schema = json.dumps({"type": "struct", "fields": fields})
    put_version(
        table,
        0,
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**meta, "schemaString": schema, "createdTime": 1}},
        *adds,
    )
    put_version(table, 1, {"remove": {"path": removed.name, "deletionTimestamp": 1, "dataChange": True}})
    code, value = run_json(base / "db", *COMMANDS["schema infer"](base, table))
    assert (code, f"import NS.T --from {table}" in value["error"]["hint"]) == (2, True)
    assert run(base / "db", *COMMANDS["import"](base, table)).exit_code == 0
    assert committed(base) == [9]
