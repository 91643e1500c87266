"""`sparkhaven ingest --local` without `--once`: follows a feed in one process, through kills, until it is stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import TableNotFoundError
from tests.support.commands import run
from tests.support.places import REPOSITORY
from tests.support.processes import wait_until

SCHEMA = """<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
</Table>"""
STREAM = """name = "s"
table = "Test.Event"
schema = "Test.Event.schema"
[feed]
type = "files"
path = "feed"
format = "json"
[partition]
internal = { fixed = "s" }
value = { fixed = "2026-11-22" }
[commit]
trigger = "0 s"
"""
PATIENCE_S = 60.0


def make(base: Path) -> None:
    (base / "Test.Event.schema").write_text(SCHEMA)
    (base / "feed").mkdir()
    (base / "s.toml").write_text(STREAM)


def put(base: Path, number: int) -> None:
    """A file that appears whole."""
    written = base / f"{number}.part"
    written.write_text(f'{{"Id": {number}}}\n')
    written.rename(base / "feed" / f"{number}.json")


@contextmanager
def following(base: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command as users start it; killed at the end if it still runs."""
    command = [sys.executable, "-m", "sparkhaven", "--root", str(base / "db"), "ingest", str(base / "s.toml")]
    with open(base / "said", "ab") as said:
        process = subprocess.Popen([*command, "--local", *words], stderr=said, stdout=said, cwd=REPOSITORY)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def ids(base: Path) -> list[int]:
    try:
        rows: list[int] = open_table(base / "db", "Test.Event").to_arrow(columns=["Id"])["Id"].to_pylist()
    except TableNotFoundError:
        return []
    return sorted(rows)


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: holds() or process.poll() is not None, PATIENCE_S, every=0.01)
    assert process.poll() is None


def test_files_are_ingested_as_they_come_through_kills_and_the_end_is_asked_for(tmp_path: Path) -> None:
    make(tmp_path)
    put(tmp_path, 1)
    with following(tmp_path) as process:
        for number in (2, 3):
            until(lambda last=number - 1: ids(tmp_path)[-1:] == [last], process)
            put(tmp_path, number)
        process.send_signal(signal.SIGKILL)  # at any step of the last batch
        process.wait()
    put(tmp_path, 4)
    with following(tmp_path) as process:
        until(lambda: ids(tmp_path)[-1:] == [4], process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert ids(tmp_path) == [1, 2, 3, 4]
    said = (tmp_path / "said").read_text()
    assert "s runs in this process, without Spark: as --local says" in said and "now epoch" in said
    assert run(tmp_path / "db", "verify", "Test.Event", "--deep").exit_code == 0


def test_a_source_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    make(tmp_path)
    put(tmp_path, 1)
    with following(tmp_path) as process:
        until(lambda: ids(tmp_path) == [1], process)
        (tmp_path / "feed").rename(tmp_path / "away")
        until(lambda: b"restarts in 1 s" in (tmp_path / "said").read_bytes(), process)
        (tmp_path / "away").rename(tmp_path / "feed")
        put(tmp_path, 2)
        until(lambda: ids(tmp_path) == [1, 2], process)
