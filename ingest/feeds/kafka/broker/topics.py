"""What a broker says about the topics of a feed: their ids, partitions, and where each begins and ends."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles, make_admin, make_consumer
from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name, place_of, topic_gone, translated, unreachable
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import RetryableFeedError, SparkhavenError

PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.1  # between two looks whether the client has been refused
FIRST_WAIT_SECONDS = 0.5
_NO_ID = "A" * 22
_READ_UNCOMMITTED = "read_uncommitted"

Answers = Mapping[TopicPartition, Future[Any]]
"""What the broker will have answered about partitions."""
_WAITING = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
CHECK_SECONDS = 1.5
ASK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """Messages of a partition lie in ``[beginning, end)``; those of open transactions are beyond ``end``."""

    beginning: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as it is now. ``topic_id`` is "" at brokers that have none (before Kafka 2.8)."""

    topic_id: str
    partitions: Mapping[int, OffsetBounds]


def partition_ends(view: Mapping[str, TopicView]) -> dict[TopicPartition, int]:
    return {(topic, n): bounds.end for topic, state in view.items() for n, bounds in state.partitions.items()}


class KafkaTopics:
    """The administrative side of a feed."""

    def __init__(self, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS) -> None:
        self._feed, self._patience = feed, patience
        self._stopped = threading.Event()
        self._described: dict[str, tuple[str, list[int]]] = {}
        self._troubles = Troubles(feed)
        self._admin = make_admin(feed, self._troubles)
        self._waits = Waits(self._admin, feed, self._troubles, patience, self._stopped)
        level = dict(feed.client.values).get("isolation.level")
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED if level == _READ_UNCOMMITTED else IsolationLevel.READ_COMMITTED
        )

    def stop(self) -> None:
        """Ends waits for an answer with RetryableFeedError, now and from now on; called by another thread."""
        self._stopped.set()

    def look(self) -> dict[str, TopicView]:
        """All topics of the feed. FeedError when a named one does not exist, RetryableFeedError without an answer."""
        names = self._names()
        before = self._described
        topics = ask_topics(self._waits, names)
        bounds = self._bounds(before)  # asked in one go: topics are mostly what they were
        described = self._described = topic_partitions(self._waits, names, topics)
        first, last = map(self._offsets, bounds if described == before else self._bounds(described))
        return {
            name: TopicView(topic_id, {n: OffsetBounds(first[name, n], last[name, n]) for n in numbers})
            for name, (topic_id, numbers) in described.items()
        }

    def _bounds(self, described: Mapping[str, tuple[str, list[int]]]) -> tuple[Answers, Answers]:
        """Questions where the partitions of topics begin and end."""
        partitions = [(name, number) for name, (_, numbers) in described.items() for number in numbers]
        beginnings = self._ask(partitions, lambda partition: OffsetSpec.earliest())
        return beginnings, self._ask(partitions, lambda partition: OffsetSpec.latest())

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end, by one question to the broker; those that it has not are left out.

        Raises what ``look`` raises when it tells none.
        """
        ends: dict[TopicPartition, int] = {}
        failed: SparkhavenError | None = None
        for partition, future in self._ask(partitions, lambda partition: OffsetSpec.latest()).items():
            try:
                ends |= self._offsets({partition: future})
            except SparkhavenError as error:
                failed = failed or error
        if failed is not None and not ends:
            raise failed
        return ends

    def at_time(self, partitions: Sequence[TopicPartition], at_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time; None where there is no such message yet."""
        offsets = self._offsets(self._ask(partitions, lambda partition: OffsetSpec.for_timestamp(at_ms)))
        return {partition: offset if offset >= 0 else None for partition, offset in offsets.items()}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        """What the consumer group of the client's settings has committed; None where it has nothing."""
        consumer = make_consumer(self._feed, self._troubles)
        requested = [ClientPartition(*partition) for partition in partitions]
        try:
            answers = self._patiently(lambda wait: consumer.committed(requested, timeout=wait), "committed offsets")
        finally:
            consumer.close()
        return {(p.topic, p.partition): p.offset if p.offset >= 0 else None for p in answers}

    def _names(self) -> list[str]:
        if self._feed.pattern is None:
            return list(self._feed.topics)
        listed = self._patiently(lambda seconds: self._admin.list_topics(timeout=seconds), self._feed.bootstrap).topics
        wanted = re.compile(self._feed.pattern)
        return sorted(name for name in listed if wanted.fullmatch(name) and not name.startswith("__"))

    def _ask(self, partitions: Iterable[TopicPartition], spec: Any) -> Answers:
        specs = {ClientPartition(*partition): spec(partition) for partition in partitions}
        if not specs:
            return {}
        futures = self._admin.list_offsets(specs, isolation_level=self._isolation, request_timeout=self._patience)
        return {(p.topic, p.partition): future for p, future in futures.items()}

    def _offsets(self, futures: Answers) -> dict[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for partition, future in futures.items():
            name = partition_name(*partition)
            try:
                offset = self._waits.result(future).offset
            except KafkaException as error:
                raise self._waits.translated(error, name) from None
            # the client answers so, without an error, if the broker dies while it is asked
            if offset == OFFSET_INVALID:
                where = place_of(name, self._feed)
                raise unreachable("the broker cannot be read", where, "no answer where the partition begins or ends")
            offsets[partition] = offset
        return offsets

    def _patiently(self, ask: Callable[[float], Any], where: str) -> Any:
        """Asks in waits that grow, so that a refusal is reported soon and a distant broker has time to answer."""
        wait, left = min(FIRST_WAIT_SECONDS, self._patience), self._patience
        while True:
            try:
                return ask(wait)
            except KafkaException as error:
                failure = self._waits.translated(error, where)
                left -= wait
                if self._stopped.is_set():
                    raise _not_awaited() from None
                if left <= 0 or error.args[0].code() not in _WAITING or not failure.retryable:
                    raise failure from None
                wait = min(2 * wait, left)


@dataclass(frozen=True, slots=True)
class Waits:
    """How answers of one client are waited for; ``stopped`` ends a wait."""

    admin: AdminClient
    feed: KafkaOptions
    troubles: Troubles
    patience: float = PATIENCE_SECONDS
    stopped: threading.Event | None = None

    def result(self, future: Future[Any]) -> Any:
        """The answer to a question; KafkaException as soon as it is known that there will be none."""
        waited = 0.0
        while True:
            try:
                return future.result(LOOK_SECONDS)
            except TimeoutError:
                waited += LOOK_SECONDS
                if self.stopped is not None and self.stopped.is_set():
                    raise _not_awaited() from None
                self.admin.poll(0)  # lets the client tell its troubles
                if self.troubles.denied is not None:
                    raise KafkaException(self.troubles.denied) from None
                if waited > self.patience + 5:  # the client keeps its own time
                    raise

    def translated(self, error: KafkaException, where: str) -> SparkhavenError:
        """An error of the client, or the refusal that is behind it."""
        hide = self.feed.client.hide
        self.admin.poll(0)  # lets the client tell its troubles
        if self.troubles.denied is not None:
            return translated(self.troubles.denied, where, hide(self.troubles.denied.str()), self.feed)
        failed = error.args[0]
        return translated(failed, where, self.troubles.take(hide(failed.str())), self.feed)


def ask_topics(waits: Waits, names: Sequence[str]) -> dict[str, Future[Any]]:
    """A question to the broker about topics, whose answer ``topic_partitions`` takes."""
    if not names:
        return {}
    futures: dict[str, Future[Any]] = waits.admin.describe_topics(
        TopicCollection(list(names)), request_timeout=waits.patience
    )
    return futures


def topic_partitions(
    waits: Waits, names: Sequence[str], futures: Mapping[str, Future[Any]]
) -> dict[str, tuple[str, list[int]]]:
    """Id and partition numbers of each topic, once the broker has answered; FeedError when one does not exist."""
    partitions: dict[str, tuple[str, list[int]]] = {}
    for name in names:
        try:
            described = waits.result(futures[name])
        except KafkaException as error:
            raise waits.translated(error, name) from None
        topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")
        partitions[name] = "" if topic_id == _NO_ID else topic_id, sorted(p.id for p in described.partitions)
        if not partitions[name][1]:
            raise topic_gone(name)
    return partitions


def _not_awaited() -> RetryableFeedError:
    return RetryableFeedError("the stream was stopped while it waited for the broker", hint="start the stream again")


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
