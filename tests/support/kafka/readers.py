"""Readers of a feed by each of the three clients."""

from __future__ import annotations

from sparkhaven.ingest.feeds.kafka.broker.clients import consumer_settings
from sparkhaven.ingest.feeds.kafka.broker.librdkafka import librdkafka
from sparkhaven.ingest.feeds.kafka.broker.reader import BatchReader, KafkaReader
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import wire_settings
from sparkhaven.ingest.feeds.kafka.broker.wire_reader import WireReader
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions

KINDS = ("objects", "batches", "wire")


def reader_of(kind: str, feed: KafkaOptions, patience: float = 10) -> KafkaReader | BatchReader:
    """One of ``KINDS``."""
    if kind == "objects":
        return KafkaReader(feed, patience=patience)
    library = librdkafka()
    assert library is not None
    if kind == "batches":
        return BatchReader(library, feed, patience=patience)
    return WireReader(library, wire_settings(consumer_settings(feed)), feed, patience=patience)
