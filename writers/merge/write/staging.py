"""The tasks that write a date: pieces of all columns, or the order in pieces and then whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import MergeError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.sync import EarlySync
from sparkhaven.store.native.rows import Bound, Moves, gathered
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import RankedUnions, Unions
from sparkhaven.writers.merge.plan.merge_plan import MOVE_BYTES, MergePlan, Rows
from sparkhaven.writers.merge.sources.merge_source import ColumnRoom
from sparkhaven.writers.merge.sources.sort_keys import Words, distinct
from sparkhaven.writers.merge.write.column_writes import ColumnWriter, Segment, WriteOffsets
from sparkhaven.writers.merge.write.date_survey import complete, load_used
from sparkhaven.writers.merge.write.dictionaries import find_union, load_unions
from sparkhaven.writers.merge.write.row_order import (
    Keys,
    OutputOrder,
    RowSelection,
    are_worth_planning,
    load_order,
    order_of,
    planned,
    select,
    store_stretch,
)

T = TypeVar("T")
R = TypeVar("R")
_ROOM = ColumnRoom()
Run = Callable[[Callable[[T], R], Sequence[T]], Iterator[R]]


def here(fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
    """Runs tasks one after the other in this thread."""
    return map(fn, tasks)


def at_once(run: Run[T, R], plan: MergePlan) -> Run[T, R]:
    """``run`` for tasks of one column each: no more of them at once than the options of the merge say."""
    most = plan.options.max_columns
    if most is None:
        return run

    def in_turn(fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        for first in range(0, len(tasks), most):
            yield from run(fn, tasks[first : first + most])

    return in_turn


def early_sync(fs: Fs, plan: MergePlan) -> EarlySync:
    return EarlySync(fs, plan.options.sync_mode, writeback_bytes=plan.options.sizes.writeback_bytes)


@dataclass(frozen=True, slots=True)
class Piece:
    """A task: the rows between two bounds, and where they go in each destination; see ``survey.Counts``."""

    plan: MergePlan
    lower: Bound | None
    upper: Bound | None
    rows: tuple[int, ...] | None = None  # expected rows
    first_rows: tuple[int, ...] | None = None
    first_bytes: Mapping[str, tuple[int, ...]] | None = None
    counted: bool = False  # whether the symbols in use lie in the work directory


@dataclass(frozen=True, slots=True)
class Runs:
    """Where a grouping column changes in a destination: its words and the rows at which each run starts."""

    words: Words
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StagedPiece:
    """The result of a piece: rows per destination, digests of the source rows, runs of grouping columns.

    A run list is None if equal values are not contiguous; then the column is not grouped. Runs of an order task count
    from the piece's first row in each destination; it has no digests. ``verified``: source and name of the files that
    had their committed checksum when they were read.
    """

    rows: tuple[int, ...]
    digests: dict[str, int]
    runs: dict[str, tuple[Runs | None, ...]]
    verified: Set[tuple[int, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class OrderTask:
    """A task: sort the rows between two bounds and store the order, as row numbers over all sources."""

    plan: MergePlan
    lower: Bound | None
    upper: Bound | None
    target: Path


@dataclass(frozen=True, slots=True)
class ColumnWrite:
    """A task: write one column of all destinations in the order that order tasks have stored, piece by piece.

    ``late``: the order did without the column's distinct texts; the task finds them first.
    """

    plan: MergePlan
    column: Column
    rows: tuple[int, ...]
    orders: tuple[Path, ...]
    late: bool = False


def write_piece(fs: Fs, piece: Piece, unions: Unions | None = None, run: Run[Any, Any] = here) -> StagedPiece:
    """Writes the rows of a piece. MergeError: their number differs from the count.

    ``unions`` that are in memory are completed while other workers read columns.
    """
    plan = piece.plan
    if unions is None:
        unions = load_unions(fs, plan)
    keys = Keys(fs, plan, unions, _ROOM)
    selection, order = _in_order(keys, piece, unions, run)
    segments = segments_of(selection, order, len(plan.destinations))
    counts = tuple(stop - start for _, start, stop in segments)
    if piece.rows is not None and counts != piece.rows:
        raise source_changed(plan, piece.rows, counts)
    runs, moves = _runs_and_moves(piece, selection, order, segments, run)
    rows = selection.rows
    del selection
    wide = (0,) * len(segments)
    used = load_used(fs, plan) if piece.counted else None
    offsets = WriteOffsets(piece.first_rows or wide, piece.first_bytes or {}, used)
    with early_sync(fs, plan) as syncs:
        writer = ColumnWriter(fs, offsets, keys, unions, rows, OutputOrder([order], moves), segments, syncs)
        for _ in at_once(run, plan)(
            writer.column, plan.columns
        ):  # columns have nothing in common but what they only read
            pass
    return StagedPiece(counts, writer.digests.totals, runs, keys.columns.verified)


def _can_move(plan: MergePlan, rows: int) -> bool:
    """Whether rows are moved, and the moves fit into memory beside what else a piece takes."""
    return are_worth_planning(plan, rows) and rows * (plan.row_cost() + MOVE_BYTES) <= plan.usable()


def _runs_and_moves(
    piece: Piece,
    selection: RowSelection,
    order: npt.NDArray[np.uint32],
    segments: list[Segment],
    run: Run[Any, Any],
) -> tuple[dict[str, tuple[Runs | None, ...]], list[Moves]]:
    plan = piece.plan
    steps: tuple[Callable[[], Any], ...] = (
        lambda: all_runs(plan, piece.first_rows, selection, order, segments),
        lambda: [planned(order, selection.counts)] if _can_move(plan, len(order)) else [],
    )
    runs, moves = run(lambda step: step(), steps)
    return runs, moves


def _in_order(
    keys: Keys, piece: Piece, unions: Unions, run: Run[Any, Any]
) -> tuple[RowSelection, npt.NDArray[np.uint32]]:
    """The rows of a piece and their order; other workers read columns meanwhile."""
    columns = _columns_ahead(piece) if run is not here else []

    def step(column: Column | None) -> tuple[RowSelection, npt.NDArray[np.uint32]] | None:
        if column is None:
            if isinstance(unions, RankedUnions):
                complete(piece.plan, unions)
            selection = select(keys, piece.lower, piece.upper, keep=bool(columns))
            return selection, order_of(selection)
        keys.keep(column)
        return None

    ordered, *_ = run(step, [None, *columns])
    return ordered  # type: ignore[no-any-return]


def _columns_ahead(piece: Piece) -> list[Column]:
    """The columns that can be read while the rows are put in order: if all of them fit into memory beside that."""
    plan = piece.plan
    if piece.lower is not None or piece.upper is not None or plan.options.workers == 1 or plan.options.max_columns:
        return []
    ordering = {key.column for key in plan.ordering}
    fixed = [column for column in plan.columns if column.storage is not Storage.BLOB]
    if plan.rows * (plan.row_cost() + sum(column.width for column in fixed)) > plan.usable():
        return []
    return [column for column in fixed if column.name not in ordering]


def order_piece(fs: Fs, task: OrderTask) -> StagedPiece:
    """Orders one piece and writes its order (``u4`` little endian) to the task's work file."""
    plan = task.plan
    selection = select(Keys(fs, plan, load_unions(fs, plan)), task.lower, task.upper)
    order = order_of(selection)
    segments = segments_of(selection, order, len(plan.destinations))
    runs = all_runs(plan, None, selection, order, segments)
    if any(rows is not None for rows in selection.rows):
        numbers = [
            (np.arange(len(source), dtype=np.uint32) if rows is None else rows) + np.uint32(plan.offset(index))
            for index, (source, rows) in enumerate(zip(plan.sources, selection.rows, strict=True))
        ]
        order = gathered(np.concatenate(numbers), order)
    moved = are_worth_planning(plan, plan.rows) and len(order)
    store_stretch(fs, task.target, order, planned(order, list(map(len, plan.sources))) if moved else None)
    return StagedPiece(tuple(stop - start for _, start, stop in segments), {}, runs)


