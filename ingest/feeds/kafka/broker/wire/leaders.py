"""The leader of one partition: found through the brokers of the settings, kept while it answers, found anew else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles
from sparkhaven.ingest.feeds.kafka.broker.wire import requests
from sparkhaven.ingest.feeds.kafka.broker.wire.connection import Buffers, Connection, LostError
from sparkhaven.ingest.feeds.kafka.broker.wire.fields import AnswerError
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import Cluster, Source
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import Address, OtherClientError, WireSettings

NEWS_SECONDS = (
    30.0  # how long a broker may not know a topic that is new; librdkafka's topic.metadata.propagation.max.ms
)
_PASSING = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE})
_UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART


@dataclass(frozen=True, slots=True)
class LeaderLink:
    """A connection to the leader of a partition, its epoch, and what it speaks."""

    connection: Connection
    epoch: int
    versions: Mapping[int, range]

    def version(self, api: int, *, newer: bool = True) -> int:
        """The one to speak, not the ``newer`` one unless it may be. OtherClientError where the broker is too old."""
        version = requests.version_of(api, self.versions, newer=newer)
        if version is None:
            spoken = self.versions.get(api, range(0))
            words = f"{spoken.start} to {spoken.stop - 1}" if spoken else "not at all"
            raise OtherClientError(f"{self.connection.name} speaks {requests.NAMES[api]} {words}")
        return version

    def fetch_version(self, source: Source) -> int:
        """By the id of the topic, where there is one and the broker takes it."""
        return self.version(requests.FETCH, newer=source.topic_id != "")


class Leaders:
    """Its methods raise KafkaException for what waiting does not mend, and note the rest as troubles."""

    def __init__(
        self,
        settings: WireSettings,
        source: Source,
        troubles: Troubles,
        buffers: Buffers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._source, self._troubles, self._clock = settings, source, troubles, clock
        self._buffers = buffers
        self.link: LeaderLink | None = None
        self._brokers: tuple[Address, ...] = ()  # the others of the cluster, once they are known
        self._turn, self._failures, self._wait_until = 0, 0, 0.0
        self._unknown_since: float | None = None
        self._seen = False

    def close(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.connection.close()

    def lost(self, words: str, code: int = KafkaError._TRANSPORT) -> None:
        """The leader does not answer, or is none any more: it is looked for again, after a while."""
        self._troubles.note(KafkaError(code, words))
        self.close()
        self._failures += 1
        wait = self._settings.backoff_seconds * 2 ** min(self._failures - 1, 16)
        self._wait_until = self._clock() + min(wait, self._settings.longest_backoff_seconds)

    def answered(self) -> None:
        """The leader does what is asked of it."""
        self._failures = 0

    def now(self, seconds: float) -> LeaderLink | None:
        """The leader; None if it is not known within the time."""
        if self.link is not None:
            return self.link
        wait = self._wait_until - self._clock()
        if wait > 0:
            time.sleep(min(wait, seconds))
            if wait > seconds:
                return None
        candidates = self._settings.brokers + self._brokers
        address = candidates[self._turn % len(candidates)]
        self._turn += 1
        opened: list[Connection] = []
        try:
            self.link = self._find(address, opened)
        except (LostError, AnswerError) as error:
            self.lost(str(error))
        finally:
            for connection in opened:
                if self.link is None or connection is not self.link.connection:
                    connection.close()
        return self.link

    def _find(self, address: Address, opened: list[Connection]) -> LeaderLink | None:
        link = self._open(address, opened)
        version = link.version(requests.METADATA)
        answer = link.connection.ask(requests.metadata(version, self._source.topic))
        cluster = requests.read_metadata(answer, version, self._source.topic)
        self._brokers = tuple(sorted(set(cluster.brokers.values()) - set(self._settings.brokers)))
        leader_address = self._leader_address(cluster)
        if leader_address is None:
            return None
        epoch = cluster.leaders[self._source.partition].epoch
        if leader_address != address:
            link = self._open(leader_address, opened)
        link.fetch_version(self._source)
        return LeaderLink(link.connection, epoch, link.versions)

    def _open(self, address: Address, opened: list[Connection]) -> LeaderLink:
        connection = Connection(address, self._settings, self._buffers, self._clock)
        opened.append(connection)
        failed, versions = requests.read_api_versions(connection.ask(requests.api_versions()))
        if failed:
            raise OtherClientError(f"{connection.name} does not say which requests it knows: error {failed}")
        return LeaderLink(connection, -1, versions)

    def _leader_address(self, cluster: Cluster) -> Address | None:
        """Where the leader is; None, and a trouble is noted, while there is none."""
        leader = cluster.leaders.get(self._source.partition)
        if cluster.error == _UNKNOWN:
            self._unknown_since = self._unknown_since or self._clock()
            if self._seen or self._clock() - self._unknown_since > NEWS_SECONDS:
                raise KafkaException(KafkaError(_UNKNOWN))
        elif cluster.error and cluster.error not in _PASSING:
            raise KafkaException(KafkaError(cluster.error))
        elif not cluster.error and leader is None:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        elif not cluster.error:
            self._seen, self._unknown_since = True, None
        failed = cluster.error or (leader.error if leader is not None else 0)
        address = cluster.brokers.get(leader.node) if leader is not None else None
        if failed or address is None:
            code = failed or KafkaError.LEADER_NOT_AVAILABLE
            self.lost(f"{self._source.topic}/{self._source.partition} has no leader: {KafkaError(code).str()}", code)
            return None
        return address
