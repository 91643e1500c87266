"""Topics and partitions that come while a stream runs, or between its runs, are read from their beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds, TopicView
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, Start
from sparkhaven.ingest.feeds.kafka.planner import Position
from sparkhaven.ingest.feeds.kafka.source import KafkaStream, TopicReader
from sparkhaven.readers.spark.source_api import ReadAllAvailable
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.layout import TableName

View = Mapping[str, TopicView]


class Topics:
    """A broker whose topics the tests change."""

    def __init__(self, **ends: Sequence[int]) -> None:
        self.now: dict[str, Sequence[int]] = dict(ends)

    def look(self) -> View:
        return {
            name: TopicView(f"id-{name}", {n: OffsetBounds(0, end) for n, end in enumerate(ends)})
            for name, ends in self.now.items()
        }

    def at_time(self, places: Sequence[TopicPartition], at_ms: int) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(places)


def reader(
    tmp_path: Path, topics: Topics, start: Start, positions: Mapping[TopicPartition, Position] | None = None
) -> TopicReader:
    feed = KafkaOptions("nowhere", pattern="t.*", start=start)
    stream = KafkaStream(tmp_path, TableName("Test", "Tick"), "ticks", feed, 1)
    return TopicReader(stream, topics, positions or {})  # type: ignore[arg-type]


def plan(reader: TopicReader, start: dict[str, int]) -> tuple[dict[str, int], list[tuple[str, int, int]]]:
    end = reader.latestOffset(start, ReadAllAvailable())
    if end == start:
        return end, []
    found = [item for run in reader.partitions(start, end) for item in run.ranges]
    return end, [(f"{item.topic}/{item.partition}", item.start, item.stop) for item in found]


LATE = (Start("latest"), Start("timestamp", at_ms=5))


def test_a_topic_made_while_the_stream_runs(tmp_path: Path) -> None:
    for start in LATE:
        topics = Topics(t1=[10])
        planner = reader(tmp_path, topics, start)
        at, ranges = plan(planner, {})
        assert ranges == [("t1/0", 10, 10)]
        topics.now |= {"t1": [12, 3], "t2": [1000]}
        at, ranges = plan(planner, at)
        assert ranges == [("t1/0", 10, 12), ("t1/1", 0, 3), ("t2/0", 0, 1000)]
        assert plan(planner, at)[1] == []


def test_a_topic_made_while_the_stream_is_down(tmp_path: Path) -> None:
    for start in LATE:
        planner = reader(tmp_path, Topics(t1=[12], t2=[1000]), start, {("t1", 0): Position(10, "id-t1")})
        assert plan(planner, {"t1/0": 10})[1] == [("t1/0", 10, 12), ("t2/0", 0, 1000)]


def test_the_first_topic_of_a_pattern_made_after_the_first_look(tmp_path: Path) -> None:
    """The stream has begun when it has looked, although a feed without topics gives no epoch."""
    topics = Topics()
    planner = reader(tmp_path, topics, Start("latest"))
    at, ranges = plan(planner, {})
    assert (at, ranges) == ({}, [])
    topics.now["t1"] = [1000]
    assert plan(planner, at)[1] == [("t1/0", 0, 1000)]


def test_before_the_first_epoch_a_restart_begins_as_the_start_rule_says(tmp_path: Path) -> None:
    """Nothing was acknowledged: `latest` is where the run that commits the first epoch begins."""
    topics = Topics(t1=[10])
    plan(reader(tmp_path, topics, Start("latest")), {})  # its batch is never committed
    topics.now |= {"t1": [12], "t2": [7]}
    assert plan(reader(tmp_path, topics, Start("latest")), {})[1] == [("t1/0", 12, 12), ("t2/0", 7, 7)]


def test_an_offset_that_the_feed_names_holds_for_a_newcomer_too(tmp_path: Path) -> None:
    start = Start("offsets", offsets=(("t2", 0, 990),))
    planner = reader(tmp_path, Topics(t1=[12, 5], t2=[1000, 4]), start, {("t1", 0): Position(10, "id-t1")})
    found = plan(planner, {"t1/0": 10})[1]
    assert found == [("t1/0", 10, 12), ("t1/1", 0, 5), ("t2/0", 990, 1000), ("t2/1", 0, 4)]
