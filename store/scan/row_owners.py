"""Which key of an index has each row of a location: every row must have one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
NO_KEY = np.iinfo(np.uint32).max
LONG = 64  # rows a range from which on ranges are taken one by one


class RowOwners:
    """The number of the key of each of ``rows`` rows, four bytes a row."""

    def __init__(self, rows: int) -> None:
        self._owners = np.full(rows, NO_KEY, np.uint32)

    def add(self, first: int, starts: Positions, stops: Positions, counts: Positions) -> int | None:
        """Takes the ranges of keys from number ``first`` on, ``counts`` of each.

        Returns the number of a range that is empty, not one of the location, or has a row that has a key; None: of
        none.
        """
        wrong = (starts < 0) | (stops <= starts) | (stops > len(self._owners))
        if wrong.any():
            return int(np.argmax(wrong))
        lengths = stops - starts
        if int(lengths.sum()) >= LONG * len(starts):
            return self._add_long(first, starts, stops, counts)
        before = np.cumsum(lengths) - lengths
        rows = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        numbers = np.repeat(np.repeat(np.arange(first, first + len(counts)), counts), lengths)
        taken = self._owners[rows] != NO_KEY
        self._owners[rows] = numbers
        taken |= self._owners[rows] != numbers
        return int(np.searchsorted(before, int(np.argmax(taken)), side="right")) - 1 if taken.any() else None

    def _add_long(self, first: int, starts: Positions, stops: Positions, counts: Positions) -> int | None:
        numbers = np.repeat(np.arange(first, first + len(counts), dtype=np.uint32), counts)
        apart = bool((starts[1:] >= stops[:-1]).all())  # then no row has two of these keys
        free = apart and len(starts) > 0 and bool((self._owners[starts[0] : stops[-1]] == NO_KEY).all())
        ranges = zip(starts.tolist(), stops.tolist(), numbers, strict=True)
        for index, (start, stop, number) in enumerate(ranges):
            rows = self._owners[start:stop]
            if not free and (rows != NO_KEY).any():
                return index
            rows[:] = number
        return None

    def missing(self) -> int | None:
        """The first row without a key; None: each has one."""
        without = self._owners == NO_KEY
        return int(np.argmax(without)) if without.any() else None

    def of(self, first: int, stop: int) -> npt.NDArray[np.uint32]:
        """The keys of some rows, by their numbers."""
        return self._owners[first:stop]
