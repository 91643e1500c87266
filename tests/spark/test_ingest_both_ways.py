"""`ingest --once` in Spark and in this process: the same bytes, and each goes on where the other has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.content.raw_file import SMALL_BATCH
from sparkhaven.readers.checks.verify import verify
from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.format.table.table_size import decode
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run
from tests.support.spark.one_session import one_session

pytestmark = pytest.mark.spark

TABLE = TableName("Test", "Both")
SCHEMA = """<Table namespace="Test" name="Both" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Src" dataType="String"/>
  <Column name="N" dataType="long"/>
  <Column name="Half" dataType="double"/>
  <Column name="At" dataType="Instant"/>
  <Column name="Note" dataType="String" symbolTable="None"/>
</Table>"""
STREAM = """name = "both"
table = "Test.Both"
schema = "Test.Both.schema"
[feed]
type = "files"
path = "feed"
format = "json"
max_per_trigger = { bytes = "16MiB" }
[columns]
At = { unit = "iso" }
[partition]
internal = { column = "Src" }
value = { column = "At", zone = "UTC", format = "yyyy-MM-dd" }
clock = "2026-11-22T00:00:00Z"
"""
ROWS = 32_000  # of a file of more than half of what one task does alone
OF_A_RUN = (".log", ".lock", ".head", ".removals", ".quarantine")  # ids, times, paths of the root


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with one_session():
        yield


def put(base: Path, number: int, rows: int, bad: int = 0) -> None:
    """A file of rows for two sources and two dates."""
    lines = [
        json.dumps(
            {
                "Src": "ab"[n % 2],
                "N": number * ROWS + n,
                "Half": None if n % 5 == 0 else n / 2,
                "At": f"2026-11-{20 + n % 3 // 2}T10:{n % 60:02}:00Z",
                "Note": "é" * (n % 3) + "x" * 60,
            }
        )
        for n in range(rows)
    ]
    lines += ['{"Src": "a", "N": "x"}'] * bad
    (base / "feed" / f"{number}.json").write_text("\n".join(lines) + "\n")


def ingest(base: Path, root: str, way: str) -> tuple[dict[str, Any], list[str]]:
    """The result, and the lines of progress without their times."""
    found = run(base / root, "ingest", str(base / "both.toml"), "--once", way, "--json")
    assert found.exit_code == 0, found.stderr
    lines = [line.split(" ", 1)[1].partition(" in ")[0] for line in found.stderr.splitlines()]
    value = json.loads(found.stdout)
    value.pop("seconds")
    return value, [line for line in lines if " runs" not in line and not line.startswith("Spark starts")]


def files(root: Path) -> dict[str, object]:
    """Every file of the tables and schemas; ``table.size`` without its time."""
    found = [path for name in ("Intraday", "Schemas") for path in (root / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): content(path) for path in sorted(found) if path.suffix not in OF_A_RUN}


def content(path: Path) -> object:
    data = path.read_bytes()
    return replace(decode(data, path), last_modified_ms=0) if path.name == TABLE_SIZE else data


def quarantined(root: Path) -> list[dict[str, Any]]:
    lines = run(root, "quarantine", "list", str(TABLE), "both", "--json").stdout.splitlines()
    return [{name: value for name, value in json.loads(line).items() if "ime" not in name} for line in lines]


def check_same(base: Path) -> None:
    both = base / "spark", base / "here"
    trees = [files(root) for root in both]
    assert trees[0].keys() == trees[1].keys() and len(trees[0]) > 40
    assert [name for name in trees[0] if trees[0][name] != trees[1][name]] == []
    states = [load_stream(StreamPlace(Fs(), Layout(root), TABLE, "both"), cached=False) for root in both]
    for name in ("epoch", "files", "horizon", "rejected"):
        assert getattr(states[0], name) == getattr(states[1], name), name
    timeless = [{key: replace(at, time_ms=0, made_ms=0) for key, at in state.locations.items()} for state in states]
    assert timeless[0] == timeless[1]
    assert all(verify(Fs(), Layout(root), TABLE, deep=True).errors == 0 for root in both)


def test_both_ways_write_the_same_bytes_and_take_turns(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "Test.Both.schema").write_text(SCHEMA)
    (tmp_path / "both.toml").write_text(STREAM)
    for number in range(4):
        put(tmp_path, number, ROWS)
    size = (tmp_path / "feed" / "0.json").stat().st_size
    assert SMALL_BATCH < 2 * size < 3 * size < 16 << 20, "several tasks a batch, more than one batch"
    spark, here = ingest(tmp_path, "spark", "--spark"), ingest(tmp_path, "here", "--local")
    assert spark == here and (here[0]["rows"], here[0]["epochs"]) == (4 * ROWS, 2)
    check_same(tmp_path)

    put(tmp_path, 4, 100, bad=3)
    put(tmp_path, 5, 100)
    spark, here = ingest(tmp_path, "spark", "--local"), ingest(tmp_path, "here", "--spark")
    assert spark == here and (here[0]["rows"], here[0]["rejected"], here[0]["epochs"]) == (200, 3, 1)
    check_same(tmp_path)
    assert (
        quarantined(tmp_path / "spark") == quarantined(tmp_path / "here") and len(quarantined(tmp_path / "here")) == 3
    )

    assert ingest(tmp_path, "spark", "--spark") == ingest(tmp_path, "here", "--local")
    check_same(tmp_path)


def test_a_first_start_that_commits_nothing_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "Test.Both.schema").write_text(SCHEMA)
    (tmp_path / "both.toml").write_text(STREAM.replace("[partition]", "[bad_rows]\nmax_rows = 0\n[partition]", 1))
    start = ["ingest", str(tmp_path / "both.toml"), "--once", "--spark"]
    assert run(tmp_path / "db", *start).exit_code == 0
    assert not (tmp_path / "db").exists()
    put(tmp_path, 1, 10, bad=1)
    assert run(tmp_path / "db", *start).exit_code == 1
    left = {path.name for path in (tmp_path / "db").rglob("*") if path.is_file()}
    assert left == {"Test.Both.schema", "Test.Both.history.json", "both.failure"}
    put(tmp_path, 1, 10)
    assert run(tmp_path / "db", *start).exit_code == 0
    assert load_stream(StreamPlace(Fs(), Layout(tmp_path / "db"), TABLE, "both")).epoch == 1
