"""Rows of a Delta table exactly once: a stream that is killed at any change of the disk goes on where its log ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, DeltaPlanner
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import unpacked
from sparkhaven.store.errors import PositionGapError
from sparkhaven.store.io.fs import Fs
from tests.support.disks.model_fs import Crash, CrashingFs
from tests.support.ingest.delta.runs import run, take
from tests.support.ingest.delta.tables import actions_of, change_metadata, put_version, unpack
from tests.support.streams.stream_kit import open_log, place_in, read_location

FS = Fs()


def ids(root: Path) -> list[int]:
    state = load_stream(place_in(root, FS))
    return [row["N"] for location in state.locations.values() for row in read_location(root, location)]


@pytest.mark.slow
@pytest.mark.parametrize("start", [None, 0])
def test_killed_anywhere_and_started_again(tmp_path: Path, start: int | None) -> None:
    feed = DeltaOptions(str(unpack(tmp_path, until=7)), start)
    counted = CrashingFs()
    run(counted, tmp_path / "whole", feed)
    expected = ids(tmp_path / "whole")
    assert sorted(expected) == list(range(21))
    state = load_stream(place_in(tmp_path / "whole", FS))
    assert (state.offsets.positions(), state.epoch) == ({"version": 8, "file": 0}, 5)
    for change in range(1, counted.changes, 37):
        root = tmp_path / str(change)
        with pytest.raises(Crash):
            run(CrashingFs(crash_after=change), root, feed)
        run(FS, root, feed)
        assert ids(root) == expected, f"killed before change {change}"


@pytest.mark.slow
def test_a_rollback_takes_the_position_along(tmp_path: Path) -> None:
    feed = DeltaOptions(str(unpack(tmp_path, until=7)))
    root = tmp_path / "db"
    run(FS, root, feed)
    expected = ids(root)
    with open_log(FS, root) as log:
        log.rollback(2)
        assert log.state.offsets.positions() == {"snapshot": 7, "file": 6}
    run(FS, root, feed)
    assert ids(root) == expected


def test_another_table_at_the_path_is_no_continuation(tmp_path: Path) -> None:
    feed = DeltaOptions(str(unpack(tmp_path, until=4)), 0)
    run(FS, tmp_path / "db", feed)
    change_metadata(Path(feed.path), id="other")
    with pytest.raises(PositionGapError, match="recreated"):
        run(FS, tmp_path / "db", feed)
    moved = replace(feed, path=str(unpack(tmp_path / "moved", until=5)))  # the same one elsewhere is
    run(FS, tmp_path / "db", moved)
    assert sorted(ids(tmp_path / "db")) == list(range(15))


@pytest.mark.parametrize("start", [None, 0])
@pytest.mark.parametrize("until", [3, 4], ids=["older", "same"])
def test_a_table_that_was_put_back_and_has_grown(tmp_path: Path, start: int | None, until: int) -> None:
    """Its versions have the numbers of those that were read, and other rows."""
    whole = unpack(tmp_path / "whole", until=7)
    feed = DeltaOptions(str(unpack(tmp_path, until=4)), start)
    table = Path(feed.path)
    run(FS, tmp_path / "db", feed)
    expected = ids(tmp_path / "db")
    for version in range(until + 1, 8):
        put_version(
            table, version, *actions_of(whole, version), {"commitInfo": {"operation": "WRITE", "timestamp": version}}
        )
    if until == 4:  # it has only grown
        run(FS, tmp_path / "db", feed)
        assert sorted(ids(tmp_path / "db")) == list(range(21))
        return
    with pytest.raises(PositionGapError, match="another version 4 than the one that was read") as caught:
        run(FS, tmp_path / "db", feed)
    assert "put back" in str(caught.value)
    assert ids(tmp_path / "db") == expected
    with open_log(FS, tmp_path / "db") as log:  # a plan alone tells it too, as a dry run makes one
        (end,) = log.state.offsets.values()
        with pytest.raises(PositionGapError, match="another version 4"):
            DeltaPlanner(FS, feed, end)


def test_a_task_compares_the_last_version_too(tmp_path: Path) -> None:
    """A table that is put back while a stream runs: its planner has read ahead."""
    feed = DeltaOptions(str(unpack(tmp_path, until=7)), 0)
    table = Path(feed.path)
    with open_log(FS, tmp_path / "db") as log:
        plan = DeltaPlanner(FS, feed, None)
        plan.look()
        take(FS, tmp_path / "db", log, feed, plan)
        (end,) = log.state.offsets.values()
        last = unpacked(end.stop)
        version = last.version if last.file else last.version - 1
        put_version(table, version, *actions_of(table, version), {"commitInfo": {"operation": "WRITE"}})
        with pytest.raises(PositionGapError, match=f"another version {version} than"):
            take(FS, tmp_path / "db", log, feed, plan)
        assert log.state.epoch == 1
