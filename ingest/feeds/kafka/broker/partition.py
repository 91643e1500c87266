"""What reads one partition: Fetch is asked over the link that all partitions share, record batches are read here.

The next portion is asked for before the last one is decoded, so that the broker works beside us. A leader that is lost
is found anew, and asked from the first message on that did not arrive whole: none is lost, none comes twice.

Messages that were fetched and not handed out stay in a ``FetchBuffer``, until a block of them is full. Payloads are
copied once, into the bytes that decoders read; then the memory that they were received into is free.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import kafka.errors as kp
import numpy as np
from kafka.future import Future
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from sparkhaven.ingest.feeds.kafka.blocks import FramedMessages, FramedPart
from sparkhaven.ingest.feeds.kafka.broker.batches import Piece, counted, damaged, pieces, whole_batches
from sparkhaven.ingest.feeds.kafka.broker.errors import OTHER_TOPIC, Troubles, partition_name, passes
from sparkhaven.ingest.feeds.kafka.broker.link import MOST_RECEIVED, Leader, Link, id_of
from sparkhaven.ingest.feeds.kafka.client_settings import FetchTerms
from sparkhaven.ingest.feeds.kafka.options import ReadLimits
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import TopicPartition
from sparkhaven.store.native.abi import BATCH_EPOCH, BATCH_FIRST, BATCH_LAST, BATCH_STOP
from sparkhaven.store.native.record_batches import Batches, Longs, Octets, Records, find_headers, framed


class _Portion:
    """Records of one piece of memory, from ``first`` on."""

    __slots__ = ("first", "octets", "records", "sizes")

    def __init__(self, octets: Octets, records: Records) -> None:
        self.octets, self.records, self.first = octets, records, 0
        self.sizes: Longs = np.maximum(records.values, 0) + np.maximum(records.keys, 0)

    def __len__(self) -> int:
        return len(self.records) - self.first

    def before(self, offset: int) -> int:
        """How many stand before an offset."""
        return int(np.searchsorted(self.records.offsets[self.first :], offset))


class FetchBuffer:
    """Blocks have the headers of these names beside values and keys."""

    def __init__(self, limits: ReadLimits, headers: Sequence[str] = ()) -> None:
        self._limits, self._headers = limits, headers
        self._portions: deque[_Portion] = deque()
        self._count = self._size = 0

    @property
    def first(self) -> int | None:
        """The offset of the first of them."""
        return int(self._portions[0].records.offsets[self._portions[0].first]) if self._portions else None

    def add(self, octets: Octets, records: Records) -> None:
        """Further ones, behind the others."""
        portion = _Portion(octets, records)
        self._portions.append(portion)
        self._count += len(portion)
        self._size += int(portion.sizes.sum())
        self._drop(portion, 0)

    def clear(self) -> None:
        while self._portions:
            self._drop(self._portions[0], len(self._portions[0]))

    def skip(self, start: int) -> bool:
        """Lets messages before ``start`` go; False where there is none at or after it, and they stay."""
        if not self._portions or self._portions[-1].records.offsets[-1] < start:
            return False
        while count := self._portions[0].before(start):
            self._drop(self._portions[0], count)
        return True

    def take(self, stop: int, *, whole: bool) -> FramedMessages | None:
        """Messages before ``stop``: as many as a block has; fewer only if ``whole``, None for none."""
        if not whole and self._count < self._limits.messages and self._size < self._limits.bytes:
            return None
        parts: list[tuple[Octets, Records]] = []
        messages, size = self._limits.messages, self._limits.bytes
        for portion in self._portions:
            count = min(messages, portion.before(stop))
            sizes = np.cumsum(portion.sizes[portion.first : portion.first + count])
            count = min(count, int(np.searchsorted(sizes, size)) + 1)  # the last one may be large
            if count:
                parts.append((portion.octets, portion.records.part(slice(portion.first, portion.first + count))))
                messages, size = messages - count, size - int(sizes[count - 1])
            if count < len(portion) or messages <= 0 or size <= 0:
                break
        if not parts:
            return None
        block = _block(parts, self._headers)
        for _, records in parts:
            self._drop(self._portions[0], len(records))
        return block

    def _drop(self, portion: _Portion, count: int) -> None:
        """Forgets the first messages of the first portion, and the portion after its last."""
        sizes = portion.sizes[portion.first : portion.first + count]
        portion.first += count
        self._count, self._size = self._count - count, self._size - int(sizes.sum())
        if not len(portion):
            self._portions.remove(portion)


def _block(parts: list[tuple[Octets, Records]], headers: Sequence[str]) -> FramedMessages:
    def joined(arrays: list[Longs]) -> Longs:
        return np.concatenate(arrays)

    values = framed([(octets, records.value_starts, records.values) for octets, records in parts])
    keys = framed([(octets, records.key_starts, records.keys) for octets, records in parts])
    named = {}
    for name in headers:
        headers_of = [(octets, *find_headers(octets, records, name.encode())) for octets, records in parts]
        named[name] = FramedPart(*framed(headers_of), joined([lengths for _, _, lengths in headers_of]) >= 0)
    return FramedMessages(
        joined([records.offsets for _, records in parts]),
        joined([records.times for _, records in parts]),
        FramedPart(*values, joined([records.values for _, records in parts]) >= 0),
        FramedPart(*keys, joined([records.keys for _, records in parts]) >= 0),
        named,
    )


FIRST, LAST = -2, -1  # times that ListOffsets takes for the begin and the end of a partition
BY_ID, BY_NAME = (13, 17), (9, 12)  # versions of Fetch. Kafka has the first ones since 3.1, the others since 2.1
LEAST_ASKED = 64 << 10
GUESSED = 1 << 10  # bytes of a message, before one was seen
NEWS_SECONDS = 30.0  # how long a broker may not know a topic that is new
QUIET_SECONDS = 0.1  # before a broker that has failed is asked again
_MORE = 1.05  # than the messages that are due had so far
_PASSING = frozenset(  # the leader has moved, or does not yet know that it is one
    kind.errno
    for kind in (
        kp.UnknownTopicOrPartitionError, kp.LeaderNotAvailableError, kp.NotLeaderForPartitionError,
        kp.RequestTimedOutError, kp.BrokerNotAvailableError, kp.ReplicaNotAvailableError, kp.KafkaStorageError,
        kp.FencedLeaderEpochError, kp.UnknownLeaderEpochError, kp.OffsetNotAvailableError,
    )
)  # fmt: skip
_OUT_OF_RANGE = kp.OffsetOutOfRangeError.errno
_UNKNOWN = kp.UnknownTopicOrPartitionError.errno


class Partition:
    """A consumer of one partition, with what it has fetched and not handed out.

    ``last`` is the offset of the last message since ``assign``; -1 where there is none. ``end``: whatever there is
    before this offset was fetched; -1 where that is not known. ``told``: where the partition began and ended when its
    leader answered last. ``by_id``: all that was asked for is of the topic of this id, since its leader compares it.

    Every method that asks raises KafkaError for what waiting does not mend, and notes the rest as troubles.
    """

    def __init__(
        self,
        link: Link,
        terms: FetchTerms,
        troubles: Troubles,
        wanted: OffsetRange,
        limits: ReadLimits,
        headers: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link, self._terms, self._troubles, self._clock = link, terms, troubles, clock
        self.place: TopicPartition = wanted.topic, wanted.partition
        self._id = id_of(wanted.topic_id) if wanted.topic_id else None
        self._held = FetchBuffer(limits, headers)
        self._pieces: Iterator[Piece] = iter(())  # of an answer, those that are still to be decoded
        self._asked: Future | None = None  # a Fetch that is on its way, and from whom
        self._from = -1
        self._looking: Future | None = None  # for the leader
        self._position = self._decoded = 0  # what is asked for next; before which all messages are here, or were
        self._epoch = -1  # of the last message that is known before the position
        self._epochs: deque[tuple[int, int]] = deque()  # of what was fetched: the first offset of each, and the epoch
        self._portion, self._message_bytes = terms.portion, 0.0
        self._strangers, self._quiet_until = 0, 0.0
        self._seen, self._unknown_since = False, 0.0  # whether the cluster has ever known the topic
        self._replica: tuple[int, float] | None = None  # that is read instead of the leader, and until when
        self.last = self.end = -1
        self.told: tuple[int, int] | None = None
        self.by_id = self._id is not None

    def assign(self, offset: int, epoch: int = -1) -> None:
        """Begins anew at an offset, whose message is of that leader epoch; a log without it is a KafkaError."""
        self._held.clear()
        self._epochs.clear()
        self._pieces, self._asked, self.told = iter(()), None, None
        self._position = self._decoded = offset
        self._epoch, self.last, self.end = epoch, -1, -1

    def skip(self, start: int) -> bool:
        """Lets messages before ``start`` go; False where none at or after it was fetched."""
        return self._held.skip(start)

    def take(self, stop: int, *, whole: bool) -> FramedMessages | None:
        """Messages before ``stop``, None where they are too few; ``whole``: those that there are, None for none."""
        block = self._held.take(stop, whole=whole)
        return None if block is None else replace(block, epoch=self._epoch_of(int(block.offsets[-1])))

    def close(self) -> None:
        """Lets all messages go."""
        self._held.clear()
        self._pieces = iter(())

    def fetch(self, count: int, seconds: float) -> None:
        """Further messages, as come within the time, of ``count`` that are due."""
        if self._decode():
            return
        if (quiet := self._quiet_until - self._clock()) > 0:
            self._link.turn(min(quiet, seconds))
            return
        stop = count + (self.last + 1 if self.last >= 0 else self._decoded)
        try:
            if self._asked is None:
                self._ask(stop - self._position, seconds)
            self._link.turn(seconds, self._asked)
            if self._asked is None:
                return
            if self._asked.is_done:
                asked, self._asked = self._asked, None
                if asked.exception is not None:
                    raise asked.exception
                self.take_answer(asked.value, stop)
        except kp.IncompatibleBrokerVersion:
            if not self.by_id:
                raise
            self.by_id = False
        except kp.KafkaError as error:
            if not passes(error):
                raise
            self._lost()

    def bounds(self, patience: float) -> tuple[int, int]:
        """First offset and end of the partition, as its leader knows them."""
        end = self._clock() + patience
        while True:
            left = max(0.0, end - self._clock())
            try:
                if (leader := self._leader(left)) is not None:
                    return self._bound(leader, FIRST, left), self._bound(leader, LAST, left)
            except kp.KafkaError as error:
                if not passes(error):
                    raise
                self._lost()
            if left <= 0:
                raise kp.KafkaTimeoutError("no answer where the partition begins and ends")
            self._link.turn(min(left, QUIET_SECONDS))

    def wish(self, leader: Leader, count: int) -> FetchRequest.FetchTopic:
        """The part of a Fetch that asks for about so many messages."""
        guess = LEAST_ASKED + int(max(count, 1) * (self._message_bytes or GUESSED) * _MORE)
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=self.place[1],
            current_leader_epoch=leader.epoch,
            fetch_offset=self._position,
            last_fetched_epoch=self._epoch,
            log_start_offset=-1,
            partition_max_bytes=min(self._portion, guess),
        )
        named: dict[str, Any] = {"topic_id": self._id} if self.by_id else {"topic": self.place[0]}
        return FetchRequest.FetchTopic(partitions=[partition], **named)

    def free_leader(self, seconds: float) -> Leader | None:
        """The leader, where nothing is on the way from it; None while there is none. Raises nothing."""
        while self._decode():
            pass
        try:
            return None if self._asked is not None else self._leader(seconds)
        except kp.KafkaError:
            self._lost()  # whoever reads next is told
            return None

    def take_answer(self, answer: Any, stop: int) -> None:
        """What an answer to Fetch says of this partition: asks for the next portion, then decodes what comes first."""
        mine = next((one for topic in answer.responses for one in topic.partitions if self._is_of(topic, one)), None)
        code = answer.error_code or (mine.error_code if mine is not None else 0)
        if code:
            self._failed(code)
            return
        if mine is None:
            return
        self._strangers = 0
        if (replica := mine.preferred_read_replica) is not None and replica >= 0 and replica != self._from:
            self._replica = replica, self._clock() + self._terms.replica_seconds
            return
        diverging = mine.diverging_epoch
        if diverging is not None and diverging.end_offset >= 0:
            words = f"the partition was truncated: epoch {diverging.epoch} ends at {diverging.end_offset}"
            raise kp.LogTruncationError({}, f"{words}, before offset {self._position}")
        self.told = mine.log_start_offset, mine.last_stable_offset if self._terms.committed else mine.high_watermark
        octets = np.frombuffer(mine.records or b"", np.uint8)
        batches = whole_batches(octets, checked=self._terms.checked)
        if not len(batches):
            self._enlarge(len(octets))
            self.end = self._decoded = self._position
            return
        start, position = self._position, int(batches[-1, BATCH_LAST]) + 1
        if position <= start:
            raise damaged(f"record batches before offset {start}, which was asked for")
        self._position, self._epoch = position, int(batches[-1, BATCH_EPOCH])
        self._note_epochs(batches)
        self._message_bytes = int(batches[-1, BATCH_STOP]) / (position - start)
        aborted = [(one.producer_id, one.first_offset) for one in mine.aborted_transactions or ()]
        messages = batches[counted(batches, aborted if self._terms.committed else ())]
        self._pieces = pieces(octets, messages, start, position)
        if position < stop:  # before an error of what follows
            self._ask(stop - position, 0.0)
        if not self._decode():
            self.end = self._decoded = position

    def _is_of(self, topic: Any, partition: Any) -> bool:
        same: bool = topic.topic_id == self._id if self.by_id else topic.topic == self.place[0]
        return same and partition.partition_index == self.place[1]

    def _ask(self, count: int, seconds: float) -> None:
        leader = self._leader(seconds)
        if leader is None:
            return
        node = leader.node
        if self._replica is not None and self._clock() < self._replica[1]:
            node = self._replica[0]
        self._from, self._asked = node, self._link.send(fetch(self._terms, [self.wish(leader, count)]), node)

    def _leader(self, seconds: float) -> Leader | None:
        """Raises KafkaError where there is none, as far as the cluster knows."""
        leader = self._link.leaders.get(self.place)
        if leader is not None:
            return leader
        self._looking = self._looking or self._link.describe([self.place[0]])
        self._link.turn(seconds, self._looking)
        if not self._looking.is_done:
            return None
        looking, self._looking = self._looking, None
        if looking.exception is not None:
            raise looking.exception
        state = looking.value.get(self.place[0])
        code = _UNKNOWN if state is None else state.error or state.partitions.get(self.place[1], _UNKNOWN)
        if code == _UNKNOWN and (state is None or state.error):
            self._unknown_since = self._unknown_since or self._clock()
            if self._seen or self._clock() - self._unknown_since > NEWS_SECONDS:
                raise kp.InvalidTopicError(f"{self.place[0]} is not known")
        elif code == _UNKNOWN:
            raise kp.InvalidTopicError(f"{self.place[0]} has no partition {self.place[1]}")
        self._seen |= not code
        leader = self._link.leaders.get(self.place)
        if leader is None:
            self._failed(code or kp.LeaderNotAvailableError.errno)
        return leader

    def _bound(self, leader: Leader, which: int, seconds: float) -> int:
        sent = self._link.send(list_offsets({self.place: which}, committed=self._terms.committed), leader.node)
        if sent is None:
            raise kp.NodeNotReadyError("the broker is not to be asked yet")
        (topic,) = self._link.result(sent, seconds).topics
        (mine,) = topic.partitions
        if mine.error_code:
            raise kp.for_code(mine.error_code)(f"ListOffsets: {partition_name(*self.place)}")
        return int(mine.offset)

    def _failed(self, code: int) -> None:
        """The broker has an error instead of messages."""
        kind = kp.for_code(code)
        error = kind(f"Fetch: {kind.message}: {kind.description}")
        if code == _OUT_OF_RANGE and self._replica is not None:  # which may be behind its leader
            self._replica = None
            return
        stranger = issubclass(kind, OTHER_TOPIC)
        self._strangers += stranger
        if code not in _PASSING and not (stranger and self._strangers == 1):
            raise error
        self._troubles.note(error)
        self._lost()

    def _lost(self) -> None:
        """The leader is looked for again, after a while. Whoever has lost the connection has told why."""
        self._asked = self._replica = None
        self._link.forget(self.place)
        self._quiet_until = self._clock() + QUIET_SECONDS

    def _note_epochs(self, batches: Batches) -> None:
        epochs = batches[:, BATCH_EPOCH]
        for number in (0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist()):
            if not self._epochs or self._epochs[-1][1] != epochs[number]:
                self._epochs.append((int(batches[number, BATCH_FIRST]), int(epochs[number])))

    def _epoch_of(self, offset: int) -> int:
        """The leader epoch of a message; those before it are forgotten."""
        while len(self._epochs) > 1 and self._epochs[1][0] <= offset:
            self._epochs.popleft()
        return self._epochs[0][1]

    def _decode(self) -> bool:
        """Decodes the next batches of an answer; False where there are no more."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._held.add(piece.octets, piece.records)
        if len(piece.records):
            self.last = int(piece.records.offsets[-1])
        self.end = self._decoded = piece.stop
        return True

    def _enlarge(self, size: int) -> None:
        """Asks for more the next time, where not even one batch was whole."""
        if size:
            if self._portion >= MOST_RECEIVED:
                raise damaged(f"a record batch is larger than {MOST_RECEIVED:,} bytes")
            self._portion = min(2 * max(size, self._portion), MOST_RECEIVED)


def fetch(terms: FetchTerms, wishes: list[FetchRequest.FetchTopic], wait_ms: int | None = None) -> FetchRequest:
    """A Fetch for partitions of one leader, by the ids of their topics if the first one is."""
    low, high = BY_ID if wishes[0].topic_id is not None and wishes[0].topic_id.int else BY_NAME
    return FetchRequest(
        max_wait_ms=terms.wait_ms if wait_ms is None else wait_ms,
        min_bytes=terms.least,
        max_bytes=terms.most,
        isolation_level=int(terms.committed),
        session_id=0,
        session_epoch=-1,
        topics=wishes,
        forgotten_topics_data=[],
        rack_id=terms.rack,
        min_version=low,
        max_version=high,
    )


def list_offsets(wanted: dict[TopicPartition, int], *, committed: bool) -> ListOffsetsRequest:
    """Asks the leader of some partitions for the first offsets at or after a time, or for an end."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[Any]] = {}
    for (name, number), time_ms in wanted.items():
        partition = topic.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=time_ms)
        by_topic.setdefault(name, []).append(partition)
    topics = [topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=topics, min_version=2)
