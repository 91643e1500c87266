"""Entries from files to their places, window by window, each is read once, and touched while the
processor's cache has it.

What is moved is what is digested and summed: no file is looked at a second time.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.abi import (
    FixedLayout,
    MovesLayout,
    RankedLayout,
    StretchLayout,
    TableLayout,
    WindowsLayout,
)
from sparkhaven.store.native.digests import FixedEntries, Sum
from sparkhaven.store.native.library import address, core
from sparkhaven.store.native.rows import SHIFT, WINDOW, Moves, windows_of

_STRETCH, _MOVES, _TABLE = np.dtype(StretchLayout), np.dtype(MovesLayout), np.dtype(TableLayout)
_WINDOWS, _FIXED, _RANKED = np.dtype(WindowsLayout), np.dtype(FixedLayout), np.dtype(RankedLayout)
Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class FileRegion:
    """Where the entries of a source lie: in a file, from a byte on."""

    path: Path
    offset: int


@dataclass(frozen=True, slots=True)
class RankedIds:
    """The ranks of each source's ids, the last that of the null, and a count for each rank, the last for null."""

    tables: Sequence[Ids]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlacedEntries:
    """CRC-32 of what was read of each source. Of fixed entries the sum of their hashes, and how many are null."""

    crcs: list[int]
    sum: Sum


@dataclass(frozen=True, slots=True)
class WindowStretches:
    """How sources of some sizes are read: ``stretches`` one after the other, each into the rows of its window.

    ``shifts``: what is added to the number of a row of a block for its place there. ``rows``: those of the largest
    window. A source has two checksums: of its rows up to the last block, and of those that this has of it (``tails``).
    """

    windows: npt.NDArray[np.uint16]
    shifts: npt.NDArray[np.uint32]
    stretches: npt.NDArray[Any]
    firsts: npt.NDArray[np.int64]
    rows: int
    tails: npt.NDArray[np.int64]


@lru_cache(maxsize=4)
def stretches_of(sizes: tuple[int, ...]) -> WindowStretches:
    """The stretches of sources with so many rows."""
    windows, rows = windows_of(sizes), sum(sizes)
    stops = np.cumsum(np.array(sizes, np.int64))
    changes = (np.flatnonzero(np.diff(windows)) + 1) << SHIFT
    begins = np.sort(np.concatenate((np.zeros(1, np.int64), changes, stops)))
    begins = begins[np.diff(begins, append=rows) > 0]  # the last of equal ones; none behind the rows
    counts = np.diff(np.append(begins, rows))
    source = np.searchsorted(stops, begins, side="right")
    firsts = begins - (stops[source] - np.array(sizes, np.int64)[source])
    window = windows[begins >> SHIFT].astype(np.int64)
    order = np.argsort(window, kind="stable")
    ends = np.cumsum(counts[order])
    fresh = np.flatnonzero(np.diff(window[order], prepend=-1))
    before = np.repeat((ends - counts[order])[fresh], np.diff(np.append(fresh, len(order))))
    held_from = np.empty(len(order), np.int64)
    held_from[order] = ends - counts[order] - before
    tail = (window == 0) & (firsts > 0)
    tails = np.bincount(source[tail], counts[tail], len(sizes)).astype(np.int64)
    blocks = np.arange(len(windows), dtype=np.int64) << SHIFT
    held = np.searchsorted(begins, blocks, side="right") - 1
    shifts = ((held_from - begins)[held] & 0xFFFFFFFF).astype(np.uint32)
    stretches = np.zeros(len(order), _STRETCH)
    stretches["rows"], stretches["window"], stretches["source"] = counts[order], window[order], source[order]
    stretches["sum"] = (source + np.where(tail, len(sizes), 0))[order]
    most = int((held_from + counts).max(initial=0))
    return WindowStretches(windows, shifts, stretches, firsts[order], most, tails)


def is_possible(sizes: Sequence[int]) -> bool:
    """Whether blocks with rows of several sources are fewer than a window has."""
    return len(sizes) << SHIFT <= WINDOW


def place_files(
    fs: Fs,
    regions: Sequence[FileRegion | None],
    sizes: Sequence[int],
    moves: Sequence[Moves],
    entries: FixedEntries | RankedIds,
    out: npt.NDArray[Any],
) -> PlacedEntries | None:
    """Puts entries of files with so many rows into their places in ``out``, which has one for each move.

    A file without rows may be None. The places of moves are counted from where those of the moves before end. None, in
    doubt: a file cannot be read or is shorter, an id is in no table, a move has no place. ``out`` and
    counts then have anything.
    """
    library = core()
    plan, width = stretches_of(tuple(sizes)), out.dtype.itemsize
    stretches = plan.stretches.copy()
    sums, total = np.zeros(2 * len(sizes), np.uint32), np.zeros(2, np.uint64)
    room = np.empty(plan.rows * width, np.uint8)
    jobs, low = np.zeros(len(moves), _MOVES), 0
    for job, part in zip(jobs, moves, strict=True):
        target = out[low : low + len(part)]
        job["origins"], job["places"], job["out"] = address(part.origins), address(part.places), address(target)
        job["count"] = job["room"] = len(part)
        low += len(part)
    windows = np.array([(address(plan.windows), address(plan.shifts), len(plan.windows), SHIFT)], _WINDOWS)
    tables, fixed, ranked = np.zeros(0, _TABLE), None, None
    if isinstance(entries, FixedEntries):
        fixed = np.array([(entries.prefix_bits, entries.null_bits, entries.kind)], _FIXED)
    else:
        tables = np.array([(address(table), len(table)) for table in entries.tables], _TABLE)
        ranked = np.array([(address(tables), address(entries.counts), len(entries.counts))], _RANKED)
    used = {index: region for index, region in enumerate(regions) if region is not None}
    paths = [region.path for region in used.values()]
    try:
        with fs.descriptors(paths) as files:
            by_source, offsets = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
            by_source[list(used)], offsets[list(used)] = files, [region.offset for region in used.values()]
            stretches["file"] = by_source[stretches["source"]]
            stretches["offset"] = offsets[stretches["source"]] + plan.firsts * width
            arguments = (
                *(address(stretches), len(stretches), address(jobs), len(jobs), address(windows)),
                *(None if array is None else address(array) for array in (fixed, ranked)),
                *(width, address(room), len(room) // width, address(sums), address(total)),
            )
            nulls = fs.read_together([str(path) for path in paths], lambda: library.sh_place_files(*arguments))
    except OSError:  # whoever opens the file by itself says why
        return None
    if nulls < 0:
        return None
    crcs = [_joined(*pair) for pair in zip(sums[: len(sizes)], sums[len(sizes) :], plan.tails * width, strict=True)]
    return PlacedEntries(crcs, (int(total[1]) << 64 | int(total[0]), int(nulls)))


def _joined(crc: int, behind: int, size: int) -> int:
    """The CRC-32 of bytes, and of ``size`` more that have the CRC-32 ``behind``."""
    zeros = bytes(int(size))
    return zlib.crc32(zeros, int(crc)) ^ zlib.crc32(zeros) ^ int(behind)
