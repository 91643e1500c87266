"""The second client that ours is compared with: messages of a range by confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from sparkhaven.ingest.feeds.kafka.blocks import Message, time_ns

PATIENCE = 60.0


class Seen(NamedTuple):
    """A message as both clients tell it."""

    offset: int
    value: bytes | None
    key: bytes | None
    time_ns: int | None


def seen(messages: Sequence[Message]) -> list[Seen]:
    """Messages of ours as ``second`` tells them."""
    return [Seen(one.offset(), one.value(), one.key(), time_ns(one)) for one in messages]


def second(bootstrap: str, topic: str, start: int, stop: int, isolation: str = "read_committed") -> list[Seen]:
    """The messages of partition 0 from ``start`` on and before ``stop``."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "second",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "log_level": 3,
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[Seen] = []
    since = time.monotonic()
    try:
        while time.monotonic() - since < PATIENCE:
            for message in consumer.consume(2000, 0.1):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    if message.offset() >= stop:
                        return found
                    continue
                if message.offset() >= stop:
                    return found
                found.append(Seen(message.offset(), message.value(), message.key(), time_ns(message)))
            if found and found[-1].offset >= stop - 1:
                return found
        raise AssertionError(f"the second client has found {len(found)} messages only")
    finally:
        consumer.close()
