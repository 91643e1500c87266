"""Rows of a location as ranges: ascending, not empty, and none touches the next."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """The rows ``[starts[i], stops[i])``."""

    starts: Positions
    stops: Positions

    @staticmethod
    def one(start: int, stop: int) -> RowRanges:
        return RowRanges.of([(start, stop)] if start < stop else [])

    @staticmethod
    def of(pairs: Iterable[tuple[int, int]]) -> RowRanges:
        """From pairs in any order, which may overlap or touch."""
        table = np.array(list(pairs), np.int64).reshape(-1, 2)
        return RowRanges.joined(table[:, 0], table[:, 1])

    @staticmethod
    def joined(starts: Positions, stops: Positions) -> RowRanges:
        """From ranges in any order, none of them empty, which may overlap or touch."""
        if len(starts) < 2:
            return RowRanges(starts, stops)
        if not bool((starts[1:] > stops[:-1]).all()):
            order = np.argsort(starts, kind="stable")
            starts, reach = starts[order], np.maximum.accumulate(stops[order])
            fresh = np.concatenate((np.ones(1, np.bool_), starts[1:] > reach[:-1]))
            starts, stops = starts[fresh], reach[np.concatenate((fresh[1:], np.ones(1, np.bool_)))]
        return RowRanges(starts, stops)

    @staticmethod
    def at(positions: Positions) -> RowRanges:
        """From row positions in ascending order, each once."""
        breaks = np.flatnonzero(np.diff(positions) != 1)
        firsts = np.concatenate((np.zeros(min(1, len(positions)), np.int64), breaks + 1))
        lasts = np.concatenate((breaks, np.full(min(1, len(positions)), len(positions) - 1)))
        return RowRanges(positions[firsts], positions[lasts] + 1)

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowRanges):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.stops, other.stops)

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.stops.tobytes()))

    @property
    def rows(self) -> int:
        return int((self.stops - self.starts).sum())

    @property
    def crc(self) -> int:
        """Which rows these are, in a number: CRC-32 of first row and row after the last of each range; 0 for none."""
        return zlib.crc32(np.stack((self.starts, self.stops), axis=1).astype("<i8").tobytes())

    @property
    def start(self) -> int:
        """The first row; there must be one."""
        return int(self.starts[0])

    @property
    def stop(self) -> int:
        return int(self.stops[-1])

    @property
    def edges(self) -> list[int]:
        """First row and row after the last of each range, in turn."""
        edges: list[int] = np.stack((self.starts, self.stops), axis=1).reshape(-1).tolist()
        return edges

    @property
    def positions(self) -> Positions:
        lengths = self.stops - self.starts
        before = np.cumsum(lengths) - lengths
        rows: Positions = np.arange(self.rows, dtype=np.int64) + np.repeat(self.starts - before, lengths)
        return rows

    def within(self, start: int, stop: int) -> RowRanges:
        """The rows of ``[start, stop)``; none where that is empty."""
        if start >= stop:
            return RowRanges.of(())
        low = int(np.searchsorted(self.stops, start, side="right"))
        high = int(np.searchsorted(self.starts, stop, side="left"))
        return RowRanges(np.maximum(self.starts[low:high], start), np.minimum(self.stops[low:high], stop))

    def union(self, other: RowRanges) -> RowRanges:
        starts, stops = (np.concatenate(pair) for pair in ((self.starts, other.starts), (self.stops, other.stops)))
        return RowRanges.joined(starts, stops)

    def intersection(self, other: RowRanges) -> RowRanges:
        few, many = (self, other) if len(self) <= len(other) else (other, self)
        low = np.searchsorted(many.stops, few.starts, side="right")
        counts = np.searchsorted(many.starts, few.stops, side="left") - low
        own = np.repeat(np.arange(len(few)), counts)
        partner = np.arange(len(own)) + np.repeat(low - (np.cumsum(counts) - counts), counts)
        return RowRanges(
            np.maximum(few.starts[own], many.starts[partner]), np.minimum(few.stops[own], many.stops[partner])
        )

    def outside(self, start: int, stop: int) -> RowRanges:
        """The rows of ``[start, stop)`` that are not among these."""
        inner = self.within(start, stop)
        starts = np.concatenate((np.array([start], np.int64), inner.stops))
        stops = np.concatenate((inner.starts, np.array([stop], np.int64)))
        filled = starts < stops
        return RowRanges(starts[filled], stops[filled])

    def closed(self, few: int) -> RowRanges:
        """These rows and those between two ranges where they are ``few`` at most."""
        if len(self) < 2:
            return self
        apart = self.starts[1:] - self.stops[:-1] > few
        first, last = np.ones(1, np.bool_), np.ones(1, np.bool_)
        return RowRanges(self.starts[np.concatenate((first, apart))], self.stops[np.concatenate((apart, last))])

    def bits_among(self, others: RowRanges) -> bytes:
        """A bit for each row of ``others``, in their order: whether it is one of these, which are all among them.

        The lowest bit of a byte comes first.
        """
        lengths = others.stops - others.starts
        before = np.cumsum(lengths) - lengths
        shift = (before - others.starts)[np.searchsorted(others.starts, self.starts, side="right") - 1]
        steps = np.zeros(others.rows + 1, np.int8)
        steps[self.starts + shift] += 1
        steps[self.stops + shift] -= 1
        return np.packbits(np.cumsum(steps[:-1], dtype=np.int8), bitorder="little").tobytes()

    def steps(self, rows: int) -> Iterator[RowRanges]:
        """These rows in parts of so many, the last one of fewer."""
        ends = np.cumsum(self.stops - self.starts)
        total = self.rows
        if total <= rows:
            yield self
            return
        for first in range(0, total, rows):
            last = min(first + rows, total)
            yield self.within(self._row(ends, first), self._row(ends, last - 1) + 1)

    def _row(self, ends: npt.NDArray[Any], number: int) -> int:
        """The row of that number among these."""
        index = int(np.searchsorted(ends, number, side="right"))
        return int(self.stops[index] - (ends[index] - number))


NO_ROWS = RowRanges.of(())