def write_column(fs: Fs, task: ColumnWrite) -> StagedPiece:
    plan = task.plan
    order = load_order(fs, task.orders, moved=are_worth_planning(plan, plan.rows))
    unions = find_union(fs, plan, task.column) if task.late else load_unions(fs, plan)
    return write_segments(fs, plan, task.column, unions, order, task.rows)


def write_segments(
    fs: Fs, plan: MergePlan, column: Column, unions: Unions, order: OutputOrder, rows: tuple[int, ...]
) -> StagedPiece:
    """Writes a column of all rows in their order, of which each destination has ``rows``."""
    ends = np.cumsum(rows).tolist()
    segments = [(index, end - count, end) for index, (end, count) in enumerate(zip(ends, rows, strict=True))]
    everything: Rows = (None,) * len(plan.sources)
    offsets = WriteOffsets((0,) * len(rows), {})
    keys = Keys(fs, plan, unions, _ROOM)
    with early_sync(fs, plan) as syncs:
        writer = ColumnWriter(fs, offsets, keys, unions, everything, order, segments, syncs)
        writer.column(column)
    return StagedPiece((0,) * len(rows), writer.digests.totals, {}, keys.columns.verified)


def source_changed(plan: MergePlan, expected: object, found: object) -> MergeError:
    """The error for a date of which other rows were read than counted."""
    return MergeError(
        "a source changed while it was merged",
        where=f"{plan.table} {plan.value}",
        expected=f"{expected} rows",
        found=f"{found} rows",
        hint="merge the date again",
        phase="stage",
    )


def segments_of(selection: RowSelection, order: npt.NDArray[np.uint32], destinations: int) -> list[Segment]:
    if destinations == 1 or not len(order):
        return [(index, 0, len(order)) for index in range(destinations)]
    ends = np.cumsum(np.bincount(selection.keys[0], minlength=destinations)).tolist()
    return [(i, 0 if i == 0 else ends[i - 1], end) for i, end in enumerate(ends)]


def all_runs(
    plan: MergePlan,
    first_rows: tuple[int, ...] | None,
    selection: RowSelection,
    order: npt.NDArray[np.uint32],
    segments: list[Segment],
) -> dict[str, tuple[Runs | None, ...]]:
    lead = len(plan.destinations) > 1
    runs: dict[str, tuple[Runs | None, ...]] = {}
    for position, column in enumerate(plan.schema.grouping):
        words = gathered(selection.keys[position + lead], order)
        firsts = first_rows or (0,) * len(segments)
        runs[column.name] = tuple(_runs(words[a:b], firsts[d]) for d, a, b in segments)
    return runs


def _runs(words: Words, first: int) -> Runs | None:
    starts = np.flatnonzero(words[1:] != words[:-1]) + 1
    starts = np.concatenate([np.zeros(min(1, len(words)), np.int64), starts])
    values = words[starts]
    if not distinct(values):
        return None
    return Runs(values, starts + first)
