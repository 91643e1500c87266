"""What plans and reads a stream of epochs, without a JVM: each row once, whatever happens to the table meanwhile."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from sparkhaven.jobs.dataframes.source import DeephavenSource
from sparkhaven.readers.spark.stream import EpochReader
from sparkhaven.store.epochs.files.published_size import publish_location
from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import SettingsError, SnapshotMovedError
from sparkhaven.store.layout import LocationKey
from tests.support.tables.small_tables import SmallTable

DAY, NEXT = "2026-11-20", "2026-11-21"


def flat(batches: list[list[int]]) -> list[int]:
    return [value for batch in batches for value in batch]


class Query:
    """A query with its checkpoint, without Spark: offsets are JSON in between, tasks and reader are pickled."""

    def __init__(self, root: Path, **options: str) -> None:
        self.given = {"root": str(root), "path": "NS.T", "columns": "Size", **options}
        self.offset: dict[str, int] | None = None
        self.batches: list[list[int]] = []

    @property
    def values(self) -> list[int]:
        """Those of all batches."""
        return flat(self.batches)

    def start(self) -> EpochReader:
        """The reader of a new start."""
        source = DeephavenSource(self.given)
        schema = source.schema()
        reader = pickle.loads(pickle.dumps(source)).streamReader(schema)
        assert isinstance(reader, EpochReader)
        if self.offset is None:
            self.offset = reader.initialOffset()
        return reader

    def run(self, limit: ReadLimit | None = None) -> list[list[int]]:
        """All batches until there is nothing more; those of this run."""
        reader, found = self.start(), len(self.batches)
        reader.prepareForTriggerAvailableNow()
        while self.step(reader, limit):
            pass
        return self.batches[found:]

    def step(self, reader: EpochReader, limit: ReadLimit | None = None) -> bool:
        """One batch; False if there is nothing to read."""
        end = json.loads(json.dumps(reader.latestOffset(self.offset or {}, limit or reader.getDefaultReadLimit())))
        if end == self.offset:
            return False
        self.batches.append(sorted(self.rows(reader, self.offset or {}, end)))
        self.offset = end
        return True

    def rows(self, reader: EpochReader, start: dict[str, int], end: dict[str, int]) -> Iterator[int]:
        """The values of a batch."""
        for task in pickle.loads(pickle.dumps(reader.partitions(start, end))):
            for batch in pickle.loads(pickle.dumps(reader)).read(task):
                yield from batch.column(0).to_pylist()


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "db")


def add(small: SmallTable, values: list[int], internal: str = "a", value: str = DAY, stream: str = "s") -> int:
    return small.add(internal, value, {"Size": values}, stream=stream)


def test_each_epoch_comes_once_and_in_order(small: SmallTable) -> None:
    add(small, [1, 2])
    add(small, [3])
    query = Query(small.root, maxEpochsPerTrigger="1")
    assert query.run() == [[1, 2, 3]]  # what was there at the start is one batch
    add(small, [4])
    add(small, [5, 6], "b", NEXT)
    add(small, [7])
    assert query.run() == [[4], [5, 6], [7]]
    assert query.run() == []
    assert query.offset == {"s": 5}


@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2, 3, 4]), ("latest", [4]), ('{"s": 1}', [2, 3, 4])])
def test_a_stream_begins_where_its_option_says(small: SmallTable, start: str, expected: list[int]) -> None:
    add(small, [1])
    add(small, [2, 3])
    query = Query(small.root, start=start)
    query.run()
    add(small, [4])
    query.run()
    assert sorted(query.values) == expected


def test_limits_take_at_least_one_epoch_and_no_more_rows_than_asked(small: SmallTable) -> None:
    add(small, [0])
    query = Query(small.root, maxRowsPerTrigger="4")
    query.run()
    for values in ([1, 2], [3], [4, 5], [6, 7, 8, 9, 10], [11]):
        add(small, values)
    assert query.run() == [[1, 2, 3], [4, 5], [6, 7, 8, 9, 10], [11]]
    add(small, [12])
    add(small, [13])
    assert query.run(ReadMaxRows(1)) == [[12], [13]]
    add(small, [14])
    add(small, [15])
    assert query.run(ReadAllAvailable()) in ([[14, 15]], [[14], [15]])


def test_a_stream_and_a_date_that_come_later_are_read_from_their_beginning(small: SmallTable) -> None:
    add(small, [1])
    query = Query(small.root)
    query.run()
    small.log("late", keep_epochs=1)
    for number in range(2, 8):
        add(small, [number], "z", NEXT, stream="late")
    assert small.log("late").compact_if_due(now=True)
    add(small, [8], "z", NEXT, stream="late")
    query.run()
    assert sorted(query.values) == [*range(1, 9)]
    assert set(query.offset or {}) == {"s", "late"}


def test_what_comes_after_available_now_waits(small: SmallTable) -> None:
    add(small, [1])
    query = Query(small.root)
    reader = query.start()
    reader.prepareForTriggerAvailableNow()
    add(small, [2])
    while query.step(reader):
        pass
    assert query.batches == [[1]]
    assert query.run() == [[2]]


def test_a_merge_and_a_truncation_repeat_and_lose_nothing(small: SmallTable) -> None:
    add(small, [1, 2])
    add(small, [3], value=NEXT)
    query = Query(small.root)
    query.run()
    small.merge_by_hand(DAY)
    assert query.run() == []
    removed(small, LocationKey("a", DAY), "truncate")
    removed(small, LocationKey("a", DAY), "delete")
    add(small, [4], value=NEXT)
    assert query.run() == [[4]]
    late = Query(small.root)
    assert late.run() == [[1, 2, 3, 4]]  # history with the first batch


def removed(small: SmallTable, key: LocationKey, phase: Any) -> None:
    at, epoch = small.log().state.locations[key], small.log().state.epoch
    write_removals(small.place.of_stream("s"), [Removal(key, at.since, at.rows, phase, epoch, {}, 1, at.made_ms)])
    if phase == "truncate":
        publish_location(small.place.of_stream("s"), replace(at, rows=0, files={}, truncated=True))
    else:
        small.fs.remove_tree(small.location(key.internal, key.value))


def test_rows_that_were_removed_before_they_were_read_are_an_error(small: SmallTable) -> None:
    add(small, [1])
    query = Query(small.root)
    query.run()
    add(small, [2])
    small.merge_by_hand(DAY)
    removed(small, LocationKey("a", DAY), "truncate")
    with pytest.raises(SnapshotMovedError, match=r"(?s)before this stream read them.*history"):
        query.run()


def test_a_rollback_of_what_was_read_is_an_error(small: SmallTable) -> None:
    for number in range(1, 4):
        add(small, [number])
    query = Query(small.root)
    query.run()
    small.log().rollback(2)
    with pytest.raises(SnapshotMovedError, match="rolled back"):
        query.run()
    add(small, [9])
    anew = Query(small.root, start='{"s": 2}')
    assert anew.run() == [[9]]


def test_a_rollback_of_what_was_not_read_yet_is_no_error(small: SmallTable) -> None:
    add(small, [1])
    query = Query(small.root)
    query.run()
    add(small, [2])
    small.log().rollback(1)
    add(small, [3])
    assert flat(query.run()) == [3]


def test_an_offset_behind_the_floor_is_an_error(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    small.log(keep_epochs=1)
    add(small, [1])
    query = Query(small.root)
    query.run()
    for number in range(2, 9):
        add(small, [number])
    assert small.log().compact_if_due(now=True)
    with pytest.raises(SnapshotMovedError, match=r"(?s)no longer kept.*keep_epochs"):
        query.run()


def test_a_batch_that_is_planned_again_has_the_same_rows(small: SmallTable) -> None:
    add(small, [1])
    query = Query(small.root)
    query.run()
    start = dict(query.offset or {})
    add(small, [2])
    query.run()
    end = dict(query.offset or {})
    add(small, [3])
    add(small, [4], "b", NEXT, stream="late")
    assert sorted(query.rows(query.start(), start, end)) == [2]
    assert sorted(query.rows(query.start(), {}, end)) == [1, 2]


def test_the_first_batch_planned_again_has_nothing_of_a_stream_that_came_later(small: SmallTable) -> None:
    add(small, [1])
    query = Query(small.root)
    query.run()
    end = dict(query.offset or {})
    add(small, [2], "b", stream="late")
    small.merge_by_hand(DAY)
    assert sorted(query.rows(query.start(), {}, end)) == [1]


def test_expressions_and_selections_hold_for_every_batch(small: SmallTable) -> None:
    add(small, [1, 20])
    query = Query(small.root, where="Size > 10", dates=DAY)
    assert query.run() == [[20]]
    add(small, [2, 30])
    add(small, [40], value=NEXT)
    assert flat(query.run()) == [30]


def test_a_source_is_its_value_or_its_directory(small: SmallTable) -> None:
    add(small, [1], "a%20b")
    add(small, [2], "c")
    assert flat(Query(small.root, sources="a b").run()) == [1]
    query = Query(small.root, sources="a%20b")
    assert flat(query.run()) == [1]
    add(small, [3], "a%2520b")
    with pytest.raises(SettingsError, match="two sources"):
        query.run()


@pytest.mark.parametrize("dates", ["yesterday", "2026-13-45", "2026-01-01..2026-13-45"])
def test_a_date_that_is_none_is_refused(small: SmallTable, dates: str) -> None:
    add(small, [1])
    query = Query(small.root, dates=dates)
    with pytest.raises(SettingsError, match="malformed date"):
        query.run()
    late = Query(small.root, dates=dates, start="latest")
    late.run()
    add(small, [2])
    with pytest.raises(SettingsError, match="malformed date"):
        late.run()


@pytest.mark.parametrize(
    ("start", "words"),
    [("first", "earliest | latest"), ('{"t": 1}', "no stream 't'"), ('{"s": "x"}', "option 'start'")],
)
def test_a_start_that_does_not_exist_is_reported(small: SmallTable, start: str, words: str) -> None:
    add(small, [1])
    with pytest.raises(SettingsError) as caught:
        Query(small.root, start=start).run()
    assert words in str(caught.value)


def test_a_start_beyond_the_log_is_reported(small: SmallTable) -> None:
    add(small, [1])
    with pytest.raises(SnapshotMovedError, match="not in its log"):
        Query(small.root, start='{"s": 7}').run()
