"""Messages of one partition, as their decoder sees them: an object each, or framed.

Framed messages have no object each: payloads are framed records, offsets and times arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import methodcaller
from typing import Protocol

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True, slots=True)
class FramedMessage:
    """One of them, as the client hands it out."""

    at: int
    payload: bytes | None
    name: bytes | None
    time_ms: int
    named: Headers = ()

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.payload

    def key(self) -> bytes | None:
        return self.name

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self.time_ms < 0 else (1, self.time_ms)

    def headers(self) -> Headers:
        """Those that were wanted: the last of each name."""
        return self.named


@dataclass(frozen=True, slots=True)
class FramedPart:
    """Values, keys, or headers of a name: record r of ``data`` ends with a line feed before ``ends[r + 1]``.

    ``there`` says which messages have one, in their order.
    """

    data: bytes
    ends: npt.NDArray[np.int32]
    there: Mask

    def of(self, index: int) -> bytes | None:
        """That of one message."""
        if not self.there[index]:
            return None
        record = index if len(self.ends) > len(self.there) else int(np.count_nonzero(self.there[:index]))
        return self.data[self.ends[record] : self.ends[record + 1] - 1]


@dataclass(frozen=True, slots=True)
class FramedMessages:
    """Messages in order; ``times`` are ms since 1970, -1 for none. ``chosen`` are their indices in the parts.

    ``headers`` are those that somebody wants, by name: the last of each message.

    ``epoch``: of the leader that took the last one, -1 where it is not known.
    """

    offsets: Ints
    times: Ints
    values: FramedPart
    keys: FramedPart
    headers: Mapping[str, FramedPart] = field(default_factory=dict)
    chosen: Ints | None = None
    epoch: int = -1

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        """Bytes of all values and keys, chosen or not."""
        return len(self.values.data) + len(self.keys.data)

    def where(self, wanted: Mask) -> FramedMessages:
        """Those that are wanted; nothing is copied until their payloads are."""
        chosen = np.flatnonzero(wanted) if self.chosen is None else self.chosen[wanted]
        return replace(self, offsets=self.offsets[wanted], times=self.times[wanted], chosen=chosen)

    def at(self, offset: int) -> FramedMessage:
        index = int(np.searchsorted(self.offsets, offset))
        record = index if self.chosen is None else int(self.chosen[index])
        named = [(name, part.of(record)) for name, part in self.headers.items() if part.there[record]]
        return FramedMessage(offset, self.values.of(record), self.keys.of(record), int(self.times[index]), named)

    def value_at(self, offset: int) -> bytes:
        return self.at(offset).value() or b""

    def valued(self) -> Mask:
        valid = self.values.there
        return valid if self.chosen is None else valid[self.chosen]

    def payloads(self, of: Part, encoding: str) -> Payloads:
        """Those that are there, in UTF-8."""
        part = {"value": self.values, "key": self.keys}.get(of) or self.headers[of.removeprefix(HEADER)]
        chosen = np.arange(len(self.offsets)) if self.chosen is None else self.chosen
        valid = part.there[chosen]
        numbers = self.offsets if valid.all() else self.offsets[valid]
        if len(numbers) == len(part.ends) - 1:  # of all that have one none was left out
            block = LineBlock(part.data, part.ends, numbers, framed=True)
        else:
            records = (np.cumsum(part.there) - 1)[chosen[valid]]
            whole = LineBlock(part.data, part.ends, np.zeros(len(part.ends) - 1, np.int64), framed=True)
            block = replace(whole.picked(records), numbers=numbers)
        if encoding != UTF8:
            block = framed_block([to_utf8(block.line(n), encoding) for n in range(len(block))], numbers)
        return Payloads(block, None if len(numbers) == len(valid) else valid)
