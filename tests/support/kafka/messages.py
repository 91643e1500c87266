"""Messages of a reader one by one, whichever way it brings them."""

from __future__ import annotations

from collections.abc import Sequence

from sparkhaven.ingest.feeds.kafka.blocks import Message
from sparkhaven.ingest.feeds.kafka.broker.reader import BatchReader, KafkaReader
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.store.epochs.state.log_values import OffsetRange


def listed(some: FramedMessages | Sequence[Message]) -> list[Message]:
    """Those of one portion."""
    if isinstance(some, FramedMessages):
        return [some.at(offset) for offset in some.offsets.tolist()]
    return list(some)


def messages(reader: KafkaReader | BatchReader, wanted: OffsetRange) -> list[Message]:
    """Those of a range."""
    return [message for some in reader.read(wanted) for message in listed(some)]
