"""Exactly the messages of ``[start, stop)`` of one partition, by consumers that are kept across batches.

One consumer a partition: a range that begins where the last one ended costs neither a seek nor a fetch that was done
already, since messages beyond ``stop`` are held for the next range. Messages are not counted but compared by offset,
because compaction and transactions leave holes; the broker reports where a partition ends, which is remembered.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import methodcaller

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from ingest.feeds.kafka.broker.clients import Troubles, make_admin, make_consumer
from ingest.feeds.kafka.broker.errors import (
    end_before_position,
    partition_name,
    recreated,
    retention_passed,
    translated,
    unreachable,
)
from ingest.feeds.kafka.broker.topics import topic_partitions
from ingest.options.kafka import KafkaOptions
from store.collector import gc_paused
from store.epochs.state.offsets import TopicPartition
from store.epochs.state.values import OffsetRange
from store.errors import PositionGapError

AT_ONCE = 2000  # messages of one call; larger calls wait longer for less
WAIT_SECONDS = 0.02
PATIENCE_SECONDS = 60.0  # without a message while some are due
MAX_CONSUMERS = 64  # a worker's; each has threads and buffers of its own

_event = methodcaller("error")
_NOT_THERE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE})


@dataclass(slots=True)
class _Held:
    """A consumer of one partition. All messages before ``position`` that exist were handed out.

    ``surplus`` are messages fetched and not handed out; ``end`` is the last known end of the partition.
    """

    consumer: Consumer
    topic_id: str
    position: int
    surplus: deque[Message] = field(default_factory=deque)
    end: int = -1


class KafkaReader:
    """Reads ranges of one feed in one process."""

    def __init__(
        self, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._feed, self._patience, self._clock = feed, patience, clock
        self._troubles = Troubles(feed)
        self._held: dict[TopicPartition, _Held] = {}
        self._admin: AdminClient | None = None

    def read(self, wanted: OffsetRange) -> Iterator[list[Message]]:
        """The messages of a range in order, some thousands at a time.

        After the last ones it is proven that the topic is still the one that was planned. Raises PositionGapError when
        messages of the range are gone or the topic was recreated, FeedError when there is no such topic,
        RetryableFeedError when nothing comes for ``patience`` seconds.
        """
        if wanted.start >= wanted.stop:
            return
        partition = wanted.topic, wanted.partition
        held = self._hold(partition, wanted)
        try:
            yield from self._messages(held, wanted)
            self._prove_topic(wanted)
        except BaseException:
            self._drop(partition)  # where the consumer stands is not known for sure
            raise

    def close(self) -> None:
        """Lets all consumers go."""
        for partition in list(self._held):
            self._drop(partition)
        self._admin = None

    def _messages(self, held: _Held, wanted: OffsetRange) -> Iterator[list[Message]]:
        since, due = self._clock(), wanted.stop - wanted.start
        while True:
            taken, done = _take(held.surplus, wanted.stop)
            if taken:
                since, due = self._clock(), wanted.stop - 1 - taken[-1].offset()
                yield taken
            if done or not due or held.end >= wanted.stop:
                held.position = wanted.stop
                return
            self._fetch(held, wanted, due)
            denied = self._troubles.denied
            if not held.surplus and denied is not None:
                raise translated(denied, wanted.path, self._feed.client.hide(denied.str()))
            if not held.surplus and self._clock() - since > self._patience:
                raise unreachable(
                    f"no message came for {self._patience:.0f} seconds",
                    wanted.path,
                    self._troubles.take(f"nothing, while the partition is known to end at {held.end}"),
                )

    def _fetch(self, held: _Held, wanted: OffsetRange, due: int) -> None:
        try:
            # a call returns when it has as many as it asks for: more than are due may not come
            with gc_paused():
                found = held.consumer.consume(min(AT_ONCE, due), WAIT_SECONDS)
        except KafkaException as error:
            raise self._error(held, wanted, error.args[0]) from None
        if not found:
            return
        # events are rare: only the ends of a call are looked at one by one, unless there is one among the messages
        if any(map(_event, found)):
            for message in found:
                failed = message.error()
                if failed is None:
                    held.surplus.append(message)
                elif failed.code() == KafkaError._PARTITION_EOF:
                    held.end = max(held.end, message.offset())
                else:
                    raise self._error(held, wanted, failed)
        else:
            held.surplus.extend(found)

    def _hold(self, partition: TopicPartition, wanted: OffsetRange) -> _Held:
        held = self._held.pop(partition, None)
        if held is not None and held.topic_id != wanted.topic_id:
            held.consumer.close()
            held = None
        if held is None:
            while len(self._held) >= MAX_CONSUMERS:
                self._drop(next(iter(self._held)))
            consumer = make_consumer(self._feed, self._troubles)
            consumer.assign([ClientPartition(*partition, wanted.start)])
            held = _Held(consumer, wanted.topic_id, wanted.start)
        elif held.position != wanted.start:
            self._seek(held, partition, wanted)
        self._held[partition] = held  # the last used is the last to go
        return held

    def _seek(self, held: _Held, partition: TopicPartition, wanted: OffsetRange) -> None:
        if wanted.start > held.position and held.surplus and held.surplus[-1].offset() >= wanted.start:
            while held.surplus[0].offset() < wanted.start:
                held.surplus.popleft()
        else:
            held.surplus.clear()
            held.end = -1
            # not seek(): an assignment leaves no message of the old position in the client's queue
            held.consumer.assign([ClientPartition(*partition, wanted.start)])
        held.position = wanted.start

    def _drop(self, partition: TopicPartition) -> None:
        held = self._held.pop(partition, None)
        if held is not None:
            held.consumer.close()

    def _error(self, held: _Held, wanted: OffsetRange, error: KafkaError) -> Exception:
        code = error.code()
        name = partition_name(wanted.topic, wanted.partition)
        if code not in _NOT_THERE:
            return translated(error, name, self._feed.client.hide(error.str()))
        try:
            low, high = held.consumer.get_watermark_offsets(
                ClientPartition(wanted.topic, wanted.partition), timeout=self._patience
            )
        except KafkaException as failed:
            return translated(failed.args[0], name, self._feed.client.hide(failed.args[0].str()))
        if low > wanted.start:
            return retention_passed(wanted.topic, wanted.partition, wanted.start, low)
        if high < wanted.stop:
            return end_before_position(wanted.topic, wanted.partition, wanted.stop, high)
        return PositionGapError(
            "the broker did not find our position",
            where=wanted.path,
            expected=f"an offset between {low} and {high}",
            found=self._feed.client.hide(error.str()),
            hint="start the stream again; nothing of this batch was committed",
        )

    def _prove_topic(self, wanted: OffsetRange) -> None:
        if not wanted.topic_id:
            return
        self._admin = self._admin or make_admin(self._feed, self._troubles)
        found, _ = topic_partitions(self._admin, self._feed, [wanted.topic], self._troubles)[wanted.topic]
        if found != wanted.topic_id:
            raise recreated(wanted.topic, wanted.topic_id, found)


def _take(surplus: deque[Message], stop: int) -> tuple[list[Message], bool]:
    """Messages before ``stop``, and whether one at or after it is there."""
    if not surplus:
        return [], False
    if surplus[-1].offset() < stop:
        taken = list(surplus)
        surplus.clear()
        return taken, False
    taken = []
    while surplus[0].offset() < stop:
        taken.append(surplus.popleft())
    return taken, True


@lru_cache(maxsize=8)
def _reader_of(process: int, feed: KafkaOptions) -> KafkaReader:
    del process  # a forked worker must not use the consumers of its parent
    return KafkaReader(feed)


def kept_reader(feed: KafkaOptions) -> KafkaReader:
    """The reader of this process for a feed; it and its consumers are kept as long as the process."""
    return _reader_of(os.getpid(), feed)
