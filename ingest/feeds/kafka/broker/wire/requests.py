"""The requests that a reader of partitions makes, and their answers, each in two versions at most.

Brokers from Kafka 2.1 to 4 know the older ones. The newer ones of Metadata and Fetch name topics by their id, which
brokers have from 3.1 on. Each request is documented at https://kafka.apache.org/protocol#protocol_messages
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkhaven.ingest.feeds.kafka.broker.wire.fields import ID_BYTES, Answer, AnswerError, Writer

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, EPOCH_ENDS = 1, 2, 3, 18, 23
NAMES = {
    FETCH: "Fetch",
    LIST_OFFSETS: "ListOffsets",
    METADATA: "Metadata",
    API_VERSIONS: "ApiVersions",
    EPOCH_ENDS: "OffsetForLeaderEpoch",
}
OLDER = {FETCH: 10, LIST_OFFSETS: 2, METADATA: 7, API_VERSIONS: 0, EPOCH_ENDS: 2}
NEWER = {FETCH: 13, METADATA: 10}
_FLEXIBLE = {FETCH: 12, METADATA: 9}  # from this version on
FIRST, LAST = -2, -1  # times that ListOffsets takes for the begin and the end of a partition
_CONSUMER = -1


@dataclass(frozen=True, slots=True)
class Request:
    """One to send: which, in which version, and its fields."""

    api: int
    version: int
    body: bytes

    @property
    def flexible(self) -> bool:
        return is_flexible(self.api, self.version)


@dataclass(frozen=True, slots=True)
class Leader:
    """Who has a partition; ``node`` is -1 while nobody does."""

    node: int
    epoch: int
    error: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """Addresses of brokers by their number, and what is known of one topic: an error, or leaders by partition."""

    brokers: Mapping[int, tuple[str, int]]
    error: int
    topic_id: str
    leaders: Mapping[int, Leader]


@dataclass(frozen=True, slots=True)
class Source:
    """A partition of a topic. ``topic_id`` is "" where the topic is asked for by its name."""

    topic: str
    partition: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class FetchWish:
    """What of a partition is asked for: from an offset on, of the leader of an epoch (-1: of any)."""

    offset: int
    epoch: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """How a broker answers: it waits for ``least`` bytes, for so long; ``committed`` messages only."""

    wait_ms: int
    least: int
    most: int
    committed: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer to Fetch: record batches are the bytes from ``start`` to ``stop``.

    The partition begins with ``first`` and ends at ``high_watermark``; its committed messages end at ``stable``.
    ``aborted`` are transactions, by their producer and their first offset. ``throttled_ms``: for so long nothing is to
    be asked.
    """

    error: int
    throttled_ms: int = 0
    high_watermark: int = -1
    stable: int = -1
    first: int = -1
    aborted: Sequence[tuple[int, int]] = ()
    start: int = 0
    stop: int = 0


def is_flexible(api: int, version: int) -> bool:
    return version >= _FLEXIBLE.get(api, version + 1)


def version_of(api: int, versions: Mapping[int, range], *, newer: bool = True) -> int | None:
    """The version that is spoken with a broker of these versions; None where it knows none of ours."""
    ours = [NEWER[api]] if newer and api in NEWER else []
    return next((version for version in [*ours, OLDER[api]] if version in versions.get(api, ())), None)


def api_versions() -> Request:
    return Request(API_VERSIONS, OLDER[API_VERSIONS], b"")


def read_api_versions(answer: Answer) -> tuple[int, dict[int, range]]:
    """An error, and the versions of each request that the broker knows."""
    failed = answer.int16()
    versions = {}
    for _ in answer.elements(6):
        api, low, high = answer.int16(), answer.int16(), answer.int16()
        versions[api] = range(low, high + 1)
    return failed, versions


def metadata(version: int, topic: str) -> Request:
    writer = Writer(flexible=is_flexible(METADATA, version)).count(1)
    if version >= NEWER[METADATA]:
        writer.octets(bytes(ID_BYTES)).text(topic).tags().int8(0).int8(0).int8(0)
    else:
        writer.text(topic).int8(0)
    return Request(METADATA, version, writer.tags().bytes())


def read_metadata(answer: Answer, version: int, topic: str) -> Cluster:
    """AnswerError where it is about another topic."""
    newer = version >= NEWER[METADATA]
    answer.int32()
    brokers = {}
    for _ in answer.elements(10):
        node, host, port = answer.int32(), answer.text(), answer.int32()
        answer.text()
        answer.tags()
        brokers[node] = host, port
    answer.text()
    answer.int32()
    cluster = None
    for _ in answer.elements(7):
        failed, name = answer.int16(), answer.text()
        topic_id = id_text(answer.octets(ID_BYTES)) if newer else ""
        answer.int8()
        leaders = dict(_leader(answer) for _ in answer.elements(14))
        if newer:
            answer.int32()
        answer.tags()
        if name == topic:
            cluster = Cluster(brokers, failed, topic_id, leaders)
    if cluster is None:
        raise AnswerError(f"no word about topic {topic}")
    return cluster


