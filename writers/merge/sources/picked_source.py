"""A column of a source of which a merge leaves rows out: those that are kept, numbered without gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.types.row_ranges import Positions, RowRanges
from sparkhaven.writers.merge.sources.block_sizes import SIZES
from sparkhaven.writers.merge.sources.merge_source import ALL, ColumnSource, MergeSource, Pick
from sparkhaven.writers.merge.sources.sort_keys import picked


class PickedSource(ColumnSource):
    """Reads the kept rows from ``whole``, which has all of them, a window of rows at a time."""

    def __init__(self, whole: ColumnSource, source: MergeSource, kept: RowRanges) -> None:
        self.fs, self.source, self.column = whole.fs, source, whole.column
        self._whole, self._kept = whole, kept
        self._ends = np.cumsum(kept.stops - kept.starts)

    @property
    def absent(self) -> bool:
        return self._whole.absent

    @property
    def as_stored(self) -> bool:
        return False

    @property
    def region(self) -> None:
        return None

    @property
    def encoding(self) -> str | None:
        return self._whole.encoding

    def symbols(self) -> pa.Array:
        return self._whole.symbols()

    def symbol_parts(self, size: int, most: int = SIZES.symbols) -> Iterator[tuple[int, pa.Array]]:
        return self._whole.symbol_parts(size, most)

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        return self._joined(self._whole.entries, first, stop)

    def ids(self, first: int, stop: int, symbols: int, pick: Pick = ALL) -> npt.NDArray[np.int32]:
        ids: npt.NDArray[np.int32] = self._joined(lambda low, high: self._whole.ids(low, high, symbols), first, stop)
        return ids[pick]

    def ends(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Ends of the encoded values of rows ``[first, stop)``, counted from 0, with the 0 before the first."""
        values = self.blobs(first, stop)
        return np.frombuffer(values.buffers()[1], np.int64, values.offset + len(values) + 1)[values.offset :]

    def blobs(self, first: int, stop: int) -> pa.Array:
        parts = [picked(self._whole.blobs(low, high), rows) for low, high, rows in self._windows(first, stop)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())

    def texts(self, first: int, stop: int) -> pa.Array:
        parts = [picked(self._whole.texts(low, high), rows) for low, high, rows in self._windows(first, stop)]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())

    def _joined(self, read: Callable[[int, int], npt.NDArray[Any]], first: int, stop: int) -> npt.NDArray[Any]:
        parts = [read(low, high)[rows] for low, high, rows in self._windows(first, stop)]
        return np.concatenate(parts) if parts else read(self.source.start, self.source.start)

    def _windows(self, first: int, stop: int) -> Iterator[tuple[int, int, Positions]]:
        """The kept rows numbered ``[first, stop)``: rows ``[low, high)`` of the location, and the kept ones of them."""
        if first >= stop:
            return
        start = self.source.start
        part = self._kept.within(self._row(first - start), self._row(stop - 1 - start) + 1)
        while len(part):
            low = part.start
            window = part.within(low, low + SIZES.rows)
            yield low, window.stop, window.positions - low
            part = part.within(window.stop, part.stop)

    def _row(self, number: int) -> int:
        """The row of the location that is the ``number``-th of those that are kept."""
        index = int(np.searchsorted(self._ends, number, side="right"))
        return int(self._kept.stops[index] - (self._ends[index] - number))
