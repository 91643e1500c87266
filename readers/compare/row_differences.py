"""Rows that one of two sets of slices has more often than the other, by hashes of whole rows.

A date is read in passes over parts of the hashes, so memory is bounded however many rows it has. A second read names
the rows, a bounded number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sparkhaven.readers.arrow.cell_values import cell_values
from sparkhaven.readers.compare.snapshot_digests import SnapshotDigests
from sparkhaven.store.native.digests import Hashes
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.row_ranges import Positions

PASS_ROWS = 1 << 25  # hashes in memory at once, of each side
Side = Literal["here", "there"]


@dataclass(frozen=True, slots=True)
class DifferentRow:
    """A row that one side has, or has more often. ``row`` is its number in the location of its source."""

    side: Side
    date: str
    source: str
    row: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowSet:
    """Slices of one side, whose columns are in the same order on both sides."""

    side: Side
    digests: SnapshotDigests
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        return sum(slice_.count for slice_ in self.slices)

    def hashed(self) -> Iterator[tuple[Slice, Positions, list[pa.Array], Hashes]]:
        """Batches of rows: slice, numbers of its rows from there on, arrays of the columns, hashes of the rows."""
        for slice_ in self.slices:
            rows, done = slice_.chosen.positions if slice_.selected is not None else None, 0
            for arrays in self.digests.arrays(slice_):
                hashes = self.digests.hashes(arrays)
                numbers = np.arange(done, done + len(hashes)) + slice_.start if rows is None else rows[done:]
                yield slice_, numbers, arrays, hashes
                done += len(hashes)


def row_differences(
    here: RowSet, there: RowSet, limits: tuple[int, int], pass_rows: int = PASS_ROWS
) -> tuple[int, int, list[DifferentRow]]:
    """How many rows only one side has, here and there, and those within ``limits`` by name."""
    passes = max(here.rows, there.rows) // pass_rows + 1
    counts, named = [0, 0], list[DifferentRow]()
    extras: list[list[tuple[Hashes, np.ndarray[Any, Any]]]] = [[], []]
    for part in range(passes):
        net, hashes = _net(_collected(here, part, passes), _collected(there, part, passes))
        for side, sign in enumerate((1, -1)):
            chosen = net * sign > 0
            counts[side] += int(net[chosen].sum()) * sign
            kept = sum(len(extra) for extra, _ in extras[side])
            if chosen.any() and kept < limits[side]:
                extras[side].append((hashes[chosen][: limits[side]], np.abs(net[chosen][: limits[side]])))
    for row_set, extra, limit in zip((here, there), extras, limits, strict=True):
        named += _named(row_set, extra, limit)
    return counts[0], counts[1], named


def _collected(row_set: RowSet, part: int, passes: int) -> Hashes:
    parts = [hashes[hashes % np.uint64(passes) == part] if passes > 1 else hashes for *_, hashes in row_set.hashed()]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _net(here: Hashes, there: Hashes) -> tuple[np.ndarray[Any, Any], Hashes]:
    """How often more each hash is here than there, and the hashes."""
    (mine, counts), (theirs, others) = (np.unique(hashes, return_counts=True) for hashes in (here, there))
    hashes, inverse = np.unique(np.concatenate((mine, theirs)), return_inverse=True)
    net = np.zeros(len(hashes), np.int64)
    np.add.at(net, inverse, np.concatenate((counts, -others)))
    return net, hashes


def _named(row_set: RowSet, extra: Sequence[tuple[Hashes, np.ndarray[Any, Any]]], limit: int) -> list[DifferentRow]:
    wanted = {int(key): int(count) for hashes, counts in extra for key, count in zip(hashes, counts, strict=True)}
    named: list[DifferentRow] = []
    if not wanted:
        return named
    sought = np.array(sorted(wanted), np.uint64)
    for slice_, numbers, arrays, hashes in row_set.hashed():
        for row in np.flatnonzero(np.isin(hashes, sought)).tolist():
            key = int(hashes[row])
            if wanted[key] and len(named) < limit:
                wanted[key] -= 1
                columns = zip(row_set.digests.columns, arrays, strict=True)
                values = {column.name: cell_values(array[row : row + 1])[0] for column, array in columns}
                where = slice_.key.value, slice_.key.internal, int(numbers[row])
                named.append(DifferentRow(row_set.side, *where, values))
        if len(named) == limit or not any(wanted.values()):
            break
    return named
