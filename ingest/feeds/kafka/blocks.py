"""Messages of one partition, as their decoder sees them: objects here, framed without an object each in ``framed``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Protocol

import numpy as np

from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.encodings import to_utf8
from sparkhaven.ingest.spec.payload_formats import UTF8
from sparkhaven.ingest.spec.stream_spec import HEADER
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.typed_rows import Ints

MS = 1_000_000
Part = str
"""Which payload of a message: ``value``, ``key``, or ``header:NAME``."""
Headers = Sequence[tuple[str, bytes | None]]

_offset, _key, _value = methodcaller("offset"), methodcaller("key"), methodcaller("value")  # no Python frame a message


class Message(Protocol):
    """What is asked of a message: one that was read, or a row of the quarantine that was one."""

    def offset(self) -> int:
        """Its number in the partition."""

    def value(self) -> bytes | None:
        """Its value, None for a tombstone."""

    def key(self) -> bytes | None:
        """Its key."""

    def timestamp(self) -> tuple[int, int]:
        """Kind (0: it has none) and ms since the epoch."""

    def headers(self) -> Headers | None:
        """Names and values in order; None where there is none."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Values or keys as framed records numbered by offset; ``there`` says which messages have one, None: all."""

    block: LineBlock
    there: Mask | None = None


class Messages(Protocol):
    """Messages in the order of their offsets."""

    @property
    def offsets(self) -> Ints:
        """One a message."""

    def where(self, wanted: Mask) -> Messages:
        """Those that are wanted."""

    def at(self, offset: int) -> Message:
        """The message with an offset."""

    def value_at(self, offset: int) -> bytes:
        """The value of the message with an offset; empty if it has none."""

    def valued(self) -> Mask:
        """Which have a value."""

    def payloads(self, of: Part, encoding: str) -> Payloads:
        """Values or keys in UTF-8."""

    @property
    def times(self) -> Ints:
        """Timestamps in ms since 1970, -1 where there is none."""


@dataclass(frozen=True, slots=True)
class MessageBlock:
    """Messages that are objects."""

    messages: Sequence[Message]
    offsets: Ints

    @classmethod
    def of(cls, messages: Sequence[Message]) -> MessageBlock:
        return cls(messages, np.fromiter(map(_offset, messages), np.int64, len(messages)))

    def where(self, wanted: Mask) -> MessageBlock:
        return MessageBlock([self.messages[n] for n in np.flatnonzero(wanted).tolist()], self.offsets[wanted])

    def at(self, offset: int) -> Message:
        return self.messages[int(np.searchsorted(self.offsets, offset))]

    def value_at(self, offset: int) -> bytes:
        return self.at(offset).value() or b""

    def valued(self) -> Mask:
        return np.array([message.value() is not None for message in self.messages], np.bool_)

    def payloads(self, of: Part, encoding: str) -> Payloads:
        payload_of = {"value": _value, "key": _key}.get(of) or partial(header_of, name=of.removeprefix(HEADER))
        payloads: list[bytes | None] = list(map(payload_of, self.messages))
        if encoding != UTF8:
            payloads = [None if payload is None else to_utf8(payload, encoding) for payload in payloads]
        try:
            return Payloads(framed_block(payloads, self.offsets))
        except TypeError:  # a payload is None
            pass
        valid = np.array([payload is not None for payload in payloads], np.bool_)
        whole = [payload for payload in payloads if payload is not None]
        return Payloads(framed_block(whole, self.offsets[valid]), valid)

    @property
    def times(self) -> Ints:
        return np.fromiter(map(time_ms, self.messages), np.int64, len(self.messages))


def header_of(message: Message, name: str) -> bytes | None:
    """The value of the last header of a name; None if there is none."""
    values = [value for header, value in message.headers() or () if header == name]
    return values[-1] if values else None


def time_ms(message: Message) -> int:
    """When a message was made or taken, by the broker; -1 if it has no timestamp."""
    kind, at_ms = message.timestamp()
    return at_ms if kind and at_ms >= 0 else -1


def time_ns(message: Message) -> int | None:
    """When a message was made or taken, by the broker; None if it has no timestamp. A far one saturates."""
    at_ms = time_ms(message)
    return min(at_ms * MS, INSTANT_HIGH) if at_ms >= 0 else None


def far_times(times: Ints) -> Ints:
    """Indices of the timestamps that no Instant holds."""
    far: Ints = np.flatnonzero(times > INSTANT_HIGH // MS)
    return far
