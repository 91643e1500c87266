"""Exactly the messages of ``[start, stop)`` of one partition, by consumers that are kept across batches.

One consumer a partition: a range that begins where the last one ended costs neither a seek nor a fetch that was done
already, since messages beyond ``stop`` are held for the next range. Messages are not counted but compared by offset,
because compaction and transactions leave holes; the broker reports where a partition ends, which is remembered.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from sparkhaven.ingest.feeds.kafka.broker.batches import BatchClient
from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles, make_admin
from sparkhaven.ingest.feeds.kafka.broker.errors import (
    end_before_position,
    partition_name,
    place_of,
    recreated,
    retention_passed,
    translated,
    unreachable,
)
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import Librdkafka
from sparkhaven.ingest.feeds.kafka.broker.objects import ObjectClient
from sparkhaven.ingest.feeds.kafka.broker.partition_client import PartitionClient, Some
from sparkhaven.ingest.feeds.kafka.broker.topics import Waits, ask_topics, topic_partitions
from sparkhaven.ingest.feeds.kafka.broker.wire.client import OTHER_TOPIC
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import PositionGapError, SparkhavenError

WAIT_SECONDS = 0.02
PATIENCE_SECONDS = 60.0  # without a message while some are due
RENEWALS = 4  # a client that stays silent is made anew so many times within the patience

_NOT_THERE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE})


@dataclass(slots=True)
class HeldClient(Generic[Some]):
    """A client of one partition. All messages before ``position`` that exist were handed out."""

    client: PartitionClient[Some]
    topic_id: str
    position: int


class MessageRangeReader(ABC, Generic[Some]):
    """Reads ranges of one feed in one process."""

    def __init__(
        self, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._feed, self._patience, self._clock = feed, patience, clock
        self._troubles = Troubles(feed)
        self._held: dict[TopicPartition, HeldClient[Some]] = {}
        self._admin: AdminClient | None = None

    @abstractmethod
    def _open(self, topic: str, partition: int, topic_id: str) -> PartitionClient[Some]:
        """A client for a partition; SettingsError for settings that it refuses."""

    def read(self, wanted: OffsetRange) -> Iterator[Some]:
        """The messages of a range in order, some thousands at a time.

        After the last ones it is proven that the topic is still the one that was planned. Raises PositionGapError when
        messages of the range are gone or the topic was recreated, FeedError when there is no such topic,
        RetryableFeedError when nothing comes for ``patience`` seconds.
        """
        if wanted.start >= wanted.stop:
            return
        partition = wanted.topic, wanted.partition
        consumer = self._hold(partition, wanted)
        try:
            yield from self._messages(consumer, wanted)
        except BaseException:
            self._drop(partition)  # where the consumer stands is not known for sure
            raise

    def stands_at(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a client of the partition is kept, and goes on there without a seek."""
        consumer = self._held.get((topic, partition))
        return consumer is not None and consumer.position == offset

    def close(self) -> None:
        for partition in list(self._held):
            self._drop(partition)
        self._admin = None

    def _messages(self, consumer: HeldClient[Some], wanted: OffsetRange) -> Iterator[Some]:
        client, reached = consumer.client, max(wanted.start, consumer.client.last + 1)
        since = renewed = self._clock()
        while True:
            all_there = client.last >= wanted.stop - 1 or client.end >= wanted.stop
            prove = self._proof(consumer, wanted) if all_there else None  # answered while the messages are decoded
            silent = self._clock() - renewed > self._patience / RENEWALS
            while (taken := client.take(wanted.stop, whole=all_there or silent)) is not None:
                yield taken
                since = renewed = self._clock()
            if prove is not None:
                consumer.position = wanted.stop
                prove()
                return
            if silent:
                client, renewed = self._renew(consumer, wanted, reached), self._clock()
            before = client.last
            self._fetch(consumer, wanted, wanted.stop - 1 - max(before, wanted.start - 1))
            denied = self._troubles.denied
            if client.last != before:
                since = renewed = self._clock()
                reached = client.last + 1
            elif denied is not None:
                raise translated(denied, wanted.path, self._feed.client.hide(denied.str()), self._feed)
            elif self._clock() - since > self._patience:
                raise unreachable(
                    f"no message came for {self._patience:.0f} seconds",
                    place_of(wanted.path, self._feed),
                    self._troubles.take(f"nothing, while the partition is known to end at {client.end}"),
                )

    def _fetch(self, consumer: HeldClient[Some], wanted: OffsetRange, due: int) -> None:
        try:
            consumer.client.fetch(due, WAIT_SECONDS)
        except KafkaException as error:
            raise self._error(consumer, wanted, error.args[0]) from None

    def _hold(self, partition: TopicPartition, wanted: OffsetRange) -> HeldClient[Some]:
        consumer = self._held.pop(partition, None)
        if consumer is not None and consumer.topic_id != wanted.topic_id:
            consumer.client.close()
            consumer = None
        if consumer is None:
            while len(self._held) >= self._feed.limits.consumers:
                self._drop(next(iter(self._held)))
            consumer = HeldClient(self._open(*partition, wanted.topic_id), wanted.topic_id, wanted.start)
            consumer.client.assign(wanted.start)
        elif consumer.position != wanted.start:
            if wanted.start < consumer.position or not consumer.client.skip(wanted.start):
                consumer.client.assign(wanted.start)
            consumer.position = wanted.start
        self._held[partition] = consumer  # the last used is the last to go
        return consumer

    def _renew(self, consumer: HeldClient[Some], wanted: OffsetRange, start: int) -> PartitionClient[Some]:
        """Another client in place of one that has handed out all before ``start``: some never fetch after a restart."""
        renewed = self._open(wanted.topic, wanted.partition, wanted.topic_id)
        renewed.assign(start)
        consumer.client.close()
        consumer.client = renewed
        return renewed

    def _drop(self, partition: TopicPartition) -> None:
        consumer = self._held.pop(partition, None)
        if consumer is not None:
            consumer.client.close()

    def _error(self, consumer: HeldClient[Some], wanted: OffsetRange, error: KafkaError) -> Exception:
        code = error.code()
        name = partition_name(wanted.topic, wanted.partition)
        if code in OTHER_TOPIC:
            return self._other_topic(wanted, error)
        if code not in _NOT_THERE:
            return translated(error, name, self._feed.client.hide(error.str()), self._feed)
        try:
            low, high = consumer.client.bounds(self._patience)
        except KafkaException as failed:
            return translated(failed.args[0], name, self._feed.client.hide(failed.args[0].str()), self._feed)
        if low > wanted.start:
            return retention_passed(wanted.topic, wanted.partition, wanted.start, low)
        if high < wanted.stop:
            return end_before_position(wanted.topic, wanted.partition, wanted.stop, high)
        return PositionGapError(
            "the broker did not find the committed position",
            where=wanted.path,
            expected=f"an offset between {low} and {high}",
            found=self._feed.client.hide(error.str()),
            hint="start the stream again. Nothing of this batch was committed",
        )

    def _other_topic(self, wanted: OffsetRange, error: KafkaError) -> Exception:
        """The leader does not know the topic by its id: what became of it."""
        try:
            self._asked_for_topic(wanted)()
        except SparkhavenError as told:
            return told
        return translated(error, wanted.path, error.str(), self._feed)

    def _proof(self, consumer: HeldClient[Some], wanted: OffsetRange) -> Callable[[], None]:
        """Begins to prove that the messages of a range are of the topic that was planned; what is returned ends it."""
        return self._asked_for_topic(wanted)

    def _asked_for_topic(self, wanted: OffsetRange) -> Callable[[], None]:
        """Asks which topic there is, once all messages of a range are there; what is returned raises if it is another.

        FeedError when there is no such topic, PositionGapError when it was recreated.
        """
        if not wanted.topic_id:
            return lambda: None
        if self._admin is None:  # not by its truth: a client that has nothing to send is empty
            self._admin = make_admin(self._feed, self._troubles)
        waits = Waits(self._admin, self._feed, self._troubles)
        topics = ask_topics(waits, [wanted.topic])

        def prove() -> None:
            topic_id, _ = topic_partitions(waits, [wanted.topic], topics)[wanted.topic]
            if topic_id != wanted.topic_id:
                raise recreated(wanted.topic, wanted.topic_id, topic_id)

        return prove


class KafkaReader(MessageRangeReader[list[Message]]):
    """Hands out lists of the Python client's messages."""

    def _open(self, topic: str, partition: int, topic_id: str) -> ObjectClient:
        return ObjectClient(self._feed, self._troubles, topic, partition)


class BatchReader(MessageRangeReader[FramedMessages]):
    """Hands out blocks of framed messages, without an object for each."""

    def __init__(self, library: Librdkafka, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS) -> None:
        super().__init__(feed, patience=patience)
        self._library = library

    def _open(self, topic: str, partition: int, topic_id: str) -> PartitionClient[FramedMessages]:
        return BatchClient(self._library, self._feed, self._troubles, topic, partition)
