"""Which files of a real Delta table come next: positions, limits, restarts, and every way to be refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.delta.planner import DeltaOptions, DeltaPlanner, Entry, Planned, entries_of, share_out
from sparkhaven.ingest.feeds.delta.versions import snapshot
from sparkhaven.ingest.spec import Limit
from sparkhaven.store.epochs.state.log_values import TABLE, packed, unpacked
from sparkhaven.store.epochs.state.offsets import OffsetEnd
from sparkhaven.store.errors import FeedError, PositionGapError, SettingsError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.delta.tables import TABLE_ID, actions_of, change_metadata, checkpoint, put_version, unpack

FS = Fs()
NO_LIMIT = Limit()


def planner(
    table: Path, position: int | None = None, start: int | None = None, *, changes: bool = False
) -> DeltaPlanner:
    feed = DeltaOptions(str(table), start, ignore_changes=changes)
    return DeltaPlanner(FS, feed, OffsetEnd(position, TABLE_ID, 0, "") if position is not None else None)


def batches(plan: DeltaPlanner, limit: Limit = NO_LIMIT) -> list[Planned]:
    found: list[Planned] = []
    while True:
        plan.look()
        batch = plan.plan(limit)
        if batch is None:
            return found
        found.append(batch)


def names(entries: object) -> list[str]:
    assert isinstance(entries, list | tuple)
    return [entry.file.path for entry in entries]


def test_positions_are_readable_numbers() -> None:
    assert [packed(12), packed(12, 3), packed(12, 3, snapshot=True)] == [12_000_000_000, 12_000_000_003, 12_500_000_003]
    assert str(unpacked(12_500_000_003)) == "version 12, file 3 of its snapshot"
    assert packed(1, 7) < packed(1, 0, snapshot=True) < packed(2)
    with pytest.raises(ValueError, match="not a position"):
        packed(1, 500_000_000)


def test_versions_follow_each_other_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    plan = planner(unpack(tmp_path, until=8), start=0)
    (batch,) = batches(plan)
    assert (batch.start, batch.stop, len(batch.entries)) == (packed(0), packed(9), 14)
    assert batches(plan) == []
    # the start lies in the last version, which is OPTIMIZE: a batch without files goes past it
    (batch,) = batches(planner(tmp_path / "table", start=8))
    assert (batch.start, batch.stop, batch.entries) == (packed(8), packed(9), ())


def test_a_stream_begins_with_what_the_table_holds(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=6)
    plan = planner(table)
    first, second = batches(plan, Limit(files=8))
    held = [file.path for file in snapshot(FS, table, 6)]
    assert names([*first.entries, *second.entries]) == held and len(held) == 12
    assert (first.start, first.stop, second.stop) == (packed(6, snapshot=True), packed(6, 8, snapshot=True), packed(7))
    later = unpack(tmp_path / "whole")
    shutil.copy(later / "_delta_log" / f"{7:020d}.json", table / "_delta_log")
    (batch,) = batches(plan)
    assert (batch.start, batch.stop, len(batch.entries)) == (packed(7), packed(8), 2)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [Limit(files=1), Limit(files=3), Limit(rows=3), Limit(bytes=3000), Limit(files=100)])
@pytest.mark.parametrize("start", [None, 0, 3])
def test_a_restart_after_any_batch_goes_on_with_the_same_files(tmp_path: Path, limit: Limit, start: int | None) -> None:
    table = unpack(tmp_path, until=8)
    whole = batches(planner(table, start=start), limit)
    for batch in whole:
        assert limit.files is None or len(batch.entries) <= limit.files
        rows = sum(entry.file.rows or 0 for entry in batch.entries)
        assert limit.rows is None or rows <= limit.rows or len(batch.entries) == 1
        read = entries_of(FS, DeltaOptions(str(table)), batch.start, batch.stop, lambda at: snapshot(FS, table, at))
        assert tuple(read) == batch.entries  # as a task finds them
    for number, batch in enumerate(whole):
        assert batches(planner(table, batch.stop), limit) == whole[number + 1 :]


def test_a_frozen_planner_takes_nothing_that_comes_later(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=7)
    plan = planner(table, start=0)
    plan.freeze()
    put_version(table, 8, *actions_of(table, 7))
    assert batches(plan)[-1].stop == packed(8)


def test_a_delete_stops_the_stream_and_names_version_and_operation(tmp_path: Path) -> None:
    table = unpack(tmp_path)
    with pytest.raises(FeedError, match=r"version 9 .* \(DELETE\)") as caught:
        batches(planner(table, start=0))
    assert "ignore_changes" in str(caught.value.hint) and caught.value.found == "DELETE"
    (batch,) = batches(planner(table, start=0, changes=True))
    assert len(batch.entries) == 15 and batch.stop == packed(10)
    (batch,) = batches(planner(table))  # what the table holds now, nothing of what it was
    assert len(batch.entries) == 2


def test_versions_that_retention_removed_are_a_gap(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=8)
    for version in range(5):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    for position, start in ((packed(4), None), (None, 4)):
        with pytest.raises(PositionGapError, match="Log retention") as caught:
            planner(table, position, start)
        assert (caught.value.expected, caught.value.found) == ("version 4", "the first version that is left is 5")
    assert batches(planner(table, packed(5)))[-1].stop == packed(9)
    with pytest.raises(PositionGapError, match="Log retention"):  # in the middle of a snapshot that is gone
        planner(table, packed(4, 1, snapshot=True))


def test_retention_passes_a_running_stream(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=5)
    plan = planner(table, start=0)
    batches(plan)
    for version in range(6):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert batches(plan) == []  # the checkpoint still says that it is the same table, and nothing was missed
    checkpoint(table).rename(table / "_delta_log" / f"{7:020d}.checkpoint.parquet")
    with pytest.raises(PositionGapError, match="Log retention"):
        plan._mark = (0, 0, 0)
        plan.look()


def test_a_table_that_is_recreated_is_refused(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    running = planner(table, start=0)
    batches(running)
    with pytest.raises(PositionGapError, match="recreated") as caught:
        DeltaPlanner(FS, DeltaOptions(str(table)), OffsetEnd(packed(2), "another-id", 0, ""))
    assert caught.value.found == f"table id {TABLE_ID}"
    put_version(table, 5, {"metaData": {"id": "other", "configuration": {}}})  # CREATE OR REPLACE
    with pytest.raises(PositionGapError, match="recreated"):
        running.look()
    (table / "_delta_log" / f"{5:020d}.json").unlink()
    running = planner(table, start=0)
    batches(running)
    change_metadata(table, id="other")  # another table with as many versions, before the next look
    last = table / "_delta_log" / f"{4:020d}.json"
    os.utime(last, ns=(1, 1))
    put_version(table, 5, *actions_of(table, 4))
    with pytest.raises(PositionGapError, match="recreated"):
        running.look()
    shutil.rmtree(table)
    with pytest.raises(FeedError, match="no Delta table"):
        running.look()


def test_a_table_that_lost_versions_is_reported(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    for position in (packed(6), packed(5, 1), packed(5, 1, snapshot=True)):
        with pytest.raises(PositionGapError, match="ends before the committed position"):
            planner(table, position)
    assert batches(planner(table, packed(5))) == []


def test_a_version_that_the_table_does_not_have_is_no_start(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    assert planner(table, start=5).position == packed(5)
    with pytest.raises(SettingsError) as caught:
        planner(table, start=6)
    assert caught.value.expected == "at most 5, which is the next one"


def test_a_feature_that_comes_later_is_refused(tmp_path: Path) -> None:
    table = unpack(tmp_path, until=4)
    plan = planner(table, start=0)
    batches(plan)
    put_version(table, 5, {"protocol": {"minReaderVersion": 3, "readerFeatures": ["variantType"]}})
    with pytest.raises(UnsupportedVersionError, match="feature"):
        plan.look()


def test_ranges_of_tasks_follow_each_other(tmp_path: Path) -> None:
    (batch,) = batches(planner(unpack(tmp_path, until=8), start=0))
    for tasks in range(1, 6):
        ranges = share_out(batch, TABLE_ID, tasks, small=0)
        assert len(ranges) == tasks and {item.topic for item in ranges} == {TABLE}
        assert [item.start for item in ranges[1:]] == [item.stop for item in ranges[:-1]]
        assert (ranges[0].start, ranges[-1].stop) == (batch.start, batch.stop)
    assert len(share_out(batch, TABLE_ID, 4)) == 1
    empty = Planned(packed(1), packed(2), ())
    assert [(item.start, item.stop) for item in share_out(empty, TABLE_ID, 4)] == [(packed(1), packed(2))]


def test_waiting_files_are_counted(tmp_path: Path) -> None:
    plan = planner(unpack(tmp_path, until=8), start=0)
    plan.look()
    files, size = plan.waiting()
    batch = plan.plan(Limit(files=4))
    assert batch is not None and isinstance(batch.entries[0], Entry)
    left = sum(entry.file.size for entry in batch.entries)
    assert plan.waiting() == (files - 4, size - left) and files == 14
