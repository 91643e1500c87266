"""Exactly the messages of ``[start, stop)`` of one partition, by consumers that are kept across batches.

One consumer a partition: a range that begins where the last one ended costs neither a seek nor a fetch that was done
already, since messages beyond ``stop`` are held for the next range. Messages are not counted but compared by offset,
because compaction and transactions leave holes; the broker reports where a partition ends, which is remembered.

A consumer that begins at a position, and one that was cut off from its broker, begins with the last message that was
read before, and compares it: a log that was put back to an older copy has another one there.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as ClientMessage
from confluent_kafka.admin import AdminClient

from sparkhaven.ingest.feeds.kafka.blocks import Message
from sparkhaven.ingest.feeds.kafka.broker.batches import BatchClient
from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles, make_admin
from sparkhaven.ingest.feeds.kafka.broker.errors import (
    end_before_position,
    log_replaced,
    partition_name,
    place_of,
    recreated,
    retention_passed,
    translated,
    unreachable,
)
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import Librdkafka
from sparkhaven.ingest.feeds.kafka.broker.objects import ObjectClient
from sparkhaven.ingest.feeds.kafka.broker.partition_client import PartitionClient
from sparkhaven.ingest.feeds.kafka.broker.topics import Waits, ask_topics, topic_partitions
from sparkhaven.ingest.feeds.kafka.broker.wire.client import OTHER_TOPIC
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import PositionGapError, SparkhavenError

Some = TypeVar("Some")  # messages that are handed out together

WAIT_SECONDS = 0.02
PATIENCE_SECONDS = 60.0  # without a message while some are due
RENEWALS = 4  # a client that stays silent is made anew so many times within the patience

_NOT_THERE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE})


@dataclass(slots=True)
class HeldClient(Generic[Some]):
    """A client of one partition. All messages before ``position`` that exist were handed out.

    ``last``: the last one of them, where it is known. ``compared``: the log has it, as far as it is known since the
    client has begun, which it did after so many ``troubles`` with the connection.
    """

    client: PartitionClient[Some]
    topic_id: str
    position: int
    last: LastMessage | None = None
    compared: bool = True
    troubles: int = 0


class _Silence:
    """How long nothing has come, and since when the client is what it is."""

    def __init__(self, clock: Callable[[], float], patience: float) -> None:
        self._clock, self._patience = clock, patience
        self._furthest = -1
        self.broken()

    def reached(self, offset: int) -> None:
        """A message of this offset came; one that an earlier client has received too breaks no silence."""
        if offset > self._furthest:
            self._furthest = offset
            self.broken()

    def broken(self) -> None:
        """Something came."""
        self._since = self._renewed = self._clock()

    def renewed(self) -> None:
        """The client is another one."""
        self._renewed = self._clock()

    @property
    def is_long(self) -> bool:
        """Long enough for another client."""
        return self._clock() - self._renewed > self._patience / RENEWALS

    @property
    def is_over(self) -> bool:
        """Longer than anybody waits."""
        return self._clock() - self._since > self._patience


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

    @abstractmethod
    def _last(self, some: Some) -> LastMessage:
        """The last of some messages."""

    def read(self, wanted: OffsetRange) -> Iterator[Some]:
        """The messages of a range in order, some thousands at a time.

        After the last ones it is proven that the topic is still the one that was planned. Raises PositionGapError when
        messages of the range are gone, the topic was recreated or its log put back, FeedError when there is no such
        topic, RetryableFeedError when nothing comes for ``patience`` seconds.
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

    def compare(self, wanted: OffsetRange) -> None:
        """Compares the message that was read before a range, and reads nothing of it. Raises what ``read`` raises."""
        partition = wanted.topic, wanted.partition
        consumer = self._hold(partition, wanted)
        try:
            self._compare(consumer, wanted, _Silence(self._clock, self._patience))
        except BaseException:
            self._drop(partition)
            raise

    def last_of(self, read: OffsetRange) -> LastMessage | None:
        """The last message of a range that was read to its end; None where it had none."""
        consumer = self._held.get((read.topic, read.partition))
        last = consumer.last if consumer is not None else None
        return last if last is not None and read.start <= last.offset < read.stop else None

    def stands_at(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a client of the partition is kept, and goes on there without a seek."""
        consumer = self._held.get((topic, partition))
        return consumer is not None and consumer.position == offset

    def close(self) -> None:
        for partition in list(self._held):
            self._drop(partition)
        self._admin = None

    def _messages(self, consumer: HeldClient[Some], wanted: OffsetRange) -> Iterator[Some]:
        silence = _Silence(self._clock, self._patience)
        while True:
            self._compare(consumer, wanted, silence)
            client = consumer.client
            all_there = client.last >= wanted.stop - 1 or client.end >= wanted.stop
            prove = self._proof(consumer, wanted) if all_there else None  # answered while the messages are decoded
            silent = silence.is_long
            for taken in self._taken(consumer, wanted.stop, whole=all_there or silent):
                yield taken
                silence.broken()
            if prove is not None:
                consumer.position = wanted.stop
                prove()
                return
            if silent:
                self._renew(consumer, wanted, silence)
                continue
            before = client.last
            self._fetch(consumer, wanted, wanted.stop - 1 - max(before, wanted.start - 1), silence)
            if consumer.troubles != self._troubles.count:
                # what came before is handed out, since it is of the log that was compared
                yield from self._taken(consumer, min(before + 1, wanted.stop), whole=True)
                self._begin(consumer, wanted.start, consumer.last)

    def _taken(self, consumer: HeldClient[Some], stop: int, *, whole: bool) -> Iterator[Some]:
        """Messages before ``stop`` that were fetched; ``whole`` as in ``PartitionClient.take``."""
        while (taken := consumer.client.take(stop, whole=whole)) is not None:
            consumer.last = self._last(taken)
            yield taken

    def _fetch(self, consumer: HeldClient[Some], wanted: OffsetRange, due: int, silence: _Silence) -> None:
        """Waits for some of the messages that are due; raises when they are no longer waited for."""
        client = consumer.client
        before = client.last
        try:
            client.fetch(due, WAIT_SECONDS)
        except KafkaException as error:
            raise self._error(consumer, wanted, error.args[0]) from None
        denied = self._troubles.denied
        if client.last != before:
            silence.reached(client.last)
        elif denied is not None:
            raise translated(denied, wanted.path, self._feed.client.hide(denied.str()), self._feed)
        elif silence.is_over:
            raise unreachable(
                f"no message came for {self._patience:.0f} seconds",
                place_of(wanted.path, self._feed),
                self._troubles.take(f"nothing, while the partition is known to end at {client.end}"),
            )

    def _hold(self, partition: TopicPartition, wanted: OffsetRange) -> HeldClient[Some]:
        consumer = self._held.pop(partition, None)
        if consumer is not None and consumer.topic_id != wanted.topic_id:
            consumer.client.close()
            consumer = None
        if consumer is None:
            while len(self._held) >= self._feed.limits.consumers:
                self._drop(next(iter(self._held)))
            consumer = HeldClient(self._open(*partition, wanted.topic_id), wanted.topic_id, wanted.start)
            self._begin(consumer, wanted.start, wanted.after)
        elif not self._goes_on(consumer, wanted):
            known = consumer.last if consumer.position == wanted.start else None
            self._begin(consumer, wanted.start, wanted.after or known)
        consumer.position = wanted.start
        self._held[partition] = consumer  # the last used is the last to go
        return consumer

    def _goes_on(self, consumer: HeldClient[Some], wanted: OffsetRange) -> bool:
        """Whether a client need not begin anew: it was not cut off, and what was read before is what it has read."""
        after, last = wanted.after, consumer.last
        if consumer.troubles != self._troubles.count or (after is not None and last is None):
            return False
        if consumer.position != wanted.start:
            return consumer.position < wanted.start and consumer.client.skip(wanted.start)
        return after is None or last is None or last.same(after)

    def _begin(self, consumer: HeldClient[Some], start: int, last: LastMessage | None) -> None:
        """Begins anew at an offset, or with the ``last`` message that was read before it."""
        consumer.last, consumer.compared, consumer.troubles = last, last is None, self._troubles.count
        if last is None:
            consumer.client.assign(start)
        else:
            consumer.client.assign(last.offset, last.epoch)

    def _compare(self, consumer: HeldClient[Some], wanted: OffsetRange, silence: _Silence) -> None:
        """Compares the last message that was read, where a client has begun with it; then it stands behind it.

        A message that retention or compaction has taken is no other log: then the broker's leader epochs have to do.
        """
        while not consumer.compared and (last := consumer.last) is not None:
            client, start = consumer.client, max(wanted.start, last.offset + 1)
            if client.last < start - 1 and client.end < start:
                if silence.is_long:
                    self._renew(consumer, wanted, silence)
                elif not self._reaches(consumer, wanted, last, silence):
                    client.assign(start)
                    consumer.compared = True
                continue
            first = client.take(last.offset + 1, whole=True)
            if first is not None and not last.same(theirs := self._last(first)):
                raise log_replaced(wanted.topic, wanted.partition, last, theirs)
            while client.take(start, whole=True) is not None:
                pass  # of transactions that were aborted, as they are read now
            consumer.compared = consumer.troubles == self._troubles.count
            if not consumer.compared:  # it was cut off meanwhile
                self._begin(consumer, start, last)

    def _reaches(self, consumer: HeldClient[Some], wanted: OffsetRange, last: LastMessage, silence: _Silence) -> bool:
        """Fetches up to where a client goes on; False where the partition begins behind the ``last`` message."""
        client, start = consumer.client, max(wanted.start, last.offset + 1)
        try:
            self._fetch(consumer, wanted, start - max(client.last + 1, last.offset), silence)
        except PositionGapError as gap:
            try:
                low, high = client.bounds(self._patience)
            except KafkaException:
                raise gap from None
            if low <= last.offset or not low <= start <= high:
                raise
            return False
        return True

    def _renew(self, consumer: HeldClient[Some], wanted: OffsetRange, silence: _Silence) -> None:
        """Another client in place of one that hands out nothing: some never fetch after a restart."""
        renewed = self._open(wanted.topic, wanted.partition, wanted.topic_id)
        consumer.client.close()
        consumer.client = renewed
        self._begin(consumer, wanted.start, consumer.last)
        silence.renewed()

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
        if consumer.last is not None:
            words = self._feed.client.hide(error.str())
            return log_replaced(wanted.topic, wanted.partition, consumer.last, words)
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


class KafkaReader(MessageRangeReader[list[ClientMessage]]):
    """Hands out lists of the Python client's messages."""

    def _open(self, topic: str, partition: int, topic_id: str) -> ObjectClient:
        return ObjectClient(self._feed, self._troubles, topic, partition)

    def _last(self, some: list[ClientMessage]) -> LastMessage:
        epoch = some[-1].leader_epoch()
        return _last_message(some[-1], -1 if epoch is None else epoch)


class BatchReader(MessageRangeReader[FramedMessages]):
    """Hands out blocks of framed messages, without an object for each."""

    def __init__(self, library: Librdkafka, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS) -> None:
        super().__init__(feed, patience=patience)
        self._library = library

    def _open(self, topic: str, partition: int, topic_id: str) -> PartitionClient[FramedMessages]:
        return BatchClient(self._library, self._feed, self._troubles, topic, partition)

    def _last(self, some: FramedMessages) -> LastMessage:
        return _last_message(some.at(int(some.offsets[-1])), some.epoch)


def _last_message(message: Message, epoch: int) -> LastMessage:
    kind, at_ms = message.timestamp()
    time_ms = at_ms if kind and at_ms >= 0 else -1
    return LastMessage.of(message.offset(), epoch, time_ms, message.key(), message.value())
