"""The planner that Spark asks about a Delta table, without Spark: offsets, ranges of tasks, limits, a restart."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.ingest.feeds.delta.planner import DeltaOptions
from sparkhaven.ingest.feeds.delta.source import DeltaStream, VersionReader, delta_source, open_planner
from sparkhaven.ingest.feeds.spark_planning import RangeRun
from sparkhaven.ingest.spec import Limit
from sparkhaven.readers.spark.source_api import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows
from sparkhaven.store.epochs.state.log_values import TABLE as PLACE
from sparkhaven.store.epochs.state.log_values import OffsetRange, packed
from sparkhaven.store.errors import FeedError, carried_error
from sparkhaven.store.io.fs import Fs
from tests.support.ingest.delta.tables import TABLE_ID, actions_of, put_version, unpack
from tests.support.streams.stream_kit import STREAM, TABLE, open_log

FS = Fs()


def stream(tmp_path: Path, limit: Limit, *, until: int = 7, start: int | None = None) -> DeltaStream:
    feed = DeltaOptions(str(unpack(tmp_path, until=until)), start, limit)
    return DeltaStream(tmp_path / "db", TABLE, STREAM, feed, tasks=2)


def reader(of: DeltaStream) -> VersionReader:
    return VersionReader(of, open_planner(FS, of))


def test_batches_are_named_and_never_read(tmp_path: Path) -> None:
    of = stream(tmp_path, Limit(files=10))
    asked = reader(of)
    start = asked.initialOffset()
    assert start == {"position": packed(7, snapshot=True), "snapshot": 7, "file": 0}
    asked.prepareForTriggerAvailableNow()
    put_version(Path(of.feed.path), 8, *actions_of(Path(of.feed.path), 7))
    limit = asked.getDefaultReadLimit()
    middle = asked.latestOffset(start, limit)
    (run,) = asked.partitions(start, middle)  # small files: one task
    assert isinstance(run, RangeRun) and pickle.loads(pickle.dumps(asked)) is not None
    assert list(asked.read(run)) == [(PLACE, 0, packed(7, snapshot=True), packed(7, 10, snapshot=True), TABLE_ID, 0, 4)]
    assert asked.reportLatestOffset()["waiting_files"] == 4
    end = asked.latestOffset(middle, limit)
    assert end == {"position": packed(8), "version": 8, "file": 0}
    assert asked.partitions(end, end) == []  # as Spark asks when a start finds nothing new
    assert asked.latestOffset(end, limit) == end  # what came later is for the next run
    with pytest.raises(Exception, match="not planned") as caught:
        asked.partitions(start, middle)
    assert carried_error(str(caught.value)) is not None


def test_a_restart_begins_at_the_commit_log(tmp_path: Path) -> None:
    of = stream(tmp_path, Limit(files=1), start=0)
    from tests.support.ingest.delta.runs import run

    run(FS, of.root, of.feed)
    assert reader(of).initialOffset() == {"position": packed(8), "version": 8, "file": 0}
    with open_log(FS, of.root) as log:
        log.rollback(2)
    asked = reader(of)
    end = asked.latestOffset(asked.initialOffset(), ReadMaxFiles(1))
    (part,) = asked.partitions(asked.initialOffset(), end)
    assert isinstance(part, RangeRun)
    assert part.ranges == (OffsetRange(PLACE, 0, packed(4), packed(4, 1), TABLE_ID),)


def test_limits_of_both_sides_hold(tmp_path: Path) -> None:
    of = stream(tmp_path, Limit(bytes=10**6, rows=5), start=0)
    assert isinstance(reader(of).getDefaultReadLimit(), ReadMaxBytes)
    for feed_limit, kind in ((Limit(rows=5), ReadMaxRows), (Limit(files=5), ReadMaxFiles), (Limit(), ReadAllAvailable)):
        given = replace(of, feed=replace(of.feed, max_per_trigger=feed_limit))
        assert isinstance(reader(given).getDefaultReadLimit(), kind)
    first = reader(of)
    assert first.latestOffset(first.initialOffset(), ReadMaxBytes(10**6))["position"] == packed(2, 1)  # 3 + 1 rows
    whole = reader(of)
    assert whole.latestOffset(whole.initialOffset(), ReadAllAvailable())["position"] == packed(8)


def test_errors_of_the_table_find_their_way_through_spark(tmp_path: Path) -> None:
    of = stream(tmp_path, Limit(), until=9, start=9)
    source = delta_source(of)
    assert source.name() == "sparkhaven_delta_Test.Event_feed"
    asked = source({}).streamReader(None)
    with pytest.raises(Exception, match="version 9") as caught:
        asked.latestOffset(asked.initialOffset(), ReadAllAvailable())
    assert isinstance(carried_error(str(caught.value)), FeedError)
