"""A reader over brokers in memory, its messages, and what it has read."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from sparkhaven.ingest.feeds.kafka.broker.link import id_text
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.kafka.fake_brokers import PARTITION, TOPIC, Brokers
from tests.support.kafka.record_batches import Rec, batch

ID = id_text(uuid.UUID(bytes=b"0123456789abcdef"))  # of the topic, at brokers that have ids
EACH = 10  # records of a batch
QUICK = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "5"}
Made = Callable[..., KafkaReader]


def fetching(opened: Brokers, patience: float = 5.0, limits: ReadLimits | None = None, **client: str) -> KafkaReader:
    """A reader for brokers."""
    settings = ClientSettings(tuple({**QUICK, **client}.items()))
    feed = KafkaOptions(opened.bootstrap, (TOPIC,), client=settings, limits=limits or ReadLimits())
    return KafkaReader(feed, patience=patience)


def fill(opened: Brokers, count: int = 1000, start: int = 0) -> None:
    """Messages with their offset as value."""
    for first in range(start, start + count, EACH):
        records = [Rec(n, b"%d" % (first + n), b"k", n) for n in range(EACH)]
        opened.partition.put(first, first + EACH - 1, batch(first, records, epoch=opened.partition.epoch))


def read(reader: KafkaReader, start: int, stop: int, topic_id: str = ID) -> list[int]:
    return [
        offset for some in reader.read(OffsetRange(TOPIC, PARTITION, start, stop, topic_id)) for offset in some.offsets
    ]


def values(reader: KafkaReader, start: int, stop: int) -> list[bytes | None]:
    blocks = reader.read(OffsetRange(TOPIC, PARTITION, start, stop, ID))
    return [some.at(offset).value for some in blocks for offset in some.offsets.tolist()]
