"""Requests of our own as long as they can read a partition, then librdkafka, from where they have come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sparkhaven.ingest.feeds.kafka.broker.partition_client import PartitionClient
from sparkhaven.ingest.feeds.kafka.broker.wire.client import WireClient
from sparkhaven.ingest.feeds.kafka.broker.wire.settings import OtherClientError
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages

T = TypeVar("T")


class SwitchingClient:
    """A ``PartitionClient``; ``other`` makes the one that takes over, ``note`` is told why.

    ``own``: the requests of our own, as long as they read.
    """

    def __init__(
        self, own: WireClient, other: Callable[[], PartitionClient[FramedMessages]], note: Callable[[str], None]
    ) -> None:
        self.own: WireClient | None = own
        self._client: PartitionClient[FramedMessages] = own
        self._other, self._note = other, note

    @property
    def last(self) -> int:
        return self._client.last

    @property
    def end(self) -> int:
        return self._client.end

    def assign(self, offset: int, epoch: int = -1) -> None:
        self._client.assign(offset, epoch)

    def fetch(self, count: int, seconds: float) -> None:
        self._asked(lambda: self._client.fetch(count, seconds))

    def skip(self, start: int) -> bool:
        return self._client.skip(start)

    def take(self, stop: int, *, whole: bool) -> FramedMessages | None:
        return self._client.take(stop, whole=whole)

    def bounds(self, patience: float) -> tuple[int, int]:
        return self._asked(lambda: self._client.bounds(patience))

    def close(self) -> object:
        return self._client.close()

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except OtherClientError as reason:
            if self.own is None:
                raise
            self._note(str(reason))
            own, self.own, self._client = self.own, None, self._other()
            own.close()
            self._client.assign(own.first)
        return ask()
