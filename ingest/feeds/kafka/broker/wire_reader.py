"""Ranges of messages by requests of our own, and where partitions end, as the same requests tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from select import POLLIN, poll

from confluent_kafka import KafkaException

from sparkhaven.ingest.feeds.kafka.broker.batches import BatchClient
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import LOG, Librdkafka
from sparkhaven.ingest.feeds.kafka.broker.partition_client import PartitionClient
from sparkhaven.ingest.feeds.kafka.broker.reader import PATIENCE_SECONDS, BatchReader, HeldClient
from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds
from sparkhaven.ingest.feeds.kafka.broker.wire.client import WireClient
from sparkhaven.ingest.feeds.kafka.broker.wire.connection import Buffers
from sparkhaven.ingest.feeds.kafka.broker.wire.fallback import SwitchingClient
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import Source
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import WireSettings
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition

BY_LIBRDKAFKA = "messages are read by librdkafka (%s). Results are the same, reading takes longer"

Held = HeldClient[FramedMessages]
MS = 1000


class _Reasons:
    """Tells each reason once why librdkafka reads what it need not."""

    def __init__(self, feed: KafkaOptions) -> None:
        self._feed = feed
        self._known: set[str] = set()

    def note(self, reason: str) -> None:
        if reason not in self._known:
            self._known.add(reason)
            LOG.info(BY_LIBRDKAFKA, self._feed.client.hide(reason))


class WireReader(BatchReader):
    """Hands out blocks of framed messages, by librdkafka what requests of our own cannot read.

    Once ``ends`` has told ends, the Fetch of what follows a range is sent as soon as the range was handed out.
    """

    def __init__(
        self, library: Librdkafka, settings: WireSettings, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS
    ) -> None:
        super().__init__(library, feed, patience=patience)
        self._settings = settings
        self._buffers, self._reasons = Buffers(), _Reasons(feed)
        self._follows = False

    def read(self, wanted: OffsetRange) -> Iterator[FramedMessages]:
        yield from super().read(wanted)
        consumer = self._held.get((wanted.topic, wanted.partition))
        if self._follows and consumer is not None and (own := _own(consumer)) is not None:
            own.ahead()

    def ends(
        self, positions: Mapping[TopicPartition, OffsetRange], seconds: float
    ) -> dict[TopicPartition, OffsetBounds] | None:
        """Where partitions begin and end, after at most so many seconds in which there is nothing behind ``positions``.

        None where this reader does not read them all by requests that name topics by their id.
        """
        self._follows = False
        if not self._held or len(positions) > self._feed.limits.consumers:
            return None
        consumers = [self._hold(partition, position) for partition, position in positions.items()]
        try:
            _look(consumers)
            if not any(map(_has_news, consumers)):
                _wait(consumers, seconds)
                _look(consumers)
        except KafkaException:  # which a look by the administrative client tells as what it is
            return None
        owns = [_own(consumer) for consumer in consumers]
        told = {
            partition: OffsetBounds(*own.told)
            for partition, own in zip(positions, owns, strict=True)
            if own is not None and own.by_id and own.told is not None
        }
        self._follows = len(told) == len(positions)
        return told if self._follows else None

    def _open(self, topic: str, partition: int, topic_id: str) -> PartitionClient[FramedMessages]:
        source = Source(topic, partition, topic_id)
        own = WireClient(self._settings, self._feed, self._troubles, source, self._buffers)
        # knows nothing of this reader: what is forgotten ends its connections at once
        other = partial(BatchClient, self._library, self._feed, self._troubles, topic, partition)
        return SwitchingClient(own, other, self._reasons.note)

    def _proof(self, consumer: Held, wanted: OffsetRange) -> Callable[[], None]:
        own = _own(consumer)
        return _proved if own is not None and own.by_id else super()._proof(consumer, wanted)


def _proved() -> None:
    """The leader has compared the id with each Fetch."""


def _own(consumer: Held) -> WireClient | None:
    return consumer.client.own if isinstance(consumer.client, SwitchingClient) else None


def _has_news(consumer: Held) -> bool:
    """Whether it is known that there is something behind what was handed out."""
    own = _own(consumer)
    return own is not None and own.told is not None and own.told[1] > consumer.position


def _wait(consumers: list[Held], seconds: float) -> None:
    """Until a broker answers, so many seconds at most."""
    waiting = poll()
    for consumer in consumers:
        own = _own(consumer)
        if own is not None and own.connection is not None:
            waiting.register(own.connection, POLLIN)
    waiting.poll(seconds * MS)


def _look(consumers: list[Held]) -> None:
    """Takes answers about partitions of which nothing waits, and asks for what follows where there is nothing yet."""
    for consumer in consumers:
        if not _has_news(consumer):
            consumer.client.fetch(0, 0.0)
        if not _has_news(consumer) and (own := _own(consumer)) is not None:
            own.ahead()
