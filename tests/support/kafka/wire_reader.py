"""A reader by requests of our own, its messages, and what it has read."""

from __future__ import annotations

from collections.abc import Callable

from sparkhaven.ingest.feeds.kafka.broker.clients import consumer_settings
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import wire_settings
from sparkhaven.ingest.feeds.kafka.broker.wire_reader import WireReader
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from tests.support.ingest.messages import Fake
from tests.support.kafka.fake_brokers import PARTITION, TOPIC, Brokers
from tests.support.kafka.fake_library import FakeLibrary
from tests.support.kafka.record_batches import Rec, batch

EACH = 10  # records of a batch
QUICK = {"reconnect.backoff.ms": "1", "reconnect.backoff.max.ms": "5"}
Made = Callable[..., WireReader]


def wire_reader(opened: Brokers, patience: float = 5.0, limits: ReadLimits | None = None, **client: str) -> WireReader:
    """A reader for brokers; librdkafka behind it has other messages."""
    settings = ClientSettings(tuple({**QUICK, **client}.items()))
    feed = KafkaOptions(opened.bootstrap, (TOPIC,), client=settings, limits=limits or ReadLimits())
    library = FakeLibrary([Fake(at, b"old") for at in range(2000)])
    return WireReader(library.library, wire_settings(consumer_settings(feed)), feed, patience=patience)


def fill(opened: Brokers, count: int = 1000, start: int = 0) -> None:
    """Messages with their offset as value."""
    for first in range(start, start + count, EACH):
        records = [Rec(n, b"%d" % (first + n), b"k", n) for n in range(EACH)]
        opened.partition.put(first, first + EACH - 1, batch(first, records, epoch=opened.partition.epoch))


def read(reader: WireReader, start: int, stop: int, topic_id: str = "") -> list[int]:
    return [
        offset for some in reader.read(OffsetRange(TOPIC, PARTITION, start, stop, topic_id)) for offset in some.offsets
    ]


def values(reader: WireReader, start: int, stop: int) -> list[bytes | None]:
    blocks = reader.read(OffsetRange(TOPIC, PARTITION, start, stop))
    return [some.at(offset).value() for some in blocks for offset in some.offsets.tolist()]
