"""Messages of a reader one by one."""

from __future__ import annotations

from sparkhaven.ingest.feeds.kafka.blocks import Message
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.store.epochs.state.log_values import OffsetRange


def messages(reader: KafkaReader, wanted: OffsetRange) -> list[Message]:
    """Those of a range."""
    return [some.at(offset) for some in reader.read(wanted) for offset in some.offsets.tolist()]
