"""What the administrative side makes of answers: topics, ends, offsets of times, and those that are not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsResponse

from sparkhaven.ingest.feeds.kafka.broker.link import TopicState
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, OffsetBounds
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import FeedSettingsError, RetryableFeedError
from tests.support.kafka.fake_brokers import PARTITION, TOPIC, UNKNOWN_TOPIC, brokers
from tests.support.kafka.fetched import ID, QUICK, fill

UNKNOWN, MOVED, NO_MESSAGE = 3, 6, -1


class Answers:
    """A link without brokers: what topics are, and what is answered about offsets; ``-e`` is an error of code e."""

    def __init__(self, topics: Mapping[str, TopicState], offsets: dict[TopicPartition, int]) -> None:
        self.topics, self.offsets, self.asked = dict(topics), offsets, 0
        self.leaders: dict[TopicPartition, Any] = {}

    def describe(self, names: object) -> object:
        self.leaders = {(name, n): _Node() for name, state in self.topics.items() for n in state.partitions}
        return self.topics

    def send(self, request: Any, node: int) -> object:
        self.asked += 1
        made = ListOffsetsResponse.ListOffsetsTopicResponse
        place = made.ListOffsetsPartitionResponse
        topics = []
        for topic in request.topics:
            told = []
            for one in topic.partitions:
                answer = self.offsets[topic.name, one.partition_index]
                code, offset = (0, answer) if answer >= -1 else (-answer, -1)
                told.append(place(partition_index=one.partition_index, error_code=code, timestamp=-1, offset=offset))
            topics.append(made(name=topic.name, partitions=told))
        return ListOffsetsResponse(topics=topics)

    def result(self, answer: object, seconds: float, look: object) -> object:
        return answer

    def forget(self, partition: TopicPartition) -> None:
        self.leaders.pop(partition)

    def turn(self, seconds: float) -> None: ...


class _Node:
    node = 1


def asked(offsets: dict[TopicPartition, int]) -> tuple[KafkaTopics, Answers]:
    topics = KafkaTopics(KafkaOptions("127.0.0.1:1", ("t",)), patience=0.1)
    numbers = dict.fromkeys((n for _, n in offsets), 0)
    link = Answers({"t": TopicState(0, "one", numbers)}, offsets)
    topics._link = link  # type: ignore[assignment]
    return topics, link


def test_ends_that_are_not_told_are_left_out_and_none_is_an_error() -> None:
    topics, _ = asked({("t", 0): 50, ("t", 1): -UNKNOWN})
    assert topics.ends([("t", 0), ("t", 1)]) == {("t", 0): 50}
    with pytest.raises(FeedSettingsError, match="no such partition") as caught:
        topics.ends([("t", 1)])
    assert caught.value.where == "t/1"
    topics, _ = asked({("t", 0): -MOVED})
    with pytest.raises(RetryableFeedError, match="cannot be read") as moved:
        topics.ends([("t", 0)])
    assert moved.value.where == "t/0 at 127.0.0.1:1" and "NOT_LEADER" in str(moved.value.found)


def test_a_time_behind_the_last_message_is_not_an_error() -> None:
    topics, _ = asked({("t", 0): NO_MESSAGE, ("t", 1): 7})
    assert topics.at_time([("t", 0), ("t", 1)], 0) == {("t", 0): None, ("t", 1): 7}
    topics, _ = asked({("t", 0): 7, ("t", 1): -MOVED})
    with pytest.raises(RetryableFeedError):
        topics.at_time([("t", 0), ("t", 1)], 0)


def test_a_leader_that_has_moved_is_asked_for_until_it_is_known() -> None:
    topics, link = asked({("t", 0): -MOVED})
    send = link.send

    def later(request: Any, node: int) -> object:
        if link.asked == 2:
            link.offsets["t", 0] = 5
        return send(request, node)

    link.send = later  # type: ignore[method-assign]
    topics._patience = 60
    assert topics.look()["t"].partitions == {0: OffsetBounds(5, 5)}


def test_a_topic_and_its_ends() -> None:
    with brokers() as opened:
        fill(opened, 100)
        opened.partition.low = 20
        feed = KafkaOptions(opened.bootstrap, (TOPIC,), client=ClientSettings(tuple(QUICK.items())))
        topics = KafkaTopics(feed, patience=10)
        view = topics.look()[TOPIC]
        assert (view.topic_id, view.partitions) == (ID, {PARTITION: OffsetBounds(20, 100)})
        opened.disconnect(0)
        fill(opened, 10, start=100)
        assert topics.look()[TOPIC].partitions[PARTITION].end == 110
        assert topics.ends([(TOPIC, PARTITION)]) == {(TOPIC, PARTITION): 110}
        opened.partition.topic_error = UNKNOWN_TOPIC
        with pytest.raises(FeedSettingsError, match="no such topic") as caught:
            topics.look()
        assert caught.value.where == TOPIC
        pattern = KafkaOptions(opened.bootstrap, pattern="tock.*")
        opened.partition.topic_error = 0
        assert KafkaTopics(pattern, patience=10).look() == {}
