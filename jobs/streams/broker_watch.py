"""What of a Kafka stream is asked of its broker outside of Spark: before it starts, and beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ingest.feeds.kafka.errors import place_name
from ingest.feeds.kafka.topics import KafkaTopics, Place
from ingest.options.kafka import KafkaFeed
from jobs.streams.source_watch import Seen, SourceWatch
from store.errors import RetryableFeedError

CHECK_SECONDS = 5.0
ASK_SECONDS = 1.0


def check_feed(feed: object) -> None:
    """Raises what would stop the stream at its first batch, as far as its broker or its client can tell now.

    FeedSettingsError for a topic, password or right, SettingsError for a setting of the client. A broker that does not
    answer within some seconds is not waited for: the stream does that.
    """
    if isinstance(feed, KafkaFeed):
        try:
            KafkaTopics(feed, patience=CHECK_SECONDS).look()
        except RetryableFeedError:
            return


def broker_watch(
    feed: object,
    positions: Callable[[], Mapping[str, int]],
    told: Callable[[Seen], None],
    clock: Callable[[], float] = time.monotonic,
) -> SourceWatch | None:
    """A watch over the partitions that have a position, by ``topic/partition``; None for a feed without a broker."""
    if not isinstance(feed, KafkaFeed):
        return None
    topics = KafkaTopics(feed, patience=ASK_SECONDS)

    def ask() -> Mapping[str, int]:
        places = [_place(name) for name in positions() if "/" in name and feed.takes(name.rpartition("/")[0])]
        if places:
            return {place_name(*place): end for place, end in topics.ends(places).items()}
        view = topics.look()
        return {place_name(name, n): bounds.end for name, now in view.items() for n, bounds in now.partitions.items()}

    return SourceWatch(ask, clock, told)


def _place(name: str) -> Place:
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)
