"""Messages that were fetched and not handed out: where they are in what was received, until a block of them is full.

Payloads are copied once, into the bytes that decoders read; then the memory that they were received into is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from sparkhaven.ingest.feeds.kafka.framed import FramedMessages, FramedPart
from sparkhaven.ingest.feeds.kafka.options import ReadLimits
from sparkhaven.store.native.record_batches import Longs, Octets, Records, find_headers, framed


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


class HeldMessages:
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
