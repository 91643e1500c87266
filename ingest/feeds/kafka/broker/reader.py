"""Exactly the messages of ``[start, stop)`` of one partition, by clients that are kept across batches.

One client a partition, all over one connection to each broker: a range that begins where the last one ended costs
neither a seek nor a fetch that was done already, since messages beyond ``stop`` are held for the next range. Messages
are not counted but compared by offset, because compaction and transactions leave holes; the broker reports where a
partition ends, which is remembered.

A client that begins at a position, and one that was cut off from its broker, begins with the last message that was
read before, and compares it: a log that was put back to an older copy has another one there.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import kafka.errors as kp

from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages
from sparkhaven.ingest.feeds.kafka.broker.errors import (
    OTHER_TOPIC,
    Troubles,
    end_before_position,
    log_replaced,
    partition_name,
    passes,
    place_of,
    recreated,
    retention_overtook,
    retention_passed,
    terms_of,
    told,
    topic_gone,
    translated,
    unreachable,
)
from sparkhaven.ingest.feeds.kafka.broker.link import Leader, Link, TopicState
from sparkhaven.ingest.feeds.kafka.broker.partition import QUIET_SECONDS, Partition, fetch
from sparkhaven.ingest.feeds.kafka.broker.topics import OffsetBounds
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.errors import PositionGapError, SparkhavenError

Some = TypeVar("Some")  # messages that are handed out together
Given = TypeVar("Given", covariant=True)  # the same, where they only come out

WAIT_SECONDS = 0.02
PATIENCE_SECONDS = 60.0  # without a message while some are due
BEHIND_SECONDS = 1.0  # how much later than it should an answer about ends may come
MS = 1000

_NOT_THERE = (kp.LogTruncationError, kp.OffsetOutOfRangeError)


class PartitionClient(Protocol[Given]):
    """What reads one partition; ``Partition`` says what each of these means."""

    last: int
    end: int

    def assign(self, offset: int, epoch: int = -1) -> None: ...
    def fetch(self, count: int, seconds: float) -> None: ...
    def skip(self, start: int) -> bool: ...
    def take(self, stop: int, *, whole: bool) -> Given | None: ...
    def bounds(self, patience: float) -> tuple[int, int]: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class PartitionPosition(Generic[Some]):
    """A client of one partition. All messages before ``position`` that exist were handed out.

    ``last``: the last one of them, where it is known. ``compared``: the log has it, as far as it is known since the
    client has begun, which it did after so many ``troubles`` with the connection.
    """

    client: PartitionClient[Some]
    topic_id: str
    position: int
    last: LastMessage | None = None
    compared: bool = True
    troubles: int = 0


class _Silence:
    """How long nothing has come."""

    def __init__(self, clock: Callable[[], float], patience: float) -> None:
        self._clock, self._patience = clock, patience
        self._furthest = -1
        self.broken()

    def reached(self, offset: int) -> None:
        """A message of this offset came; one that was received before a connection was lost breaks no silence."""
        if offset > self._furthest:
            self._furthest = offset
            self.broken()

    def broken(self) -> None:
        """Something came."""
        self._since = self._clock()

    @property
    def is_over(self) -> bool:
        """Longer than anybody waits."""
        return self._clock() - self._since > self._patience


class MessageRangeReader(ABC, Generic[Some]):
    """Reads ranges of one feed in one process."""

    def __init__(
        self, feed: KafkaOptions, *, patience: float = PATIENCE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._feed, self._patience, self._clock = feed, patience, clock
        self._troubles = Troubles(feed)
        self._held: dict[TopicPartition, PartitionPosition[Some]] = {}

    @abstractmethod
    def _open(self, wanted: OffsetRange) -> PartitionClient[Some]:
        """A client for the partition of a range."""

    @abstractmethod
    def _last(self, some: Some) -> LastMessage:
        """The last of some messages."""

    @abstractmethod
    def _prove(self, wanted: OffsetRange) -> None:
        """Raises FeedError where there is no such topic, PositionGapError where it is not the one that was planned."""

    def _is_proven(self, client: PartitionClient[Some]) -> bool:
        """Whether the broker has compared the topic with each request."""
        return False

    def read(self, wanted: OffsetRange) -> Iterator[Some]:
        """The messages of a range in order, some thousands at a time.

        After the last ones it is proven that the topic is still the one that was planned. Raises PositionGapError when
        messages of the range are gone, the topic was recreated or its log put back, FeedError when there is no such
        topic, RetryableFeedError when nothing comes for ``patience`` seconds.
        """
        if wanted.start >= wanted.stop:
            return
        partition = wanted.topic, wanted.partition
        consumer = self._hold(partition, wanted)
        try:
            yield from self._messages(consumer, wanted)
        except BaseException:
            self._drop(partition)  # where the consumer stands is not known for sure
            raise

    def compare(self, wanted: OffsetRange) -> None:
        """Compares the message that was read before a range, and reads nothing of it. Raises what ``read`` raises."""
        partition = wanted.topic, wanted.partition
        consumer = self._hold(partition, wanted)
        try:
            self._compare(consumer, wanted, _Silence(self._clock, self._patience))
        except BaseException:
            self._drop(partition)
            raise

    def last_of(self, read: OffsetRange) -> LastMessage | None:
        """The last message of a range that was read to its end; None where it had none."""
        consumer = self._held.get((read.topic, read.partition))
        last = consumer.last if consumer is not None else None
        return last if last is not None and read.start <= last.offset < read.stop else None

    def stands_at(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a client of the partition is kept, and goes on there without a seek."""
        consumer = self._held.get((topic, partition))
        return consumer is not None and consumer.position == offset

    def close(self) -> None:
        for partition in list(self._held):
            self._drop(partition)

    def _messages(self, consumer: PartitionPosition[Some], wanted: OffsetRange) -> Iterator[Some]:
        silence = _Silence(self._clock, self._patience)
        while True:
            self._compare(consumer, wanted, silence)
            client = consumer.client
            all_there = client.last >= wanted.stop - 1 or client.end >= wanted.stop
            for taken in self._taken(consumer, wanted.stop, whole=all_there):
                yield taken
                silence.broken()
            if all_there:
                consumer.position = wanted.stop
                if wanted.topic_id and not self._is_proven(client):
                    self._prove(wanted)
                return
            before = client.last
            self._fetch(consumer, wanted, wanted.stop - 1 - max(before, wanted.start - 1), silence)
            if consumer.troubles != self._troubles.count:
                # what came before is handed out, since it is of the log that was compared
                yield from self._taken(consumer, min(before + 1, wanted.stop), whole=True)
                self._begin(consumer, wanted.start, consumer.last)

    def _taken(self, consumer: PartitionPosition[Some], stop: int, *, whole: bool) -> Iterator[Some]:
        """Messages before ``stop`` that were fetched; ``whole`` as in ``PartitionClient.take``."""
        while (taken := consumer.client.take(stop, whole=whole)) is not None:
            consumer.last = self._last(taken)
            yield taken

    def _fetch(self, consumer: PartitionPosition[Some], wanted: OffsetRange, due: int, silence: _Silence) -> None:
        """Waits for some of the messages that are due; raises when they are no longer waited for."""
        client = consumer.client
        before = client.last
        try:
            client.fetch(due, WAIT_SECONDS)
        except kp.KafkaError as error:
            raise self._error(consumer, wanted, error) from None
        denied = self._troubles.denied
        if client.last != before:
            silence.reached(client.last)
        elif denied is not None:
            raise translated(denied, wanted.path, self._feed)
        elif silence.is_over:
            raise unreachable(
                f"no message came for {self._patience:.0f} seconds",
                place_of(wanted.path, self._feed),
                self._troubles.take(f"nothing, while the partition is known to end at {client.end}"),
            )

    def _hold(self, partition: TopicPartition, wanted: OffsetRange) -> PartitionPosition[Some]:
        consumer = self._held.pop(partition, None)
        if consumer is not None and consumer.topic_id != wanted.topic_id:
            consumer.client.close()
            consumer = None
        if consumer is None:
            while len(self._held) >= self._feed.limits.consumers:
                self._drop(next(iter(self._held)))
            consumer = PartitionPosition(self._open(wanted), wanted.topic_id, wanted.start)
            self._begin(consumer, wanted.start, wanted.after)
        elif not self._goes_on(consumer, wanted):
            known = consumer.last if consumer.position == wanted.start else None
            self._begin(consumer, wanted.start, wanted.after or known)
        consumer.position = wanted.start
        self._held[partition] = consumer  # the last used is the last to go
        return consumer

    def _goes_on(self, consumer: PartitionPosition[Some], wanted: OffsetRange) -> bool:
        """Whether a client need not begin anew: it was not cut off, and what was read before is what it has read."""
        after, last = wanted.after, consumer.last
        if consumer.troubles != self._troubles.count or (after is not None and last is None):
            return False
        if consumer.position != wanted.start:
            return consumer.position < wanted.start and consumer.client.skip(wanted.start)
        return after is None or last is None or last.same(after)

    def _begin(self, consumer: PartitionPosition[Some], start: int, last: LastMessage | None) -> None:
        """Begins anew at an offset, or with the ``last`` message that was read before it."""
        consumer.last, consumer.compared, consumer.troubles = last, last is None, self._troubles.count
        if last is None:
            consumer.client.assign(start)
        else:
            consumer.client.assign(last.offset, last.epoch)

    def _compare(self, consumer: PartitionPosition[Some], wanted: OffsetRange, silence: _Silence) -> None:
        """Compares the last message that was read, where a client has begun with it; then it stands behind it.

        A message that retention or compaction has taken is no other log: then the broker's leader epochs have to do.
        """
        while not consumer.compared and (last := consumer.last) is not None:
            client, start = consumer.client, max(wanted.start, last.offset + 1)
            if client.last < start - 1 and client.end < start:
                if not self._reaches(consumer, wanted, last, silence):
                    client.assign(start)
                    consumer.compared = True
                continue
            first = client.take(last.offset + 1, whole=True)
            if first is not None and not last.same(theirs := self._last(first)):
                raise log_replaced(wanted.topic, wanted.partition, last, theirs)
            while client.take(start, whole=True) is not None:
                pass  # of transactions that were aborted, as they are read now
            consumer.compared = consumer.troubles == self._troubles.count
            if not consumer.compared:  # it was cut off meanwhile
                self._begin(consumer, start, last)

    def _reaches(
        self, consumer: PartitionPosition[Some], wanted: OffsetRange, last: LastMessage, silence: _Silence
    ) -> bool:
        """Fetches up to where a client goes on; False where the partition begins behind the ``last`` message."""
        client, start = consumer.client, max(wanted.start, last.offset + 1)
        try:
            self._fetch(consumer, wanted, start - max(client.last + 1, last.offset), silence)
        except PositionGapError as gap:
            try:
                low, high = client.bounds(self._patience)
            except kp.KafkaError:
                raise gap from None
            if low <= last.offset or not low <= start <= high:
                raise
            return False
        return True

    def _drop(self, partition: TopicPartition) -> None:
        consumer = self._held.pop(partition, None)
        if consumer is not None:
            consumer.client.close()

    def _error(self, consumer: PartitionPosition[Some], wanted: OffsetRange, error: kp.KafkaError) -> Exception:
        name, words = partition_name(wanted.topic, wanted.partition), self._feed.client.hide(told(error))
        if isinstance(error, OTHER_TOPIC):  # the leader does not know the topic by its id: what became of it
            try:
                self._prove(wanted)
            except SparkhavenError as proven:
                return proven
            return translated(error, wanted.path, self._feed)
        if not isinstance(error, _NOT_THERE):
            return translated(error, name, self._feed)
        try:
            low, high = consumer.client.bounds(self._patience)
        except kp.KafkaError as failed:
            return translated(failed, name, self._feed)
        if low > wanted.start:
            passed = retention_overtook if self._feed.allow_gap else retention_passed
            return passed(wanted.topic, wanted.partition, wanted.start, low)
        if high < wanted.stop:
            return end_before_position(wanted.topic, wanted.partition, wanted.stop, high)
        if consumer.last is not None:
            return log_replaced(wanted.topic, wanted.partition, consumer.last, words)
        return PositionGapError(
            "the broker did not find the committed position",
            where=wanted.path,
            expected=f"an offset between {low} and {high}",
            found=words,
            hint="start the stream again. Nothing of this batch was committed",
        )


