"""How clients of a broker are made: our settings and the user's, and what is remembered of their troubles.

librdkafka tells connection troubles by callback, not as errors of a call; the last one is kept, so that a call that
only ran out of time can say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.errors import SettingsError

OURS = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "auto.offset.reset",
    }
)
DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)
ClientConf = Mapping[str, str | int | bool]
CONNECTION: ClientConf = {"log_level": 2, "socket.keepalive.enable": True, "reconnect.backoff.max.ms": 1000}
READING: ClientConf = {
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.queue.backoff.ms": 1,  # the default of a second stalls a reader that is quicker than the fetcher
    "fetch.wait.max.ms": 20,  # what a seek may have to wait for
    "queued.max.messages.kbytes": 32_768,
    "queued.min.messages": 20_000,  # ahead: a batch may be read by another worker, and then they are thrown away
    "fetch.message.max.bytes": 4 << 20,
}
READING_OURS: ClientConf = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",  # lost offsets must not become a silent jump
}


class Troubles:
    """The last connection trouble of a client, and the ``count`` of all.

    ``denied`` is a password or right that is wrong, which waiting does not fix. It is believed when it comes a second
    time: a broker that goes down while a client says who it is looks the same once.
    """

    def __init__(self, feed: KafkaOptions) -> None:
        self._feed = feed
        self._last: str | None = None
        self._refusals = 0
        self.count = 0
        self.denied: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        self.count += 1
        self._last = self._feed.client.hide(error.str())
        if error.code() in DENIED:
            self._refusals += 1
            if self._refusals > 1:
                self.denied = error

    def take(self, otherwise: str) -> str:
        return self._last or otherwise


def consumer_settings(feed: KafkaOptions) -> ClientConf:
    """Settings of a consumer that jumps nowhere by itself; SettingsError for those that are not the user's."""
    # a group is only named to be allowed to read: nothing is committed to it
    return _settings(feed, {"group.id": "sparkhaven", **READING}, READING_OURS)


def make_consumer(feed: KafkaOptions, troubles: Troubles) -> Consumer:
    """A consumer of these settings. SettingsError for settings that librdkafka refuses."""
    return _make(Consumer, feed, troubles, consumer_settings(feed))


def make_admin(feed: KafkaOptions, troubles: Troubles) -> AdminClient:
    """A client for metadata and offsets; it must be kept until its answers are there."""
    return _make(AdminClient, feed, troubles, _settings(feed, {}, {}))


def refused(feed: KafkaOptions, words: str) -> SettingsError:
    return SettingsError(
        "the Kafka client refuses its settings",
        where="feed.client",
        expected="names and values of librdkafka",
        found=feed.client.hide(words),
        hint="librdkafka's CONFIGURATION.md lists them. Java's names differ",
    )


def _settings(feed: KafkaOptions, defaults: ClientConf, ours: ClientConf) -> ClientConf:
    user_settings = dict(feed.client.values)
    chosen = sorted(user_settings.keys() & OURS)
    if chosen:
        raise SettingsError(
            "settings of the Kafka client that the stream sets itself",
            where="feed.client",
            found=", ".join(chosen),
            hint="remove them. Set feed.bootstrap and feed.start, which say where to read",
        )
    return {**CONNECTION, **defaults, **user_settings, **ours, "bootstrap.servers": feed.bootstrap}


def _make(kind: Any, feed: KafkaOptions, troubles: Troubles, settings: ClientConf) -> Any:
    try:
        return kind({**settings, "error_cb": troubles.note})
    except (KafkaException, TypeError, ValueError) as error:
        raise refused(feed, error.args[0].str() if isinstance(error, KafkaException) else str(error)) from None
