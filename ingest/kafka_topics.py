"""What a broker says about the topics of a feed: their ids, partitions, and where each begins and ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ingest.kafka_clients import Troubles, make_admin, make_consumer
from ingest.kafka_errors import place_name, topic_gone, translated
from ingest.kafka_feed import KafkaFeed

PATIENCE_SECONDS = 30.0
_NO_ID = "A" * 22
_READ_UNCOMMITTED = "read_uncommitted"

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Messages of a partition lie in ``[beginning, end)``; those of open transactions are beyond ``end``."""

    beginning: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as it is now. ``topic_id`` is "" at brokers that have none (before Kafka 2.8)."""

    topic_id: str
    partitions: Mapping[int, Bounds]


class KafkaTopics:
    """The administrative side of a feed."""

    def __init__(self, feed: KafkaFeed, *, patience: float = PATIENCE_SECONDS) -> None:
        self._feed, self._patience = feed, patience
        self._troubles = Troubles(feed)
        self._admin = make_admin(feed, self._troubles)
        level = dict(feed.client.values).get("isolation.level")
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED if level == _READ_UNCOMMITTED else IsolationLevel.READ_COMMITTED
        )

    def look(self) -> dict[str, TopicView]:
        """All topics of the feed. FeedError when a named one does not exist, RetryableFeedError without an answer."""
        names = self._names()
        described = topic_partitions(self._admin, self._feed, names, self._troubles, self._patience)
        places = [(name, number) for name in names for number in described[name][1]]
        beginnings = self._ask(places, lambda place: OffsetSpec.earliest())
        ends = self._ask(places, lambda place: OffsetSpec.latest())
        first, last = self._offsets(beginnings), self._offsets(ends)
        return {
            name: TopicView(topic_id, {n: Bounds(first[name, n], last[name, n]) for n in numbers})
            for name, (topic_id, numbers) in described.items()
        }

    def at_time(self, places: Sequence[Place], at_ms: int) -> dict[Place, int | None]:
        """The first offset at or after a time; None where there is no such message yet."""
        found = self._offsets(self._ask(places, lambda place: OffsetSpec.for_timestamp(at_ms)))
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def committed(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """What the consumer group of the client's settings has committed; None where it has nothing."""
        consumer = make_consumer(self._feed, self._troubles)
        try:
            found = consumer.committed([TopicPartition(*place) for place in places], timeout=self._patience)
        except KafkaException as error:
            raise self._translated(error, "committed offsets") from None
        finally:
            consumer.close()
        return {(item.topic, item.partition): item.offset if item.offset >= 0 else None for item in found}

    def _names(self) -> list[str]:
        if self._feed.pattern is None:
            return list(self._feed.topics)
        try:
            listed = self._admin.list_topics(timeout=self._patience).topics
        except KafkaException as error:
            raise self._translated(error, self._feed.bootstrap) from None
        wanted = re.compile(self._feed.pattern)
        return sorted(name for name in listed if wanted.fullmatch(name) and not name.startswith("__"))

    def _ask(self, places: Iterable[Place], spec: Any) -> dict[Place, Future[Any]]:
        asked = {TopicPartition(*place): spec(place) for place in places}
        if not asked:
            return {}
        futures = self._admin.list_offsets(asked, isolation_level=self._isolation, request_timeout=self._patience)
        return {(item.topic, item.partition): future for item, future in futures.items()}

    def _offsets(self, futures: Mapping[Place, Future[Any]]) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for place, future in futures.items():
            try:
                found[place] = future.result(self._patience + 5).offset
            except KafkaException as error:
                raise self._translated(error, place_name(*place)) from None
        return found

    def _translated(self, error: KafkaException, where: str) -> Exception:
        return _translated(error, where, self._admin, self._feed, self._troubles)


def topic_partitions(
    admin: AdminClient, feed: KafkaFeed, names: Sequence[str], troubles: Troubles, patience: float = PATIENCE_SECONDS
) -> dict[str, tuple[str, list[int]]]:
    """Id and partition numbers of each topic; FeedError when one does not exist."""
    if not names:
        return {}
    futures = admin.describe_topics(TopicCollection(list(names)), request_timeout=patience)
    found: dict[str, tuple[str, list[int]]] = {}
    for name in names:
        try:
            described = futures[name].result(patience + 5)
        except KafkaException as error:
            raise _translated(error, name, admin, feed, troubles) from None
        topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")
        found[name] = "" if topic_id == _NO_ID else topic_id, sorted(item.id for item in described.partitions)
        if not found[name][1]:
            raise topic_gone(name)
    return found


def _translated(
    error: KafkaException, where: str, admin: AdminClient, feed: KafkaFeed, troubles: Troubles
) -> Exception:
    admin.poll(0)  # lets the client tell its troubles
    if troubles.denied is not None:
        return translated(troubles.denied, where, feed.client.hide(troubles.denied.str()))
    told = error.args[0]
    return translated(told, where, troubles.take(feed.client.hide(told.str())))
