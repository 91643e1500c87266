"""Entries in another order by moves, window by window: by the compiled core, else by numpy.

In one order after the other, entries are taken from all over the column, and nearly each waits for the memory. A window
has rows that fit the processor's cache: the same part of each source, since sources are often in about the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core

WINDOW = 1 << 16  # rows
SHIFT = 8  # bits of a row's number that do not matter for its window
Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Moves:
    """Entry ``origins[i]`` goes to place ``places[i]``."""

    origins: Rows
    places: Rows

    def __len__(self) -> int:
        return len(self.origins)


def windows_of(sizes: Sequence[int], window: int = WINDOW) -> npt.NDArray[np.uint16]:
    """The window of each block of ``1 << SHIFT`` rows, of sources with so many rows one behind the other.

    The windows of a source ascend from 1 on. Blocks that have rows of several sources are in window 0.
    """
    rows = sum(sizes)
    count = min(max(1, -(-rows // window)), (1 << 16) - 1)
    stops, lengths = np.cumsum(np.array([*sizes, 1], np.int64)), np.array([*sizes, 1], np.int64)
    blocks = np.arange(0, rows + 1, 1 << SHIFT, dtype=np.int64)
    source = np.searchsorted(stops, blocks, side="right").clip(max=len(sizes))
    last = np.searchsorted(stops, np.minimum(blocks + (1 << SHIFT) - 1, max(rows - 1, 0)), side="right")
    first = blocks - (stops[source] - lengths[source])
    windows = (first * count // lengths[source]).clip(max=count - 1) + 1
    return np.where(source < last, 0, windows).astype(np.uint16)


def plan_moves(order: Rows, windows: npt.NDArray[np.uint16]) -> Moves:
    """The moves that put ``entries[order[i]]`` to place i. IndexError: an index is beyond the windows."""
    library = core()
    if library is None or not order.flags.c_contiguous:
        return plain_plan_moves(order, windows)
    moves = Moves(np.empty(len(order), np.uint32), np.empty(len(order), np.uint32))
    starts = np.empty(int(windows.max()) + 1, np.int64)
    by_window = address(windows), len(windows), SHIFT, address(starts), len(starts)
    if library.sh_plan_moves(
        address(order), len(order), *by_window, address(moves.origins), address(moves.places)
    ) != len(order):
        raise IndexError(f"an index is beyond {len(windows)} blocks")
    return moves


def plain_plan_moves(order: Rows, windows: npt.NDArray[np.uint16]) -> Moves:
    by_window = np.argsort(windows[order >> np.uint32(SHIFT)], kind="stable").astype(np.uint32)
    return Moves(order[by_window], by_window)


def move(entries: npt.NDArray[Any], moves: Moves, out: npt.NDArray[Any]) -> None:
    """Puts entries into their places. IndexError: an origin or a place is out of range."""
    library = core()
    arrays = entries, moves.origins, moves.places, out
    if library is None or not all(array.flags.c_contiguous for array in arrays):
        plain_move(entries, moves, out)
        return
    by_moves = address(moves.origins), address(moves.places), len(moves)
    width = entries.dtype.itemsize
    if library.sh_move(address(entries), width, len(entries), *by_moves, address(out), len(out)) != len(moves):
        raise IndexError(f"an index is not below {len(entries)}, or a place not below {len(out)}")


def plain_move(entries: npt.NDArray[Any], moves: Moves, out: npt.NDArray[Any]) -> None:
    out[moves.places] = entries[moves.origins]