class KafkaReader(MessageRangeReader[FramedMessages]):
    """Hands out blocks of framed messages, with the ``headers`` of these names."""

    def __init__(
        self,
        feed: KafkaOptions,
        *,
        headers: Sequence[str] = (),
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connects to nobody yet. SettingsError for settings that cannot be used."""
        super().__init__(feed, patience=patience, clock=clock)
        terms = terms_of(feed)
        self._terms, self._headers = terms.fetch, tuple(headers)
        self._link = Link(terms, feed.bootstrap, self._troubles.note)

    def close(self) -> None:
        super().close()
        self._link.close()

    def ends(
        self, positions: Mapping[TopicPartition, OffsetRange], seconds: float
    ) -> dict[TopicPartition, OffsetBounds] | None:
        """Where partitions begin and end, after at most so many seconds in which there is nothing behind ``positions``.

        One request asks each leader for all its partitions; what comes with the answer is held for the next range.
        None where that is not known: the leaders do not compare ids, or may be behind, or something is wrong, which a
        look at the topics tells.
        """
        if not self._held or len(positions) > self._feed.limits.consumers or self._terms.rack:
            return None
        held = [self._hold(partition, position) for partition, position in positions.items()]
        quiet = [_client(one) for one in held if not _has_news(one)]
        try:
            self._look(quiet, seconds if len(quiet) == len(held) else 0.0)
        except kp.KafkaError as error:
            if not passes(error):  # whoever reads or looks next is told
                for partition in positions:
                    self._drop(partition)
            return None
        bounds = {
            one.place: OffsetBounds(*one.told) for one in map(_client, held) if one.by_id and one.told is not None
        }
        return bounds if len(bounds) == len(positions) else None

    def _look(self, clients: Sequence[Partition], seconds: float) -> None:
        """Asks for what follows, one request a leader, and takes the answers."""
        groups: dict[int, list[tuple[Partition, Leader]]] = {}
        for client in clients:
            client.told = None
            if client.by_id and (leader := client.free_leader(seconds)) is not None:
                groups.setdefault(leader.node, []).append((client, leader))
        wait_ms = round(seconds * MS)
        sent = []
        for node, group in groups.items():
            request = fetch(self._terms, [client.wish(leader, 1) for client, leader in group], wait_ms)
            sent.append((self._link.send(request, node), group))
        for future, group in sent:
            if future is not None:
                answer = self._link.result(future, seconds + BEHIND_SECONDS)
                for client, _ in group:
                    client.take_answer(answer, -1)

    def _open(self, wanted: OffsetRange) -> Partition:
        return Partition(self._link, self._terms, self._troubles, wanted, self._feed.limits, self._headers, self._clock)

    def _last(self, some: FramedMessages) -> LastMessage:
        message = some.at(int(some.offsets[-1]))
        return LastMessage.of(message.offset, some.epoch, message.time_ms, message.key, message.value)

    def _is_proven(self, client: object) -> bool:
        return isinstance(client, Partition) and client.by_id

    def _prove(self, wanted: OffsetRange) -> None:
        state = self._state(wanted.topic)
        if kp.for_code(state.error) is kp.UnknownTopicOrPartitionError:
            raise topic_gone(wanted.topic)
        if state.error:
            raise translated(kp.for_code(state.error)(), wanted.topic, self._feed)
        if wanted.topic_id and state.topic_id != wanted.topic_id:
            raise recreated(wanted.topic, wanted.topic_id, state.topic_id)

    def _state(self, topic: str) -> TopicState:
        """What the cluster says of a topic now."""
        end = self._clock() + self._patience
        while True:
            try:
                states: dict[str, TopicState] = self._link.result(
                    self._link.describe([topic]), max(0.0, end - self._clock())
                )
                return states[topic]
            except kp.KafkaError as error:
                if not passes(error) or self._troubles.denied is not None or self._clock() > end:
                    raise translated(self._troubles.denied or error, topic, self._feed) from None
                self._link.turn(QUIET_SECONDS)


def _client(held: PartitionPosition[FramedMessages]) -> Partition:
    assert isinstance(held.client, Partition)  # noqa: S101  which _open has made
    return held.client


def _has_news(held: PartitionPosition[FramedMessages]) -> bool:
    """Whether it is known that there is something behind what was handed out."""
    told_ends = _client(held).told
    return told_ends is not None and told_ends[1] > held.position
