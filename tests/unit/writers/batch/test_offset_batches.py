"""Batches of offset ranges to epochs, without Spark: replays, overlaps, gaps, several tasks at one location."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import list_epochs
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import EpochConflictError, PositionGapError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome, BatchRequest, write_batch
from sparkhaven.writers.batch.stream_batches import range_of
from tests.support.streams.stream_kit import LocalExecutor, ingest, numbers, open_log, place_in, read_all, target_of

FS = Fs()


def read(start: int, stop: int, partition: int = 0, topic_id: str = "id") -> OffsetRange:
    return OffsetRange("topic", partition, start, stop, topic_id)


def later(root: Path, log: StreamLog, ranges: list[OffsetRange], **options: Any) -> BatchOutcome:
    """A batch that is not the first one of a run: the tasks say what they have read."""
    target = target_of(root, log)
    execute = LocalExecutor(FS, target, [ranges])
    return write_batch(FS, log, target, WorkerCache(), BatchRequest(execute, query_id="query", batch_id=7, **options))


def test_ranges_become_rows_and_positions(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        outcome = ingest(FS, tmp_path, log, [[read(3, 10), read(5, 8, 1)]])
        assert (outcome.epoch, outcome.rows, outcome.splits, outcome.messages, outcome.passed) == (1, 10, 2, 10, 0)
        assert log.state.offsets.positions() == {"topic/0": 10, "topic/1": 8}
        assert numbers(tmp_path, log.state) == [3, 4, 5, 6, 7, 8, 9, 35, 36, 37]
    with open_log(FS, tmp_path) as log:
        again = ingest(FS, tmp_path, log, [[read(5, 8, 1)], [read(3, 10)]])
        assert (again.epoch, again.replayed) == (None, 2)


def test_of_an_overlap_only_the_rest_is_read(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[read(0, 10)]])
        outcome = ingest(FS, tmp_path, log, [[read(0, 4), read(4, 13)], [read(13, 16), read(0, 2, 1)]], 1)
        assert (outcome.epoch, outcome.rows, outcome.messages, outcome.replayed) == (2, 8, 8, 1)
        assert log.state.offsets.positions() == {"topic/0": 16, "topic/1": 2}
        assert numbers(tmp_path, log.state) == [*range(16), 30, 31]
        entry = list_epochs(place_in(tmp_path, FS))[-1]
        assert entry.ranges == (read(10, 13), read(13, 16), read(0, 2, 1))


def test_a_later_batch_that_repeats_offsets_commits_nothing(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[read(0, 10)]])
        for ranges in ([read(0, 10)], [read(5, 12)], [read(8, 10), read(10, 12)]):
            with pytest.raises(EpochConflictError, match="already committed"):
                later(tmp_path, log, ranges)
        with pytest.raises(PositionGapError, match="topic recreated"):
            later(tmp_path, log, [read(10, 12, topic_id="other")])
        with pytest.raises(PositionGapError, match="does not continue"):
            later(tmp_path, log, [read(11, 12)])
        assert (log.state.epoch, log.state.offsets.positions()) == (1, {"topic/0": 10})
        assert later(tmp_path, log, [read(10, 12)]).epoch == 2
        assert numbers(tmp_path, log.state) == [*range(12)]


@pytest.mark.parametrize("first", [True, False])
def test_a_gap_is_recorded_where_it_is_allowed(tmp_path: Path, first: bool) -> None:
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[read(0, 10)]])
        ranges = [read(14, 16), read(16, 18)]
        if first:
            with pytest.raises(PositionGapError, match="does not continue"):
                ingest(FS, tmp_path, log, [ranges], 1)
        options: dict[str, Any] = {"proposed": ranges} if first else {}
        outcome = later(tmp_path, log, ranges, allow_gap=True, **options)
        assert (outcome.epoch, outcome.rows, outcome.passed) == (2, 4, 4)
        assert list_epochs(place_in(tmp_path, FS))[-1].gaps == (read(10, 14),)
        assert numbers(tmp_path, log.state) == [*range(10), *range(14, 18)]
        again = read(0, 5, topic_id="new")
        assert later(tmp_path, log, [again], allow_gap=True, proposed=[again]).passed == 0
        assert list_epochs(place_in(tmp_path, FS))[-1].gaps == (replace(again, start=18, stop=0),)


def test_rollback_brings_the_positions_back(tmp_path: Path) -> None:
    with open_log(FS, tmp_path) as log:
        ingest(FS, tmp_path, log, [[read(0, 10)]])
        ingest(FS, tmp_path, log, [[read(10, 20), read(0, 5, 1)]], 1)
        log.rollback(1)
        assert log.state.offsets.positions() == {"topic/0": 10}
    with open_log(FS, tmp_path) as log:
        assert log.state.offsets.positions() == {"topic/0": 10}
        assert ingest(FS, tmp_path, log, [[read(10, 12)]], 2).epoch == 4
        assert numbers(tmp_path, log.state) == [*range(12)]


@pytest.mark.slow
def test_rows_of_a_location_stand_in_the_order_of_topic_partition_and_offset(tmp_path: Path) -> None:
    groups = [[read(4, 9), read(0, 3, 1)], [read(0, 4)], [read(3, 8, 1)]]
    for number, order in enumerate(permutations(range(3))):
        root = tmp_path / str(number)
        with open_log(FS, root) as log:
            ingest(FS, root, log, groups, order=order)
            found = {key.internal: [row["N"] for row in rows] for key, rows in read_all(root, log.state).items()}
        assert found == {"a": [0, 2, 4, 6, 8, 30, 32, 34, 36], "b": [1, 3, 5, 7, 31, 33, 35, 37]}


def test_rows_of_a_source_name_ranges() -> None:
    row = {"topic": "t", "partition": 3, "start": 5, "stop": 9, "topic_id": "", "task": 2}
    assert range_of(row) == OffsetRange("t", 3, 5, 9)
