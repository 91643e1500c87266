"""How many bytes a message of a feed has, guessed from a few of them, for limits in bytes."""

from __future__ import annotations

from collections.abc import Mapping

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.feeds.kafka.planner import Position
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition

SAMPLE = 200  # messages that are looked at
LASTS = 100  # batches for which a guess is good


class MessageSizes:
    """Looks at messages that wait, where most of them do, and again from time to time."""

    def __init__(self, feed: KafkaOptions) -> None:
        self._feed = feed
        self._guess = 0.0
        self._left = 0

    def bytes_per_message(
        self, positions: Mapping[TopicPartition, Position], waiting: Mapping[TopicPartition, int]
    ) -> float:
        """Bytes of key and value; at least 1."""
        if self._left <= 0:
            self._guess, self._left = self._look(positions, waiting), LASTS
        self._left -= 1
        return max(self._guess, 1.0)

    def _look(self, positions: Mapping[TopicPartition, Position], waiting: Mapping[TopicPartition, int]) -> float:
        partition = max(waiting, key=lambda partition: waiting[partition])
        start, topic_id = positions[partition].offset, positions[partition].topic_id
        sample = OffsetRange(*partition, start, start + min(SAMPLE, waiting[partition]), topic_id)
        reader = KafkaReader(self._feed)
        try:
            sizes = [len(m.value() or b"") + len(m.key() or b"") for messages in reader.read(sample) for m in messages]
        finally:
            reader.close()
        return sum(sizes) / len(sizes) if sizes else self._guess
