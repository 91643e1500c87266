"""The order of rows as columns are written in it: as row numbers, and as moves where many rows are worth planning them.

With moves a column is put in order in memory that is used again, and written from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.digests import FixedEntries
from sparkhaven.store.native.file_moves import FileRegion, PlacedEntries, RankedIds, is_possible, place_files
from sparkhaven.store.native.rows import Moves, move, plan_moves, windows_of
from sparkhaven.store.types.model import Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.column_room import ColumnRoom

COLUMNS = 4  # planning moves takes as long as they save with two or three
Order = npt.NDArray[np.uint32]
_ROOM = ColumnRoom()


def are_worth_planning(plan: MergePlan, rows: int) -> bool:
    """Whether so many rows of a date, written together, are put in order by moves."""
    moved = sum(column.storage in (Storage.FIXED, Storage.SYMBOL) for column in plan.columns)
    return rows >= plan.options.sizes.moved_rows and moved >= COLUMNS


class OutputOrder:
    """Rows in the order in which they are written: stretches of it, one behind the other.

    Each is an array of row numbers and, if rows are to be moved, its moves to places counted from its first row.
    """

    def __init__(self, stretches: Sequence[Order], moves: Sequence[Moves] = ()) -> None:
        self._stretches, self._moves = stretches, moves
        self._rows: Order | None = None

    @property
    def rows(self) -> Order:
        """The row numbers of all stretches."""
        if self._rows is None:
            self._rows = self._stretches[0] if len(self._stretches) == 1 else np.concatenate(self._stretches)
        return self._rows

    def put(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """The entries in order, until the next call of the thread; None where there are no moves."""
        if not self._moves:
            return None
        out, low = _ROOM.empty(sum(map(len, self._moves)), entries.dtype), 0
        for moves in self._moves:
            move(entries, moves, out[low : low + len(moves)])
            low += len(moves)
        return out

    def place(
        self, fs: Fs, regions: Sequence[FileRegion | None], sizes: Sequence[int], entries: FixedEntries | RankedIds
    ) -> tuple[npt.NDArray[Any], PlacedEntries] | None:
        """The same of entries in files, of sources with so many rows; None, in doubt, as ``place_files`` says."""
        if not self._moves or not is_possible(sizes):
            return None
        dtype = entries.dtype if isinstance(entries, FixedEntries) else np.dtype(np.int32)
        out = _ROOM.empty(sum(map(len, self._moves)), dtype)
        placed = place_files(fs, regions, sizes, self._moves, entries, out)
        return None if placed is None else (out, placed)


def planned(order: Order, sizes: Sequence[int]) -> Moves:
    """The moves of one stretch, of sources with so many rows."""
    return plan_moves(order, windows_of(sizes))


def store_stretch(fs: Fs, path: Path, order: Order, moves: Moves | None) -> None:
    """Writes a stretch to work files, for tasks."""
    fs.write_new(path, order.data.cast("B"))  # type: ignore[arg-type]
    if moves is not None:
        for name, array in ((_origins(path), moves.origins), (_places(path), moves.places)):
            fs.write_new(name, array.data.cast("B"))  # type: ignore[arg-type]


def load_order(fs: Fs, paths: Sequence[Path], *, moved: bool) -> OutputOrder:
    """What was written, mapped; a stretch without rows has no part in it. ``moved``: with its moves."""
    sizes = [(path, stat.size) for path in paths if (stat := fs.stat(path)) is not None and stat.size]

    def mapped(path: Path, size: int) -> Order:
        return np.frombuffer(fs.map(path, size), np.uint32)

    moves = [Moves(mapped(_origins(path), size), mapped(_places(path), size)) for path, size in sizes] if moved else []
    return OutputOrder([mapped(path, size) for path, size in sizes], moves)


def _origins(path: Path) -> Path:
    return path.with_name(f"{path.name}-origins")


def _places(path: Path) -> Path:
    return path.with_name(f"{path.name}-places")
