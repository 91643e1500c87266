"""Messages of one partition, as their decoder sees them: payloads are framed records, offsets and times arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sparkhaven.ingest.content.lines import LineBlock, framed_block
from sparkhaven.ingest.encodings import to_utf8
from sparkhaven.ingest.spec import HEADER, UTF8
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.typed_rows import Ints

MS = 1_000_000
Part = str
"""Which payload of a message: ``value``, ``key``, or ``header:NAME``."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or a row of the quarantine that was one. ``value`` None: a tombstone.

    ``time_ms``: since the epoch, when it was made or taken by the broker; -1: it has no timestamp. ``headers``:
    those that were wanted, the last of each name.
    """

    offset: int
    value: bytes | None
    key: bytes | None
    time_ms: int
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def time_ns(self) -> int | None:
        """None if it has no timestamp. A far one saturates."""
        return min(self.time_ms * MS, INSTANT_HIGH) if self.time_ms >= 0 else None


@dataclass(frozen=True, slots=True)
class Payloads:
    """Values or keys as framed records numbered by offset; ``there`` says which messages have one, None: all."""

    block: LineBlock
    there: Mask | None = None


def far_times(times: Ints) -> Ints:
    """Indices of the timestamps that no Instant holds."""
    far: Ints = np.flatnonzero(times > INSTANT_HIGH // MS)
    return far


@dataclass(frozen=True, slots=True)
class FramedPart:
    """Values, keys, or headers of a name: record r of ``data`` ends with a line feed before ``ends[r + 1]``.

    ``there`` says which messages have one, in their order.
    """

    data: bytes
    ends: npt.NDArray[np.int32]
    there: Mask

    @classmethod
    def made(cls, payloads: Sequence[bytes | None]) -> FramedPart:
        """Those of some messages."""
        whole = [payload for payload in payloads if payload is not None]
        block = framed_block(whole, np.arange(len(whole)))
        return cls(block.data, block.ends, np.array([payload is not None for payload in payloads], np.bool_))

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

    @classmethod
    def made(cls, messages: Sequence[Message], headers: Sequence[str] = ()) -> FramedMessages:
        """A block of messages in the order of their offsets, with the headers of these names."""
        offsets, times = ([getattr(message, of) for message in messages] for of in ("offset", "time_ms"))
        return cls(
            np.array(offsets, np.int64),
            np.maximum(np.array(times, np.int64), -1),
            FramedPart.made([message.value for message in messages]),
            FramedPart.made([message.key for message in messages]),
            {name: FramedPart.made([message.headers.get(name) for message in messages]) for name in headers},
        )

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

    def at(self, offset: int) -> Message:
        """The message with an offset."""
        index = int(np.searchsorted(self.offsets, offset))
        record = index if self.chosen is None else int(self.chosen[index])
        named = {name: value for name, part in self.headers.items() if (value := part.of(record)) is not None}
        return Message(offset, self.values.of(record), self.keys.of(record), max(int(self.times[index]), -1), named)

    def value_at(self, offset: int) -> bytes:
        """The value of the message with an offset; empty if it has none."""
        return self.at(offset).value or b""

    def valued(self) -> Mask:
        """Which have a value."""
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
            wanted = np.zeros(len(part.ends) - 1, np.bool_)
            wanted[(np.cumsum(part.there) - 1)[chosen[valid]]] = True
            whole = LineBlock(part.data, part.ends, np.zeros(len(wanted), np.int64), framed=True)
            block = replace(whole.where(wanted), numbers=numbers)
        if encoding != UTF8:
            block = framed_block([to_utf8(block.line(n), encoding) for n in range(len(block))], numbers)
        return Payloads(block, None if len(numbers) == len(valid) else valid)
