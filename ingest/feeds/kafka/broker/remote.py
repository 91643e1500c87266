"""What of a Kafka stream is asked of its broker outside of Spark: before it starts, and beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name
from sparkhaven.ingest.feeds.kafka.broker.topics import KafkaTopics, partition_ends
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.errors import RetryableFeedError

CHECK_SECONDS = 1.5
ASK_SECONDS = 1.0


class Broker:
    """One client for all questions; SettingsError for a setting that it refuses."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._topics = KafkaTopics(options, patience=ASK_SECONDS)

    def check(self) -> None:
        """Raises what would stop the stream at its first batch, as far as the broker can tell now.

        FeedSettingsError for a topic, password or right. A broker that does not answer within some seconds is not
        waited for: the stream does that.
        """
        try:
            KafkaTopics(self._options, patience=CHECK_SECONDS).look()
        except RetryableFeedError:
            return

    def ends(self, known: Sequence[str]) -> Mapping[str, int]:
        """Ends by ``topic/partition``: of the ``known`` ones that are of the feed, else of all that it has."""
        named = (name.rpartition("/") for name in known if "/" in name)
        partitions = [(topic, int(number)) for topic, _, number in named if self._options.takes(topic)]
        if partitions:
            return {partition_name(*partition): end for partition, end in self._topics.ends(partitions).items()}
        return {partition_name(*partition): end for partition, end in partition_ends(self._topics.look()).items()}
