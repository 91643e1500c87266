"""The readers of this process: kept from one batch to the next, and each of them used by one stream at a time."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter

from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.store.epochs.state.log_values import OffsetRange

MOST = 8


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a reader is for: a forked worker must not use the connections of its parent."""

    process: int
    feed: KafkaOptions
    headers: tuple[str, ...]


class ReaderPool:
    """Readers with their connections, those that were used last.

    Streams of one process may read the same topic at the same time, each from where it stands. ``most`` are kept while
    nobody uses them.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._free: deque[tuple[_Kind, KafkaReader]] = deque()

    @contextmanager
    def lease(
        self, feed: KafkaOptions, ranges: Sequence[OffsetRange], *, headers: Sequence[str] = ()
    ) -> Iterator[KafkaReader]:
        """A reader that nobody else has meanwhile, one that goes on with the ranges if there is one.

        Messages have the ``headers`` of these names. SettingsError for settings that the client refuses.
        """
        kind = _Kind(os.getpid(), feed, tuple(headers))
        reader = self._take(kind, ranges, least=0) or KafkaReader(feed, headers=headers)
        try:
            yield reader
        finally:
            self._give(kind, reader)

    @contextmanager
    def lease_of(self, feed: KafkaOptions, ranges: Sequence[OffsetRange]) -> Iterator[KafkaReader | None]:
        """The reader that goes on with some of the ranges; None where no such reader is free."""
        kind = _Kind(os.getpid(), feed, ())
        reader = self._take(kind, ranges, least=1)
        try:
            yield reader
        finally:
            if reader is not None:
                self._give(kind, reader)

    def compare(self, feed: KafkaOptions, ranges: Sequence[OffsetRange]) -> None:
        """Compares the messages that were read before these ranges. Raises what ``KafkaReader.compare`` raises."""
        if not ranges:
            return
        with self.lease(feed, ranges) as reader:
            for wanted in ranges:
                reader.compare(wanted)

    def close(self) -> None:
        """Closes the readers that nobody uses."""
        with self._lock:
            free, self._free = self._free, deque()
        for kind, reader in free:
            if kind.process == os.getpid():
                reader.close()

    def _take(self, kind: _Kind, ranges: Sequence[OffsetRange], least: int) -> KafkaReader | None:
        """The reader that goes on with most of the ranges, with so many at least."""
        with self._lock:
            free = [(_going_on(reader, ranges), reader) for other, reader in self._free if other == kind]
            count, chosen = max(free, key=itemgetter(0), default=(-1, None))
            if count < least:
                return None
            self._free = deque(pair for pair in self._free if pair[1] is not chosen)
            return chosen

    def _give(self, kind: _Kind, reader: KafkaReader) -> None:
        with self._lock:
            self._free.append((kind, reader))
            old = self._free.popleft() if len(self._free) > self._most else None
        if old is not None and old[0].process == kind.process:
            old[1].close()


def _going_on(reader: KafkaReader, ranges: Sequence[OffsetRange]) -> int:
    """How many of the ranges a reader goes on with."""
    return sum(reader.stands_at(wanted.topic, wanted.partition, wanted.start) for wanted in ranges)


KEPT = ReaderPool()
"""Those of this process."""
