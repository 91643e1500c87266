"""A range reader over consumers that play a script, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kafka.errors import KafkaError

from sparkhaven.ingest.feeds.kafka.broker.errors import Troubles, recreated
from sparkhaven.ingest.feeds.kafka.broker.reader import WAIT_SECONDS, MessageRangeReader
from sparkhaven.ingest.feeds.kafka.options import ClientSettings, KafkaOptions, ReadLimits
from sparkhaven.store.epochs.state.log_values import LastMessage, OffsetRange

FEED = KafkaOptions("nowhere:1", ("ticks",), client=ClientSettings((("sasl.password", "tiger"),)))


@dataclass
class Script:
    """What consumers bring: the offsets of each fetch, an error, or an end (by its negative). ``now`` is the time.

    A function is called, and brings nothing.
    """

    fetches: list[list[int] | KafkaError | Callable[[], None]] = field(default_factory=list)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    bounds: tuple[int, int] | KafkaError = (0, 100)
    now: float = 0.0
    passes: float = 0.0  # with each fetch
    crc: int = 1  # of all messages


class Client:
    """A consumer that plays a script."""

    def __init__(self, script: Script, topic: str, partition: int) -> None:
        self._script, self._name, self.last, self.end = script, f"{topic}/{partition}", -1, -1
        self._held: list[int] = []
        self._note("open")

    def _note(self, *call: object) -> None:
        self._script.calls.append((self._name, *call))

    def assign(self, offset: int, epoch: int = -1) -> None:
        self._note("assign", offset)
        self._held, self.last, self.end = [], -1, -1

    def fetch(self, count: int, seconds: float) -> None:
        self._note("fetch", count)
        assert seconds == WAIT_SECONDS
        self._script.now += self._script.passes
        found = self._script.fetches.pop(0) if self._script.fetches else []
        if callable(found):
            found()
            found = []
        if isinstance(found, KafkaError):
            raise found
        for at in found:
            if at < 0:
                self.end = -at
            else:
                self._held.append(at)
                self.last = at

    def skip(self, start: int) -> bool:
        self._note("skip", start)
        left = [at for at in self._held if at >= start]
        if left:
            self._held = left
        return bool(left)

    def take(self, stop: int, *, whole: bool) -> list[int] | None:
        if not whole and len(self._held) < 3:
            return None
        found = [at for at in self._held if at < stop]
        self._held = self._held[len(found) :]
        return found or None

    def bounds(self, patience: float) -> tuple[int, int]:
        self._note("bounds", patience)
        if isinstance(self._script.bounds, KafkaError):
            raise self._script.bounds
        return self._script.bounds

    def close(self) -> None:
        self._note("close")


class Reader(MessageRangeReader[list[int]]):
    """Of offsets. ``ids``: those of topics now, and how often they were asked for."""

    def __init__(self, script: Script, **limits: int) -> None:
        super().__init__(replace(FEED, limits=ReadLimits(**limits)), patience=10.0, clock=lambda: script.now)
        self.script = script
        self.ids: dict[str, str] = {}
        self.asked = 0

    def _open(self, wanted: OffsetRange) -> Client:
        return Client(self.script, wanted.topic, wanted.partition)

    def _prove(self, wanted: OffsetRange) -> None:
        self.asked += 1
        if self.ids[wanted.topic] != wanted.topic_id:
            raise recreated(wanted.topic, wanted.topic_id, self.ids[wanted.topic])

    def _last(self, some: list[int]) -> LastMessage:
        return LastMessage(some[-1], -1, -1, self.script.crc)

    @property
    def troubles(self) -> Troubles:
        return self._troubles

    def called(self) -> list[tuple[object, ...]]:
        """The calls since this was asked last."""
        found, self.script.calls = self.script.calls, []
        return found


def wanted(start: int, stop: int, topic: str = "t", topic_id: str = "") -> OffsetRange:
    return OffsetRange(topic, 0, start, stop, topic_id)


def offsets(reader: Reader, *given: object, **more: str) -> list[list[int]]:
    return list(reader.read(wanted(*given, **more)))  # type: ignore[arg-type]
