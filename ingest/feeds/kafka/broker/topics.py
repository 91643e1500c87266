"""What a broker says about the topics of a feed: their ids, partitions, and where each begins and ends."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import kafka.errors as kp
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from sparkhaven.ingest.feeds.kafka.broker.errors import (
    Troubles,
    partition_name,
    passes,
    terms_of,
    topic_gone,
    translated,
)
from sparkhaven.ingest.feeds.kafka.broker.link import Link, TopicState
from sparkhaven.ingest.feeds.kafka.broker.partition import FIRST, LAST, QUIET_SECONDS, list_offsets
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import RetryableFeedError

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
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
    """The administrative side of a feed. One thread asks at a time; ``stop`` may come from any."""

    def __init__(self, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS) -> None:
        """Connects to nobody yet. SettingsError for settings of the client that cannot be used."""
        self._feed, self._patience = feed, patience
        self._stopped = threading.Event()
        self._troubles = Troubles(feed)
        self._terms = terms_of(feed)
        self._link = Link(self._terms, feed.bootstrap, self._troubles.note)

    def stop(self) -> None:
        """Ends waits for an answer with RetryableFeedError, now and from now on; called by another thread."""
        self._stopped.set()

    def look(self) -> dict[str, TopicView]:
        """All topics of the feed. FeedError when a named one does not exist, RetryableFeedError without an answer."""
        return self._patiently(self._view)

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end, by one question to each broker; those that it has not are left out.

        Raises what ``look`` raises when it tells none.
        """
        ends, failed = self._patiently(lambda end: self._offsets(dict.fromkeys(partitions, LAST), end))
        if failed and not ends:
            partition, error = next(iter(failed.items()))
            raise translated(error, partition_name(*partition), self._feed)
        return ends

    def at_time(self, partitions: Sequence[TopicPartition], at_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time; None where there is no such message yet."""
        offsets = self._patiently(lambda end: self._all_offsets(dict.fromkeys(partitions, at_ms), end))
        return {partition: offset if offset >= 0 else None for partition, offset in offsets.items()}

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        """What the consumer group of the client's settings has committed; None where it has nothing."""
        return self._patiently(lambda end: self._committed(partitions, end))

    def _view(self, end: float) -> dict[str, TopicView]:
        described = self._described(end)
        partitions = [(name, number) for name, state in described.items() for number in state.partitions]
        first, last = (self._all_offsets(dict.fromkeys(partitions, which), end) for which in (FIRST, LAST))
        return {
            name: TopicView(
                state.topic_id, {n: OffsetBounds(first[name, n], last[name, n]) for n in sorted(state.partitions)}
            )
            for name, state in described.items()
        }

    def _described(self, end: float) -> dict[str, TopicState]:
        states = self._result(self._link.describe(None if self._feed.pattern is not None else self._feed.topics), end)
        if self._feed.pattern is not None:
            wanted = re.compile(self._feed.pattern)
            names = sorted(name for name in states if wanted.fullmatch(name) and not name.startswith("__"))
            return {name: states[name] for name in names}
        for name in self._feed.topics:
            kind = kp.for_code(states[name].error)
            if kind in (kp.UnknownTopicOrPartitionError, kp.InvalidTopicError):
                raise topic_gone(name)
            if states[name].error and not passes(kind()):
                raise translated(kind(), name, self._feed)
            if states[name].error:
                raise kind(f"{name}: {kind.message}")
        return {name: states[name] for name in self._feed.topics}

    def _all_offsets(self, wanted: Mapping[TopicPartition, int], end: float) -> dict[TopicPartition, int]:
        offsets, failed = self._offsets(wanted, end)
        for partition, error in failed.items():
            error.place = partition_name(*partition)
            raise error
        return offsets

    def _offsets(
        self, wanted: Mapping[TopicPartition, int], end: float
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, kp.KafkaError]]:
        """What ListOffsets answers, and what is wrong with the other partitions."""
        if wanted and not wanted.keys() <= self._link.leaders.keys():
            self._result(self._link.describe({topic for topic, _ in wanted}), end)
        by_node: dict[int, dict[TopicPartition, int]] = {}
        failed: dict[TopicPartition, kp.KafkaError] = {}
        for partition, time_ms in wanted.items():
            leader = self._link.leaders.get(partition)
            if leader is None:
                failed[partition] = kp.LeaderNotAvailableError()
            else:
                by_node.setdefault(leader.node, {})[partition] = time_ms
        committed = self._terms.fetch.committed
        sent = [self._sent(list_offsets(some, committed=committed), node, end) for node, some in by_node.items()]
        offsets: dict[TopicPartition, int] = {}
        for future in sent:
            for topic in self._result(future, end).topics:
                for told in topic.partitions:
                    partition = topic.name, told.partition_index
                    if told.error_code:
                        self._link.forget(partition)
                        failed[partition] = kp.for_code(told.error_code)()
                    else:
                        offsets[partition] = told.offset
        return offsets, failed

    def _committed(self, partitions: Collection[TopicPartition], end: float) -> dict[TopicPartition, int | None]:
        group = self._terms.group
        self._result(self._link.describe({topic for topic, _ in partitions}), end)
        node = next((self._link.leaders[one].node for one in partitions if one in self._link.leaders), None)
        if node is None:
            raise kp.LeaderNotAvailableError
        asked = FindCoordinatorRequest(key=group, key_type=0, max_version=3)
        coordinator = self._result(self._sent(asked, node, end), end)
        self._checked(coordinator.error_code, group)
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
        named = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [named(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()]
        request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=False, max_version=7)
        answer = self._result(self._sent(request, coordinator.node_id, end), end)
        self._checked(answer.error_code, group)
        offsets: dict[TopicPartition, int | None] = {}
        for topic in answer.topics:
            for told in topic.partitions:
                self._checked(told.error_code, f"group {group} of {topic.name}")
                offset = told.committed_offset
                offsets[topic.name, told.partition_index] = offset if offset >= 0 else None
        return offsets

    def _checked(self, code: int | None, where: str) -> None:
        if code:
            error = kp.for_code(code)()
            raise error if passes(error) else translated(error, where, self._feed)

    def _sent(self, request: object, node: int, end: float) -> Any:
        while (future := self._link.send(request, node)) is None:
            if time.monotonic() > end:
                raise kp.KafkaTimeoutError("no answer in time")
            self._link.turn(QUIET_SECONDS)
            self._check()
        return future

    def _result(self, future: Any, end: float) -> Any:
        return self._link.result(future, end - time.monotonic(), self._check)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise RetryableFeedError(
                "the stream was stopped while it waited for the broker", hint="start the stream again"
            )

    def _patiently(self, ask: Callable[[float], T]) -> T:
        """Asks until there is an answer, the patience has ended, or a refusal is known to be one."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return ask(end)
            except kp.KafkaError as error:
                if (denied := self._troubles.denied) is not None:
                    raise translated(denied, self._feed.bootstrap, self._feed) from None
                if not passes(error) or time.monotonic() >= end:
                    text = self._troubles.take("") if passes(error) else None
                    raise translated(error, getattr(error, "place", self._feed.bootstrap), self._feed, text) from None
            self._link.leaders.clear()
            self._check()
            self._link.turn(QUIET_SECONDS)


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
