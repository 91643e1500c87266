"""A broker that dies while it is asked: the client's answer has no offset and no error."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID

from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, OffsetBounds
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.errors import RetryableFeedError

NO_MESSAGE = -1  # what a broker answers where no message is as new as the time


def answers(monkeypatch: pytest.MonkeyPatch, offsets: dict[tuple[str, int], int]) -> KafkaTopics:
    """Topics whose client answers so; nothing listens at the address."""

    def ask(self: KafkaTopics, partitions: Any, spec: Any) -> dict[tuple[str, int], Future[Any]]:
        found: dict[tuple[str, int], Future[Any]] = {}
        for partition in partitions:
            found[partition] = Future()
            found[partition].set_result(SimpleNamespace(offset=offsets[partition]))
        return found

    monkeypatch.setattr(KafkaTopics, "_ask", ask)
    return KafkaTopics(KafkaOptions("127.0.0.1:1", ("t",)), patience=0.1)


def test_an_answer_without_an_offset_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ("t", 0), ("t", 1)
    topics = answers(monkeypatch, {one: 50, other: OFFSET_INVALID})
    assert topics.ends([one, other]) == {one: 50}
    with pytest.raises(RetryableFeedError, match="no answer where the partition begins or ends") as caught:
        topics.ends([other])
    assert caught.value.where == "t/1 at 127.0.0.1:1"


def test_an_answer_without_an_offset_is_not_that_there_is_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = answers(monkeypatch, {("t", 0): NO_MESSAGE, ("t", 1): OFFSET_INVALID, ("t", 2): 7})
    assert topics.at_time([("t", 0), ("t", 2)], 0) == {("t", 0): None, ("t", 2): 7}
    with pytest.raises(RetryableFeedError):
        topics.at_time([("t", 0), ("t", 1)], 0)


def described(monkeypatch: pytest.MonkeyPatch, topics: dict[str, tuple[str, list[int]]]) -> None:
    """A broker that has these topics when it is asked."""
    module = "sparkhaven.ingest.feeds.kafka.broker.topics"
    monkeypatch.setattr(f"{module}.ask_topics", lambda waits, names: {})
    monkeypatch.setattr(f"{module}.topic_partitions", lambda waits, names, answers: dict(topics))


def test_topics_that_have_changed_are_asked_for_their_ends_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {("t", 0): 5, ("t", 1): 6}
    topics = answers(monkeypatch, ends)
    described(monkeypatch, {"t": ("one", [0])})
    assert topics.look()["t"].partitions == {0: OffsetBounds(5, 5)}
    ends["t", 0] = 7  # asked together with what the topics are
    assert topics.look()["t"].partitions == {0: OffsetBounds(7, 7)}
    described(monkeypatch, {"t": ("one", [0, 1])})
    assert topics.look()["t"].partitions == {0: OffsetBounds(7, 7), 1: OffsetBounds(6, 6)}


def test_ends_of_a_topic_that_was_made_anew_are_asked_after_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {("t", 0): 5}
    topics = answers(monkeypatch, ends)
    described(monkeypatch, {"t": ("one", [0])})
    topics.look()

    def anew(waits: object, names: object, asked: object) -> dict[str, tuple[str, list[int]]]:
        ends["t", 0] = 1
        return {"t": ("two", [0])}

    monkeypatch.setattr("sparkhaven.ingest.feeds.kafka.broker.topics.topic_partitions", anew)
    view = topics.look()["t"]
    assert view.topic_id == "two" and view.partitions == {0: OffsetBounds(1, 1)}
