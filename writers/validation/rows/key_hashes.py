"""Rows as hashes of 128 bits by their values in some columns, and how many rows each hash has, in bounded memory.

Values that are equal as group keys have one hash: one NaN, one zero, null apart from every value. The first word
of a single fixed-width column is a bijection of its value. What does not fit in memory is counted in several passes,
each over the hashes that begin with other bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from sparkhaven.writers.validation.rows.date_rows import CellBlock, Cells, Mask, RowSet, plain_decimal

Words = npt.NDArray[np.uint64]
Lanes = tuple[Words, Words]
_SEEDS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03))
_NULLS = (np.uint64(0x7A2D5C9E13B8F641), np.uint64(0x2C6F1E8B94D3A705))


def _mix(words: Any) -> Any:
    """The finaliser of splitmix64: a bijection on words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def plain(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers with one zero and one form of NaN, so that equal ones have equal bits."""
    if numbers.dtype.kind != "f":
        return numbers
    with np.errstate(invalid="ignore"):
        normal = numbers + numbers.dtype.type(0)
    normal[np.isnan(normal)] = np.nan
    normalized: npt.NDArray[Any] = normal
    return normalized


def lanes(cells: Cells) -> Lanes:
    """Two words a row."""
    if cells.numbers is None:
        words = (cells.results("low", lambda v: _hashed(v)[0]), cells.results("high", lambda v: _hashed(v)[1]))
        first, second = (words_of.astype(np.uint64, copy=True) for words_of in words)
    else:
        numbers = plain(cells.numbers)
        wide = numbers.astype(np.float64 if numbers.dtype.kind == "f" else np.int64).view(np.uint64)
        first, second = (_mix(wide ^ seed) for seed in _SEEDS)
    first[cells.null], second[cells.null] = _NULLS
    return first, second


def _hashed(values: list[Any]) -> tuple[Words, Words]:
    digests = [xxhash.xxh3_128_intdigest(_key_bytes(value)) for value in values]
    low = np.array([digest & 0xFFFFFFFFFFFFFFFF for digest in digests], np.uint64)
    return low, np.array([digest >> 64 for digest in digests], np.uint64)


def _key_bytes(value: Any) -> bytes:
    """Equal for equal values of a column: 1.0 is 1 as a decimal."""
    if isinstance(value, Decimal):
        value = plain_decimal(value)
    return (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")


def row_keys(block: CellBlock, names: Sequence[str]) -> Lanes:
    """Two words a row over several columns."""
    first, second = lanes(block.cells[names[0]])
    for name in names[1:]:
        low, high = lanes(block.cells[name])
        first, second = _mix(first * np.uint64(3) + low), _mix(second * np.uint64(5) + high)
    return first, second


@dataclass(frozen=True, slots=True)
class Counted:
    """Distinct hashes, in order of their words, and how many rows have each."""

    low: Words
    high: Words
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @staticmethod
    def of(parts: Sequence[Counted]) -> Counted:
        low, high, counts = (np.concatenate([getattr(p, n) for p in parts]) for n in ("low", "high", "counts"))
        order = np.lexsort((high, low))
        low, high, counts = low[order], high[order], counts[order]
        fresh = np.ones(len(low), bool)
        fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        starts = np.flatnonzero(fresh)
        return Counted(low[starts], high[starts], np.add.reduceat(counts, starts) if len(starts) else counts[:0])

    def beginning(self, prefix: int, bits: int) -> Counted:
        """Those whose first word begins with these bits."""
        if not bits:
            return self
        inside = self.low >> np.uint64(64 - bits) == np.uint64(prefix)
        return Counted(self.low[inside], self.high[inside], self.counts[inside])


_EMPTY = Counted(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
Feed = Callable[[], Iterator[Lanes]]


def feed(rows: RowSet, names: Sequence[str], attributes: Mapping[str, str] | None = None) -> Feed:
    """The hashes of all rows by the named columns, without those that the switches of a rule drop."""

    def run() -> Iterator[Lanes]:
        for block in rows.blocks(names):
            low, high = row_keys(block, names)
            if attributes:
                keep: Mask = block.kept(names, attributes)
                low, high = low[keep], high[keep]
            yield low, high

    return run


def counted(feeds: Sequence[Feed], limit: int) -> Iterator[tuple[Counted, ...]]:
    """The distinct hashes of each feed with their counts; every step has those of other first bits, for all feeds.

    In memory are about ``limit`` hashes a feed.
    """
    todo = [(0, 0)]  # first bits, and how many of them
    while todo:
        prefix, bits = todo.pop()
        done: list[Counted] = []
        for run in feeds:
            held = _Held(limit)
            for low, high in run():
                held.add(Counted(low, high, np.ones(len(low), np.int64)).beginning(prefix, bits))
                while held.full and bits < 48:
                    prefix, bits = prefix << 1, bits + 1
                    todo.append((prefix | 1, bits))
                    held.keep(prefix, bits)
                    done = [hashes.beginning(prefix, bits) for hashes in done]
            done.append(held.all())
        yield tuple(done)


class _Held:
    """Collects hashes; combines them when there are as many new ones as old."""

    def __init__(self, limit: int) -> None:
        self.limit, self._whole, self._new, self._waiting = limit, _EMPTY, list[Counted](), 0

    def add(self, hashes: Counted) -> None:
        self._new.append(Counted.of([hashes]))
        self._waiting += len(self._new[-1])
        if self._waiting >= max(len(self._whole), self.limit // 4):
            self._whole, self._new, self._waiting = self.all(), [], 0

    @property
    def full(self) -> bool:
        return len(self._whole) > self.limit

    def keep(self, prefix: int, bits: int) -> None:
        self._whole = self.all().beginning(prefix, bits)
        self._new, self._waiting = [], 0

    def all(self) -> Counted:
        return Counted.of([self._whole, *self._new]) if self._new else self._whole


def distinct(feed_: Feed, limit: int) -> int:
    """How many different hashes there are; see ``counted``."""
    return sum(len(hashes) for (hashes,) in counted([feed_], limit))
