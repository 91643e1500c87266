"""Readers as PySpark 4.0 and 4.1 call them: ``latestOffset()`` without a start, a limit, or a trigger."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.files.source import FilesStream, files_source
from sparkhaven.ingest.spec import Limit
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.spark.batch import PlannedBatches, WholeBatches, planned_source
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.readers.spark.stream import EpochReader
from tests.support.streams.stream_kit import STREAM, TABLE
from tests.support.tables.small_tables import SmallTable


def put(feed: Path, name: str) -> None:
    feed.mkdir(exist_ok=True)
    (feed / name).write_text("{}\n")


def reader(tmp_path: Path, *, once: bool) -> Any:
    feed = FilesOptions(str(tmp_path / "feed" / "*.json"), max_per_trigger=Limit(files=2), settle_s=0.0)
    stream = FilesStream(tmp_path / "db", TABLE, STREAM, feed, 1)
    return planned_source(files_source(stream, parts=False), once=once)({}).streamReader(None)


def taken(reader: Any) -> list[list[str]]:
    """Batches as Spark asks for them, until nothing is new."""
    batches, start = [], reader.initialOffset()
    while (end := reader.latestOffset()) != start:
        runs = reader.partitions(start, end)
        batches.append([Path(row[0]).name for run in runs for row in reader.read(run)])
        reader.commit(end)
        start = end
    return batches


@pytest.mark.parametrize("once", [True, False])
def test_batches_keep_to_the_limits_of_the_stream(tmp_path: Path, once: bool) -> None:
    for number in range(5):
        put(tmp_path / "feed", f"{number}.json")
    asked = reader(tmp_path, once=once)
    assert isinstance(asked, PlannedBatches)
    first = asked.latestOffset()
    put(tmp_path / "feed", "9.json")
    start, names = asked.initialOffset(), []
    end = first
    while end != start:
        names.append([Path(row[0]).name for run in asked.partitions(start, end) for row in asked.read(run)])
        start, end = end, asked.latestOffset()
    expected = [["0.json", "1.json"], ["2.json", "3.json"], ["4.json"] if once else ["4.json", "9.json"]]
    assert names == expected
    asked.stop()


def test_a_worker_gets_what_reads(tmp_path: Path) -> None:
    put(tmp_path / "feed", "1.json")
    asked = reader(tmp_path, once=True)
    end = asked.latestOffset()
    (run,) = asked.partitions(asked.initialOffset(), end)
    sent = pickle.loads(pickle.dumps(asked))
    assert [Path(row[0]).name for row in sent.read(run)] == ["1.json"]


def test_a_stream_of_epochs_takes_all_that_is_there(tmp_path: Path) -> None:
    """Also from the checkpoint of an earlier query, whose offset nobody is told."""
    made = SmallTable(tmp_path / "db")
    made.add("a", "2013-01-01", {"Size": [1, 2]})
    options = ReadOptions(root=made.root, name=str(made.table))
    asked = WholeBatches(EpochReader(open_table(made.root, str(made.table)), options))
    first = asked.latestOffset()
    assert first == asked.latestOffset() != asked.initialOffset()
    made.add("a", "2013-01-01", {"Size": [3]})
    second = asked.latestOffset()

    def rows(start: dict[str, Any], end: dict[str, Any]) -> list[int]:
        tasks = asked.partitions(start, end)
        return [size for task in tasks for batch in asked.read(task) for size in batch.column("Size").to_pylist()]

    assert (rows({}, first), rows(first, second)) == ([1, 2], [3])
    assert rows({}, second) == [1, 2, 3]
