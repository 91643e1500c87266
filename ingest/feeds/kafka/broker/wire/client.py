"""A partition's messages over a connection of our own: Fetch is asked here, and its record batches are read here.

The next portion is asked for before the last one is decoded, so that the broker works beside us. A leader that is lost
is found anew, and asked from the first message on that did not arrive whole: none is lost, none comes twice.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from sparkhaven.ingest.feeds.kafka.broker.clients import Troubles
from sparkhaven.ingest.feeds.kafka.broker.wire import requests
from sparkhaven.ingest.feeds.kafka.broker.wire.batches import Piece, counted, damaged, pieces, whole_batches
from sparkhaven.ingest.feeds.kafka.broker.wire.connection import Buffers, Connection, LostError
from sparkhaven.ingest.feeds.kafka.broker.wire.fields import AnswerError
from sparkhaven.ingest.feeds.kafka.broker.wire.held import HeldMessages
from sparkhaven.ingest.feeds.kafka.broker.wire.leaders import LeaderLink, Leaders
from sparkhaven.ingest.feeds.kafka.broker.wire.requests import Fetched, FetchTerms, FetchWish, Request, Source
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import WireSettings
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.native.abi import BATCH_EPOCH, BATCH_FIRST, BATCH_LAST, BATCH_STOP
from sparkhaven.store.native.record_batches import Batches, Octets

_PASSING = frozenset(  # the leader has moved, or does not yet know that it is one
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
OTHER_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_ID, KafkaError.INCONSISTENT_TOPIC_ID})
LEAST_ASKED = 64 << 10
GUESSED = 1 << 10  # bytes of a message, before one was seen
_MORE = 1.05  # than the messages that are due had so far


@dataclass(frozen=True, slots=True)
class _Asked:
    """A Fetch that is on its way."""

    number: int
    request: Request


class WireClient:
    """A ``PartitionClient`` by requests of our own.

    Every method that asks raises KafkaException for what waiting does not mend, and OtherClientError where librdkafka
    has to read.
    """

    def __init__(
        self,
        settings: WireSettings,
        feed: KafkaOptions,
        troubles: Troubles,
        source: Source,
        buffers: Buffers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._source, self._clock = settings, source, clock
        self._terms = FetchTerms(settings.wait_ms, settings.least, settings.most, settings.committed)
        self._leaders = Leaders(settings, source, troubles, buffers, clock)
        self._buffers = buffers
        self._held = HeldMessages(feed.limits, buffers.give)
        self._pieces: Iterator[Piece] = iter(())  # of an answer, those that are still to be decoded
        self._asked: _Asked | None = None
        self._position = self._decoded = 0  # what is asked for next; before which all messages are here, or were
        self._epoch = self._leader_epoch = -1  # of the last batch, and of the leader that knows it
        self._epoch_end = 0  # behind the last message that is known to be of that epoch
        self._epochs: deque[tuple[int, int]] = deque()  # of what was fetched: the first offset of each, and the epoch
        self._portion, self._message_bytes = settings.portion, 0.0
        self._strangers, self._quiet_until = 0, 0.0
        self.last = self.end = -1
        self.told: tuple[int, int] | None = None  # where the partition began and ended when it answered last
        self.by_id = source.topic_id != ""  # whether all that was asked for was, so that it is of this topic for sure
        self.close = weakref.finalize(self, self._leaders.close)

    @property
    def first(self) -> int:
        """The first offset whose message was not handed out, if there is one."""
        held = self._held.first
        return self._decoded if held is None else held

    @property
    def connection(self) -> Connection | None:
        """To the leader, while it is known."""
        return None if self._leaders.link is None else self._leaders.link.connection

    def assign(self, offset: int, epoch: int = -1) -> None:
        self._held.clear()
        self._epochs.clear()
        self._pieces = iter(())
        if self._asked is not None and self._leaders.link is not None:
            self._leaders.link.connection.drop(self._asked.number)
        self._asked, self._position, self._decoded = None, offset, offset
        self._epoch, self._epoch_end, self._leader_epoch = epoch, offset + 1, -1
        self.last, self.end, self.told = -1, -1, None

    def skip(self, start: int) -> bool:
        return self._held.skip(start)

    def take(self, stop: int, *, whole: bool) -> FramedMessages | None:
        block = self._held.take(stop, whole=whole)
        return None if block is None else replace(block, epoch=self._epoch_of(int(block.offsets[-1])))

    def _epoch_of(self, offset: int) -> int:
        """The leader epoch of a message; those before it are forgotten."""
        while len(self._epochs) > 1 and self._epochs[1][0] <= offset:
            self._epochs.popleft()
        return self._epochs[0][1]

    def fetch(self, count: int, seconds: float) -> None:
        if self._decode():
            return
        link = self._leaders.now(seconds)
        if link is None:
            return
        stop = count + (self.last + 1 if self.last >= 0 else self._decoded)
        if self._is_throttled():
            time.sleep(max(0.0, min(self._quiet_until - self._clock(), seconds)))
            return
        try:
            asked = self._asked or self._ask(link, stop - self._position)
            received = link.connection.answer(asked.number, seconds)
            if received is None:
                return
            self._asked = None
            fetched = requests.read_fetched(received.read(asked.request), asked.request.version, self._source)
            self._take(link, fetched, received.buffer, stop)
        except (LostError, AnswerError) as error:
            self._lost(str(error))

    def ahead(self) -> None:
        """Asks for what follows all that is known to be there: a later ``fetch`` finds the answer, or waits for it."""
        link = self._leaders.link
        if link is None or link.epoch != self._leader_epoch or self._asked is not None or self._is_throttled():
            return
        if self.told is not None and self.told[1] <= self._position:
            try:
                self._ask(link, 1)
            except LostError as error:
                self._lost(str(error))

    def bounds(self, patience: float) -> tuple[int, int]:
        end = self._clock() + patience
        while True:
            left = end - self._clock()
            link = self._leaders.now(max(0.0, left))
            if link is not None:
                try:
                    return self._bound(link, requests.FIRST), self._bound(link, requests.LAST)
                except (LostError, AnswerError) as error:
                    self._lost(str(error))
            if left <= 0:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer where the partition begins and ends"))

    def _bound(self, link: LeaderLink, time: int) -> int:
        link.version(requests.LIST_OFFSETS)
        request = requests.list_offsets(self._source, time, committed=self._settings.committed)
        failed, offset = requests.read_offset(link.connection.ask(request))
        if failed in _PASSING:
            raise LostError(f"{link.connection.name}: {KafkaError(failed).str()}")
        if failed:
            raise KafkaException(KafkaError(failed))
        return offset

    def _is_throttled(self) -> bool:
        return self._quiet_until > self._clock()

    def _ask(self, link: LeaderLink, count: int) -> _Asked:
        """Asks for about so many messages."""
        if link.epoch > self._leader_epoch and self._epoch >= 0:
            self._prove_epoch(link)
        self._leader_epoch = link.epoch
        guess = LEAST_ASKED + int(max(count, 1) * (self._message_bytes or GUESSED) * _MORE)
        wish = FetchWish(self._position, link.epoch, min(self._portion, guess))
        request = requests.fetch(link.fetch_version(self._source), self._source, wish, self._terms)
        self.by_id = self.by_id and requests.is_by_id(request)
        self._asked = _Asked(link.connection.send(request), request)
        return self._asked

    def _take(self, link: LeaderLink, fetched: Fetched, buffer: Octets, stop: int) -> None:
        """An answer: asks for the next portion, then decodes what may be handed out first."""
        self._quiet_until = self._clock() + fetched.throttled_ms / 1000 if fetched.throttled_ms else 0.0
        if fetched.error:
            self._failed(link, fetched.error)
            return
        self._leaders.answered()
        self._strangers = 0
        self.told = fetched.first, fetched.stable if self._settings.committed else fetched.high_watermark
        octets = buffer[fetched.start : fetched.stop]
        batches = whole_batches(octets, checked=self._settings.checked)
        if not len(batches):
            self._buffers.give(buffer)
            self._enlarge(len(octets))
            self.end = self._decoded = self._position
            return
        start, position = self._position, int(batches[-1, BATCH_LAST]) + 1
        if position <= start:
            raise damaged(f"record batches before offset {start}, which was asked for")
        self._position, self._epoch_end, self._epoch = position, position, int(batches[-1, BATCH_EPOCH])
        self._note_epochs(batches)
        self._message_bytes = int(batches[-1, BATCH_STOP]) / (position - start)
        messages = batches[counted(batches, fetched.aborted if self._settings.committed else ())]
        self._pieces = pieces(octets, messages, start, position, buffer)  # before an error of what follows
        if position < stop and not fetched.throttled_ms:
            self._ask(link, stop - position)
        if not self._decode():
            self.end = self._decoded = position

    def _note_epochs(self, batches: Batches) -> None:
        epochs = batches[:, BATCH_EPOCH]
        for number in (0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist()):
            if not self._epochs or self._epochs[-1][1] != epochs[number]:
                self._epochs.append((int(batches[number, BATCH_FIRST]), int(epochs[number])))

    def _decode(self) -> bool:
        """Decodes the next batches of an answer; False where there are no more."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._held.add(piece.octets, piece.records, piece.buffer)
        if len(piece.records):
            self.last = int(piece.records.offsets[-1])
        self.end = self._decoded = piece.stop
        return True

    def _enlarge(self, size: int) -> None:
        """Asks for more the next time, where not even one batch was whole; a broker that does so is an old one."""
        if not size:
            return
        if self._portion >= self._settings.answer:
            raise damaged(
                f"a record batch is larger than {self._settings.answer:,} bytes", KafkaError.MSG_SIZE_TOO_LARGE
            )
        self._portion = min(2 * max(size, self._portion), self._settings.answer)

    def _failed(self, link: LeaderLink, code: int) -> None:
        error = KafkaError(code)
        words = f"{link.connection.name} answers to Fetch: {error.str()}"
        if code in OTHER_TOPIC:
            self._strangers += 1
        if code not in _PASSING and not (code in OTHER_TOPIC and self._strangers == 1):
            raise KafkaException(KafkaError(code, words))
        self._lost(words, code)

    def _lost(self, words: str, code: int = KafkaError._TRANSPORT) -> None:
        self._asked = self.told = None
        self._leaders.lost(words, code)

    def _prove_epoch(self, link: LeaderLink) -> None:
        """A new leader has what the last one had of its epoch; KafkaException where it has not."""
        link.version(requests.EPOCH_ENDS)
        answer = link.connection.ask(requests.epoch_end(self._source, link.epoch, self._epoch))
        failed, epoch, end = requests.read_epoch_end(answer)
        if failed in _PASSING:
            raise LostError(f"{link.connection.name}: {KafkaError(failed).str()}")
        if failed:
            raise KafkaException(KafkaError(failed))
        if epoch < 0 or end < self._epoch_end:
            words = f"the partition was truncated: epoch {self._epoch} ends at {end}, before offset {self._epoch_end}"
            raise KafkaException(KafkaError(KafkaError._LOG_TRUNCATION, words))