def _leader(answer: Answer) -> tuple[int, Leader]:
    failed, number, node, epoch = answer.int16(), answer.int32(), answer.int32(), answer.int32()
    for _ in range(3):  # replicas: all, in step, offline
        for _ in answer.elements(4):
            answer.int32()
    answer.tags()
    return number, Leader(node, epoch, failed)


def fetch(version: int, source: Source, wish: FetchWish, terms: FetchTerms) -> Request:
    newer = version >= NEWER[FETCH]
    writer = Writer(flexible=newer).int32(_CONSUMER, terms.wait_ms, terms.least, terms.most).int8(int(terms.committed))
    writer.int32(0, -1).count(1)  # of no session
    writer = writer.octets(id_octets(source.topic_id)) if newer else writer.text(source.topic)
    writer.count(1).int32(source.partition, wish.epoch).int64(wish.offset)
    if newer:
        writer.int32(-1)
    writer.int64(-1).int32(wish.bytes).tags().tags().count(0)
    if newer:
        writer.text("")  # no rack
    return Request(FETCH, version, writer.tags().bytes())


def is_by_id(request: Request) -> bool:
    """Whether a Fetch names the topic by its id."""
    return request.version >= NEWER[FETCH]


def read_fetched(answer: Answer, version: int, source: Source) -> Fetched:
    """AnswerError where it is about another partition."""
    newer = version >= NEWER[FETCH]
    throttled, failed = answer.int32(), answer.int16()
    answer.int32()
    fetched = None
    for _ in answer.elements(8):
        same = answer.octets(ID_BYTES) == id_octets(source.topic_id) if newer else answer.text() == source.topic
        for _ in answer.elements(30):
            number, error = answer.int32(), answer.int16()
            high_watermark, stable, first = answer.int64(), answer.int64(), answer.int64()
            aborted = [_aborted(answer) for _ in answer.elements(16)]
            if newer:
                answer.int32()
            start, stop = answer.block()
            answer.tags()
            if same and number == source.partition:
                fetched = Fetched(failed or error, throttled, high_watermark, stable, first, aborted, start, stop)
        answer.tags()
    if fetched is None:
        if failed:
            return Fetched(failed, throttled)
        raise AnswerError(f"no word about partition {source.partition} of topic {source.topic}")
    return fetched


def _aborted(answer: Answer) -> tuple[int, int]:
    producer, first = answer.int64(), answer.int64()
    answer.tags()
    return producer, first


def list_offsets(source: Source, time: int, *, committed: bool) -> Request:
    writer = Writer(flexible=False).int32(_CONSUMER).int8(int(committed)).count(1).text(source.topic)
    return Request(LIST_OFFSETS, OLDER[LIST_OFFSETS], writer.count(1).int32(source.partition).int64(time).bytes())


def read_offset(answer: Answer) -> tuple[int, int]:
    """An error, and the offset."""
    answer.int32()
    for _ in answer.elements():
        answer.text()
        for _ in answer.elements(22):
            _, failed, _, offset = answer.int32(), answer.int16(), answer.int64(), answer.int64()
            return failed, offset
    raise AnswerError("no offset")


def epoch_end(source: Source, leader_epoch: int, epoch: int) -> Request:
    """Where the messages of an epoch end, as the leader of another one knows it."""
    writer = Writer(flexible=False).count(1).text(source.topic).count(1)
    return Request(EPOCH_ENDS, OLDER[EPOCH_ENDS], writer.int32(source.partition, leader_epoch, epoch).bytes())


def read_epoch_end(answer: Answer) -> tuple[int, int, int]:
    """An error, the epoch, and the offset where it ends; -1 where the leader knows none."""
    answer.int32()
    for _ in answer.elements():
        answer.text()
        for _ in answer.elements(18):
            failed, _, epoch, offset = answer.int16(), answer.int32(), answer.int32(), answer.int64()
            return failed, epoch, offset
    raise AnswerError("no end of an epoch")


def id_octets(topic_id: str) -> bytes:
    return base64.urlsafe_b64decode(topic_id + "==")


def id_text(octets: bytes) -> str:
    """A topic's id as positions have it; "" for none."""
    return base64.urlsafe_b64encode(octets).decode().rstrip("=") if any(octets) else ""
