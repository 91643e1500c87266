"""Tables that one feed fills are opened at one position of it, whatever commits, dies or is rolled back meanwhile."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sparkhaven import Database
from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.readers.arrow.opening import Opening, feed_positions, open_together
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.readers.sql.query import QueryOptions, open_query
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import TableNotFoundError, TooEarlyError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.ingest.several_tables import COLUMNS, row, rows
from tests.support.streams.stream_logs import open_stream_log
from tests.support.streams.table_runs import TableRuns

TABLES = list(COLUMNS)
FILES, PER_FILE = 4, 6
ALL = rows(0, FILES * PER_FILE)


class Interrupting(Fs):
    """A file system that calls a program once, just before the log of a table is read for the first time."""

    def __init__(self, log: Path, program: Callable[[], object]) -> None:
        super().__init__()
        self._log, self._program = log, program
        self.called = 0

    def stat(self, path: Path, *, follow: bool = True) -> Any:
        if path == self._log and not self.called:
            self.called += 1
            self._program()
        return super().stat(path, follow=follow)


def feed_of(base: Path, kind: str, files: int = FILES) -> TableRuns:
    feed = TableRuns(base, kind, TABLES)
    for number in range(files):
        feed.put(number, ALL[number * PER_FILE : (number + 1) * PER_FILE])
    return feed


@pytest.fixture(params=["files", "offsets"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> TableRuns:
    return feed_of(tmp_path, request.param, 2)


def places(root: Path, fs: Fs | None = None) -> list[TablePlace]:
    return [TablePlace(fs or Fs(), Layout(root), TableName.parse(table)) for table in TABLES]


def numbers(opened: Sequence[Snapshot]) -> list[list[int]]:
    """The numbers of the rows that each table shows."""
    found = [table.to_arrow("At")["At"].to_pylist() for table in opened]
    return [sorted(int(str(at)[20:26]) - 1 for at in times) for times in found]


def together(root: Path, *, fs: Fs | None = None, newest: bool = False) -> list[list[int]]:
    return numbers(open_together(places(root, fs), Opening(newest=newest)))


def of_all(count: int) -> list[list[int]]:
    """What each table has of the first rows of the feed."""
    return [[number for number in range(count) if number % 3 == place] for place in range(3)]


def test_a_batch_that_commits_between_two_opens_is_in_both_or_in_neither(feed: TableRuns) -> None:
    root = feed.base / "db"
    feed.run(Fs(), root, 100)

    def program() -> None:
        feed.put(2, ALL[12:18])
        feed.run(Fs(), root, 100)

    log = places(root)[1].of_stream("md").stream_log
    fs = Interrupting(log, program)
    apart = together(root, fs=fs, newest=True)
    assert apart == [of_all(12)[0], *of_all(18)[1:]], "each at its newest epoch: a part of the batch"
    feed.base.joinpath("again").mkdir()
    again = feed_of(feed.base / "again", feed.kind, 2)
    root = again.base / "db"
    again.run(Fs(), root, 100)

    def other() -> None:
        again.put(2, ALL[12:18])
        again.run(Fs(), root, 100)

    fs = Interrupting(places(root)[1].of_stream("md").stream_log, other)
    assert together(root, fs=fs) == of_all(12) and fs.called == 1
    assert together(root) == of_all(18)


def killed(feed: TableRuns, root: Path, occurrence: int, most: int = 100) -> None:
    with pytest.raises(Crash):
        feed.run(CrashingFs(crash_at="commit-record:before", occurrence=occurrence), root, most)


def test_a_writer_killed_between_the_commits_of_two_tables_leaves_its_batch_out(feed: TableRuns) -> None:
    root = feed.base / "db"
    feed.run(Fs(), root, 100)
    feed.put(2, ALL[12:18])
    killed(feed, root, 2)
    assert [load_stream(place.of_stream("md")).epoch for place in places(root)] == [3, 2, 2]
    assert together(root, newest=True) == [of_all(18)[0], *of_all(12)[1:]]
    opened = open_together(places(root), Opening())
    assert numbers(opened) == of_all(12) and [table.epochs for table in opened] == [{"md": 2}] * 3
    assert feed_positions(opened) == {"md": {"files": 2} if feed.kind == "files" else {"rows/0": 13}}
    feed.put(3, ALL[18:24])
    feed.run(Fs(), root, 100)
    assert together(root) == of_all(24)


def test_a_query_over_tables_of_one_feed_sees_one_position(feed: TableRuns) -> None:
    root = feed.base / "db"
    feed.run(Fs(), root, 100)
    feed.put(2, ALL[12:18])
    killed(feed, root, 2)
    query = " union all ".join(f"select count(*) as n from {table}" for table in TABLES)
    for newest, expected in ((False, [4, 4, 4]), (True, [6, 4, 4])):
        with open_query(root, query, QueryOptions(newest=newest)) as result:
            assert result.batches.read_all()["n"].to_pylist() == expected


def test_the_command_and_the_objects_say_where_the_feed_stands(feed: TableRuns) -> None:
    root = feed.base / "db"
    feed.run(Fs(), root, 100)
    feed.put(2, ALL[12:18])
    killed(feed, root, 2)
    query = "select count(*) as n from Md.Trade cross join Md.Quote"
    done = CliRunner().invoke(app, ["--root", str(root), "sql", query, "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["first"] == [{"n": 16}] and [table["epoch"] for table in result["tables"]] == [{"md": 2}] * 2
    snapshot = Database(root).snapshot(TABLES)
    assert snapshot.positions == result["positions"] == feed_positions(snapshot.table(name) for name in TABLES)
    assert snapshot.sql(query)["n"].to_pylist() == [16]
    assert Database(root).sql(query, newest=True)["n"].to_pylist() == [24]
    with pytest.raises(TableNotFoundError, match=r"no table Md\.None"):
        snapshot.sql("select * from Md.None")


def test_a_table_that_is_rolled_back_takes_the_others_with_it(feed: TableRuns) -> None:
    root = feed.base / "db"
    most = {"files": 1, "offsets": PER_FILE}[feed.kind]
    feed.run(Fs(), root, most)
    with open_log(places(root)[1].of_stream("md")) as log:
        log.rollback(2)
    assert together(root) == of_all(6)
    feed.run(Fs(), root, most)
    assert together(root) == of_all(12)


def test_no_common_position_is_an_error_that_names_the_epochs(feed: TableRuns) -> None:
    root = feed.base / "db"
    most = {"files": 1, "offsets": PER_FILE}[feed.kind]
    feed.run(Fs(), root, most)
    first, second = (place.of_stream("md") for place in places(root)[:2])
    with open_stream_log(first, None, keep_epochs=1) as log:
        log.compact_if_due(now=True)
    with open_log(second) as log:
        log.rollback(1)
    with pytest.raises(TooEarlyError, match="no position of their feed in common") as found:
        together(root)
    assert "Md.Trade epochs" in str(found.value.found) and found.value.exit_code == 3
    assert together(root, newest=True)[1] == []


def test_streams_of_one_name_that_are_of_two_feeds_are_not_compared(tmp_path: Path) -> None:
    one, other = TableRuns(tmp_path / "one", "files", TABLES[:1]), TableRuns(tmp_path / "other", "files", TABLES[1:2])
    root = tmp_path / "db"
    for feed, kind in ((one, "T"), (other, "Q")):
        feed.base.mkdir()
        feed.where = dict.fromkeys(feed.tables, "else = true")
        feed.put(0, [row(0, kind)])
        feed.run(Fs(), root, 100)
    one.put(1, [row(1, "T")])
    one.run(Fs(), root, 100)
    opened = open_together(places(root)[:2], Opening())
    assert [len(table) for table in opened] == [2, 1]


@given(data=st.data(), kind=st.sampled_from(["files", "offsets"]))
@settings(max_examples=10, deadline=None)
def test_of_each_part_of_the_feed_all_rows_are_there_or_none(data: st.DataObject, kind: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        feed, root = feed_of(Path(directory), kind), Path(directory) / "db"
        sizes = st.integers(1, FILES) if kind == "files" else st.integers(1, len(ALL))
        feed.run(Fs(), root, data.draw(sizes, "batch")) if data.draw(st.booleans(), "begun") else None
        for _ in range(data.draw(st.integers(1, 3), "kills")):
            with suppress(Crash):
                feed.run(CrashingFs(crash_after=data.draw(st.integers(1, 120), "change")), root, data.draw(sizes, "b"))
            if all(place.fs.stat(place.of_stream("md").stream_log) for place in places(root)):
                seen = {number for shown in together(root) for number in shown}
                assert [sorted(seen & {*some}) for some in of_all(len(ALL))] == together(root)
                if kind == "offsets":
                    assert seen == {*range(len(seen))}
                else:
                    assert {number // PER_FILE for number in seen} == {n for n in range(FILES) if n * PER_FILE in seen}
                    assert len(seen) % PER_FILE == 0
