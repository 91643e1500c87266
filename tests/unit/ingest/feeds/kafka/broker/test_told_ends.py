"""Where a partition ends, as answers to Fetch tell it: a stream of one process asks nothing else between batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.reader_pool import ReaderPool
from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds, TopicView
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.planner import Position
from sparkhaven.ingest.feeds.kafka.source import LOOK_SECONDS, TOLD_SECONDS, KafkaStream, TopicReader
from sparkhaven.readers.spark.source_api import ReadAllAvailable
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.layout import TableName
from tests.support.kafka.fake_brokers import KAFKA_21, PARTITION, TOPIC, Brokers, brokers, offsets
from tests.support.kafka.fetched import ID, Made, fill, read

WAIT = 0.5


def ends(reader: KafkaReader, position: int, topic_id: str = ID) -> tuple[int, int] | None:
    """Begin and end of the partition."""
    partition = TOPIC, PARTITION
    told = reader.ends({partition: OffsetRange(*partition, position, position, topic_id)}, WAIT)
    return None if told is None else (told[partition].beginning, told[partition].end)


def test_a_reader_that_has_read_tells_ends(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        opened.partition.low = 20
        reader = made(opened)
        assert ends(reader, 20) is None, "nothing was read here"
        assert read(reader, 20, 50, ID) == list(range(20, 50))
        assert ends(reader, 50) == (20, 100)
        assert read(reader, 50, 100, ID) == list(range(50, 100))
        assert ends(reader, 100) == (20, 100)
        assert set(offsets(opened.fetches)) == {20, 100}, "all of the ranges came with the first answer"


def test_what_follows_is_asked_for_before_it_is_planned(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        read(reader, 0, 100, ID)
        assert ends(reader, 100) == (0, 100)
        for stop in (110, 120, 130):
            fill(opened, 10, start=stop - 10)
            told = [ends(reader, stop - 10), ends(reader, stop - 10)]  # the first may be of before
            assert told[1] == (0, stop)
            asked = len(opened.fetches)
            assert read(reader, stop - 10, stop, ID) == list(range(stop - 10, stop))
            assert len(opened.fetches) in (asked, asked + 1) and opened.fetches[-1].offset in (stop - 10, stop)


def test_nothing_is_asked_for_while_something_waits(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        read(reader, 0, 30, ID)
        assert [ends(reader, 30), ends(reader, 30)] == [(0, 100)] * 2
        assert offsets(opened.fetches) == [0]


def test_a_reader_that_stands_elsewhere_goes_where_the_plan_is(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        read(reader, 0, 30, ID)
        assert ends(reader, 10) == (0, 100) and offsets(opened.fetches) == [0, 10]
        assert read(reader, 10, 100, ID) == list(range(10, 100))


def test_where_ends_are_not_told(made: Made) -> None:
    with brokers(versions=KAFKA_21) as opened:
        fill(opened, 100)
        reader = made(opened)
        read(reader, 0, 100, "")
        assert ends(reader, 100, "") is None, "an old broker does not compare ids"
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        read(reader, 0, 100, ID)
        opened.partition.topic_id = b"another topic of"
        assert ends(reader, 100) is None, "the topic was made anew"


def test_a_connection_that_is_lost_meanwhile(made: Made) -> None:
    with brokers() as opened:
        fill(opened, 100)
        reader = made(opened)
        read(reader, 0, 100, ID)
        assert ends(reader, 100) == (0, 100)
        before = len(opened.connections[0])
        opened.disconnect(0)
        fill(opened, 10, start=100)
        told = [ends(reader, 100) for _ in range(50)]  # None until the leader is found anew, which may be at once
        assert set(told[:-1]) <= {None, (0, 100), (0, 110)} and told[-1] == (0, 110)
        assert len(opened.connections[0]) > before
        assert read(reader, 100, 110, ID) == list(range(100, 110))


class Topics:
    """The administrative side, and how often it was asked."""

    def __init__(self, opened: Brokers) -> None:
        self.looks, self._opened = 0, opened

    def look(self) -> Mapping[str, TopicView]:
        self.looks += 1
        state = self._opened.partition
        return {TOPIC: TopicView(ID, {PARTITION: OffsetBounds(state.low, state.end)})}


class Stream:
    """A planner and a reader in one process; time is told."""

    def __init__(self, opened: Brokers, directory: Path, kept: ReaderPool) -> None:
        self.now, self.topics, self._kept = 0.0, Topics(opened), kept
        feed = KafkaOptions(opened.bootstrap, (TOPIC,))
        stream = KafkaStream(directory, TableName("Test", "Tick"), "ticks", feed, 1)
        positions = {(TOPIC, PARTITION): Position(0, ID)}
        self._planner = TopicReader(stream, self.topics, positions, lambda: self.now, kept)  # type: ignore[arg-type]
        self._feed, self._end = feed, self._planner.initialOffset()

    def batch(self) -> list[int]:
        """The offsets of the next batch."""
        end = self._planner.latestOffset(self._end, ReadAllAvailable())
        (run,) = self._planner.partitions(self._end, end) if end != self._end else (None,)
        self._end = end
        if run is None:
            return []
        with self._kept.lease(self._feed, run.ranges) as reader:
            return [offset for item in run.ranges for offset in read(reader, item.start, item.stop, item.topic_id)]


def test_a_stream_asks_for_its_topics_once_a_second(tmp_path: Path) -> None:
    with brokers() as opened:
        fill(opened, 10)
        stream = Stream(opened, tmp_path, ReaderPool())
        got, batches = stream.batch(), 0
        while stream.now + TOLD_SECONDS / 2 < LOOK_SECONDS:
            fill(opened, 10, start=opened.partition.end)
            stream.now += TOLD_SECONDS / 2
            got += stream.batch()
            batches += 1
        assert stream.topics.looks == 1 and batches > 20 and len(got) >= 10 * batches
        stream.now = LOOK_SECONDS
        got += stream.batch()
        assert stream.topics.looks == 2
        fill(opened, 10, start=opened.partition.end)
        stream.now += 2 * TOLD_SECONDS  # a planner that comes rarely asks: what a reader was told then is old
        got += stream.batch()
        assert stream.topics.looks == 3
        assert got == list(range(opened.partition.end))
