"""One feed into several tables, killed at any step, also between the commits of two tables: each row once, in its own.

Batches of the next run have other borders, and a table may be rolled back in between.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from tests.crash.kills.kill_steps import numbered, some_in_turns
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.examples import some_of
from tests.support.ingest.several_tables import COLUMNS, read, rows, stored
from tests.support.streams.table_runs import TableRuns

TABLES = list(COLUMNS)
KINDS = ("files", "offsets")
FILES, PER_FILE = 4, 6
ALL = rows(0, FILES * PER_FILE)
BETWEEN = ("first-positions", "commit-record", "publish", "append-log")


def feed_of(base: Path, kind: str) -> TableRuns:
    feed = TableRuns(base, kind, TABLES)
    for number in range(FILES):
        feed.put(number, ALL[number * PER_FILE : (number + 1) * PER_FILE])
    return feed


def require_all(root: Path) -> None:
    assert {table: read(root, table) for table in TABLES} == {table: stored(ALL, table) for table in TABLES}


def places(root: Path) -> list[StreamPlace]:
    return [StreamPlace(Fs(), Layout(root), TableName.parse(table), "md") for table in TABLES]


@pytest.fixture(params=KINDS)
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> TableRuns:
    return feed_of(tmp_path, request.param)


def killed_at(feed: TableRuns, root: Path, step: str, occurrence: int, most: int) -> None:
    with pytest.raises(Crash):
        feed.run(CrashingFs(crash_at=step, occurrence=occurrence), root, most)


@pytest.mark.slow
def test_a_kill_at_each_step_loses_and_doubles_nothing(feed: TableRuns) -> None:
    counted, first, second = CrashingFs(), {"files": 2, "offsets": 7}[feed.kind], {"files": 3, "offsets": 5}[feed.kind]
    feed.run(counted, feed.base / "counted", first)
    steps = numbered(counted.steps)
    chosen = [(name, n) for name, n in steps if name.startswith("commit-record")]
    assert len(chosen) >= 2 * len(TABLES) * 2  # before and after, of each table, in two batches
    chosen = some_of(chosen)
    chosen += [step for step in some_in_turns(steps) if step not in chosen]
    for number, (step, occurrence) in enumerate(chosen):
        root = feed.base / f"db{number}"
        killed_at(feed, root, step, occurrence, first)
        feed.run(Fs(), root, second)
        require_all(root)
    assert any(name.startswith("first-positions") for name, _ in chosen)


def test_a_table_that_is_ahead_leaves_out_what_it_has(feed: TableRuns) -> None:
    """Killed before the second of three tables commits the second batch; then all is read in one batch."""
    root = feed.base / "db"
    most = {"files": 2, "offsets": 7}[feed.kind]
    killed_at(feed, root, "commit-record:before", len(TABLES) + 2, most)
    epochs = [load_stream(place).epoch for place in places(root)]
    assert epochs == [3, 2, 2]
    lacking = [len(stored(ALL, table)) - len(read(root, table)) for table in TABLES]
    assert feed.run(Fs(), root, 100) == lacking and lacking[0] < lacking[1] == lacking[2]
    require_all(root)


@given(data=st.data(), kind=st.sampled_from(KINDS))
@settings(max_examples=8, deadline=None)
def test_kills_rollbacks_and_other_batches_in_any_order(data: st.DataObject, kind: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        feed, root = feed_of(base, kind), base / "db"
        sizes = st.integers(1, FILES) if kind == "files" else st.integers(1, len(ALL))
        for _ in range(data.draw(st.integers(1, 3), "kills")):
            changes = data.draw(st.integers(1, 120), "change of the disk")
            with suppress(Crash):
                feed.run(CrashingFs(crash_after=changes), root, data.draw(sizes, "batch"))
            if data.draw(st.booleans(), "rollback"):
                roll_back(data, root)
        feed.run(Fs(), root, data.draw(sizes, "last batch"))
        require_all(root)


def roll_back(data: st.DataObject, root: Path) -> None:
    """One of the tables, to any epoch that it has left."""
    place = places(root)[data.draw(st.integers(0, len(TABLES) - 1), "table")]
    if place.fs.stat(place.stream_log) is None:
        return
    with open_log(place) as log:
        if log.state.epoch > log.state.floor:
            log.rollback(data.draw(st.integers(log.state.floor, log.state.epoch - 1), "epoch"))
