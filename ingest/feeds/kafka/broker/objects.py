"""A partition's messages as objects, by the Python client: what is used where librdkafka cannot be asked directly."""

from __future__ import annotations

from collections import deque
from operator import methodcaller

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles, make_consumer
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.gc_pause import gc_paused

_event = methodcaller("error")


class ObjectClient:
    """A ``PartitionClient`` by the Python client."""

    def __init__(self, feed: KafkaOptions, troubles: Troubles, topic: str, partition: int) -> None:
        self._consumer = make_consumer(feed, troubles)
        self._topic, self._partition, self._most = topic, partition, feed.limits.fetched
        self._surplus: deque[Message] = deque()
        self.last = self.end = -1

    def assign(self, offset: int, epoch: int = -1) -> None:
        self._surplus.clear()
        self.last = self.end = -1
        # not seek(): an assignment leaves no message of the old position in the client's queue
        known = {"leader_epoch": epoch} if epoch >= 0 else {}
        self._consumer.assign([TopicPartition(self._topic, self._partition, offset, **known)])

    def fetch(self, count: int, seconds: float) -> None:
        # a call returns when it has as many as it asks for: more than are due may not come
        with gc_paused():
            messages = self._consumer.consume(min(self._most, count), seconds)
        # events are rare: messages are only looked at one by one if there is one among them
        if any(map(_event, messages)):
            messages = [message for message in messages if not self._ended(message)]
        if messages:
            self._surplus.extend(messages)
            self.last = messages[-1].offset()

    def skip(self, start: int) -> bool:
        if not self._surplus or self._surplus[-1].offset() < start:
            return False
        while self._surplus[0].offset() < start:
            self._surplus.popleft()
        return True

    def take(self, stop: int, *, whole: bool) -> list[Message] | None:
        if self.last < stop:
            taken = list(self._surplus)
            self._surplus.clear()
        else:
            taken = []
            while self._surplus and self._surplus[0].offset() < stop:
                taken.append(self._surplus.popleft())
        return taken or None

    def bounds(self, patience: float) -> tuple[int, int]:
        partition = TopicPartition(self._topic, self._partition)
        low, high = self._consumer.get_watermark_offsets(partition, timeout=patience)
        return low, high

    def close(self) -> None:
        self._surplus.clear()
        self._consumer.close()

    def _ended(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return False
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self.end = max(self.end, message.offset())
        return True
