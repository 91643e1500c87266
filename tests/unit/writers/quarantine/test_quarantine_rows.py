"""Rows of the quarantine without Spark: those of the newest version of its Delta table, by source and position."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.ledger import Ledger, write_ledger
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.writers.quarantine.quarantined_rows import QuarantineRows
from sparkhaven.writers.quarantine.row_choice import Chosen
from tests.support.streams.stream_logs import open_stream_log
from tests.support.writers.quarantine_tables import FIELDS, FIRST, OWNER, TIME, added, row, version

EVERY = Chosen()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two files of rows, one of them as Spark writes times, and one that was replaced."""
    table = tmp_path / "q"
    table.mkdir()
    version(table, 0, *FIRST, added(table, "old", [row("f/1", 9, 1)]))
    other = [
        row("f/1", 3, 1, Stream="another"),
        row("f/1", 2, 1),
        row("f/10", 1, 2, 5),
        row("t*/0", 7, 3, Reason="late"),
    ]
    one = added(table, "one", other, use_deprecated_int96_timestamps=True)
    version(table, 1, {"remove": {"path": "old", "dataChange": True}}, one)
    version(table, 2, added(table, "two", [row("f/1", 1, 4, 6, Payload=None), row("f/2", 1, 5, Payload=b"\xff")]))
    return table


def places(table: QuarantineRows, chosen: Chosen = EVERY, limit: int = 0) -> list[tuple[str, int]]:
    found = [(each["SourcePartition"], each["Position"]) for each in table.rows(chosen, limit)]
    if not limit:
        assert table.count(chosen) == len(found)
    return found


ALL = [("f/1", 1), ("f/1", 2), ("f/10", 1), ("f/2", 1), ("t*/0", 7)]


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2, 10_000])
def test_rows_are_those_of_the_stream_in_order(place: Path, at_once: int) -> None:
    table = QuarantineRows(Fs(), place, OWNER, at_once=at_once)
    assert places(table) == ALL and places(table, limit=3) == ALL[:3]
    found = list(table.rows(Chosen()))
    assert {each["Time"] for each in found} == {TIME.replace(tzinfo=UTC)}
    assert [each["RequeuedEpoch"] for each in found] == [6, None, 5, None, None]
    assert [each["Payload"] for each in found] == [None, b"x", b"x", b"\xff", b"x"]
    assert set(found[0]) == {field.name for field in FIELDS}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (Chosen(reason="late"), [4]),
        (Chosen(source="f/1"), [0, 1]),
        (Chosen(source="f/1*"), [0, 1, 2]),
        (Chosen(source="*/1*"), [0, 1, 2]),
        (Chosen(source="t*/0"), [4]),
        (Chosen(source="f/."), []),
        (Chosen(epoch=4), [0]),
        (Chosen(state="pending"), [1, 3, 4]),
        (Chosen(state="requeued", source="f/1*"), [0, 2]),
    ],
)
def test_the_options_that_choose(place: Path, chosen: Chosen, expected: list[int]) -> None:
    assert places(QuarantineRows(Fs(), place, OWNER), chosen) == [ALL[n] for n in expected]


def test_dead_epochs_are_left_out_and_what_they_sent_again_is_pending(place: Path) -> None:
    table = QuarantineRows(Fs(), place, OWNER, [(2, 3), (5, None)])
    assert places(table) == ALL[:4]
    assert places(table, Chosen(state="pending")) == [ALL[0], ALL[1], ALL[3]]
    assert [each["RequeuedEpoch"] for each in table.rows(Chosen())] == [None, None, 5, None]
    assert next(table.rows(Chosen()))["RequeuedTime"] is None


def test_pending_rows_by_reason_and_the_newest_of_them_without_what_they_say(place: Path) -> None:
    newer = row("f/3", 1, 6, Reason="late", Time=TIME + timedelta(seconds=1), Column="At", Value="a secret")
    version(place, 3, added(place, "three", [newer, row("f/3", 2, 6, 7, Reason="late")]))
    table = QuarantineRows(Fs(), place, OWNER)
    counts, rows = table.pending(2)
    assert counts == {"late": 2, "overflow": 2}
    assert [(each["SourcePartition"], each["Position"], each["Column"]) for each in rows] == [
        ("f/3", 1, "At"),
        ("f/1", 2, None),
    ]
    assert not {"Value", "Payload", "Key"} & set(rows[0])
    assert QuarantineRows(Fs(), place, OWNER, [(5, None)]).pending(9)[0] == {"late": 1, "overflow": 3}
    assert table.size() == sum((place / name).stat().st_size for name in ("one", "two", "three"))


def test_a_damaged_file_is_named(place: Path) -> None:
    (place / "two").write_bytes(b"PAR1")
    with pytest.raises(CorruptFileError) as caught:
        places(QuarantineRows(Fs(), place, OWNER))
    assert caught.value.where == str(place / "two") and caught.value.hint


SCHEMA = """<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/> <Column name="N" dataType="int"/>
</Table>"""
SETTINGS = """name = "feed"
table = "Test.Event"
schema = "Test.Event.schema"
[feed]
type = "files"
path = "feed/*"
format = "json"
[partition]
internal = { fixed = "0" }
value = { fixed = "2026-11-21" }
"""
DRY_RUN = """import sys
from sparkhaven.jobs.cli.main import app
app(sys.argv[1:], standalone_mode=False)
print("pyspark" in sys.modules)"""


@pytest.mark.slow
def test_a_dry_run_of_a_requeue_tells_what_would_be_sent_without_spark(tmp_path: Path, place: Path) -> None:
    layout, table = Layout(tmp_path / "db"), TableName("Test", "Event")
    (tmp_path / "Test.Event.schema").write_text(SCHEMA)
    (tmp_path / "feed.toml").write_text(SETTINGS)
    open_stream_log(StreamPlace(Fs(), layout, table, "feed"), deploy(Fs(), layout, SCHEMA.encode())).close()
    write_ledger(StreamPlace(Fs(), layout, table, "feed"), Ledger(str(place), str(tmp_path / "feed.toml")))
    good = [row("f/9", n, 0, Payload=payload, PayloadBytes=7) for n, payload in enumerate([b'{"N":1}', b'{"N":x}'])]
    version(place, 3, added(place, "three", [*good, row("f/9", 5, 0, Payload=b"", PayloadBytes=9), row("f/9", 7, 1)]))
    words = [
        "--root",
        str(layout.root),
        "quarantine",
        "requeue",
        "Test.Event",
        "feed",
        "--source",
        "f/9",
        "--dry-run",
        "--json",
    ]
    done = subprocess.run([sys.executable, "-c", DRY_RUN, *words], capture_output=True, text=True)
    reported, spark = done.stdout.splitlines()
    value = json.loads(reported)
    assert (value["sent"], value["refused"], value["cut"], value["epoch"], spark) == (1, 1, 1, None, "False")
    assert "f/9 line 1" in value["refusals"][0] and done.stderr == ""


@pytest.mark.slow
def test_no_spark_is_imported() -> None:
    modules = "sparkhaven.jobs.cli.streams.quarantine, sparkhaven.writers.quarantine.quarantined_rows"
    code = f"import {modules}, sys; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
