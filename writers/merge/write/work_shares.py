"""Distributes the writing of a date's staged locations over workers.

A small date is one task. For a large one, workers order pieces of it, then write whole columns. A date too large for
that is cut into pieces that fit a worker's memory: tasks count ranges of rows, then write their piece of every column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import RankedUnions, Unions, late_columns
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.write.date_survey import Counts, Stretch, measure, store_used, unions
from sparkhaven.writers.merge.write.dictionaries import fits_slice, load_unions, store_unions, stored_texts
from sparkhaven.writers.merge.write.finish import Finished, finish
from sparkhaven.writers.merge.write.indexes import (
    IndexTask,
    KeyRows,
    planned_indexes,
    symbol_groups,
    with_indexes,
    write_index,
)
from sparkhaven.writers.merge.write.parquet_check import ParquetTask, write_parquet
from sparkhaven.writers.merge.write.parted_rows import (
    SourceRows,
    is_worth_parting,
    is_worth_sharing,
    part_rows,
    piece_plan,
    remove_piece,
    write_together,
)
from sparkhaven.writers.merge.write.row_order import Keys, bounds
from sparkhaven.writers.merge.write.staging import (
    ColumnWrite,
    OrderTask,
    Piece,
    Run,
    Runs,
    StagedPiece,
    at_once,
    order_piece,
    source_changed,
    write_column,
    write_piece,
)

T = TypeVar("T")
R = TypeVar("R")
SORTED = 4  # times as long as copying a text takes until it is sorted


def stage_date(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], split: bool, now_ms: int, *, threads: bool = False
) -> tuple[list[StagedPiece], list[Finished]]:
    """Writes every destination's location, complete except ``table.size``; ``split`` cuts the date as planned.

    ``now_ms``: the time of the merge. ``threads``: tasks of ``run`` share memory, and begin in their order.
    """
    for destination in plan.destinations:
        fs.mkdirs(destination.stage(plan.table, plan.value))
    by_columns, late = split and plan.by_columns(), late_columns(plan)
    texts: Unions = {}
    if plan.sources and not (split or late or len(plan.destinations) > 1) and fits_slice(plan):
        texts = RankedUnions(Columns(fs, plan))  # which only the order needs: the piece completes it
    elif plan.sources:
        texts = prepare(fs, plan, stored=split or not fits_slice(plan), late=late if by_columns else ())
    used: Mapping[str, npt.NDArray[np.bool_]] = {}
    if not plan.sources:  # a date without rows: an empty location in each destination
        count = len(plan.destinations)
        texts = {column.name: pa.array([], pa.string()) for column in plan.symbol_columns}
        used = {name: np.zeros((count, 0), np.bool_) for name in texts}
        written = [StagedPiece((0,) * count, {}, {})]
    elif by_columns:
        written = _stage_columns(fs, plan, run, texts, threads)
    elif split:
        written, used = _stage_pieces(fs, plan, run, texts)
    else:
        written = [write_piece(fs, Piece(plan, None, None), texts, run)]
    finished = []
    keys: dict[tuple[int, str], KeyRows | None] = {}
    for index, destination in enumerate(plan.destinations):
        rows = sum(piece.rows[index] for piece in written)
        if rows or not plan.sources:
            groups = plan.schema.grouping if plan.sources else ()
            runs = {c.name: [part.runs[c.name][index] for part in written if part.runs] for c in groups}
            finished.append(finish(fs, plan, index, rows, runs, used, texts))
            for column in groups if rows else ():
                if column.storage is Storage.SYMBOL:
                    keys[index, column.name] = symbol_groups(runs[column.name], rows, texts[column.name])
        else:
            fs.remove_tree(destination.stage_root / destination.internal)
    finished = _indexed(fs, plan, run, finished, keys, now_ms)
    if plan.format != "deephaven":
        finished = list(run(partial(write_parquet, fs), [ParquetTask(plan, location) for location in finished]))
    return written, finished


def _indexed(
    fs: Fs,
    plan: MergePlan,
    run: Run[Any, Any],
    finished: list[Finished],
    keys: Mapping[tuple[int, str], KeyRows | None],
    now_ms: int,
) -> list[Finished]:
    """The locations with their indexes, each of which is a task; ``keys``: of grouping columns by destination."""
    names = [planned_indexes(plan, location) for location in finished]
    tasks = [
        IndexTask(plan, one, columns, now_ms, keys.get((one.destination, columns[0])) if len(columns) == 1 else None)
        for one, own in zip(finished, names, strict=True)
        for columns in own
    ]
    written = iter(run(partial(write_index, fs), tasks) if tasks else ())
    return [with_indexes(one, [next(written) for _ in own]) for one, own in zip(finished, names, strict=True)]


def prepare(fs: Fs, plan: MergePlan, *, stored: bool, late: Sequence[Column] = ()) -> Unions:
    """The distinct texts of columns that need them, mapped from work files if ``stored``.

    They are stored if the date is split into tasks, or if they are too many to sort at once. Those of ``late`` columns
    are left to tasks.
    """
    if not stored:
        return unions(fs, plan)
    fs.mkdirs(plan.work)
    store_unions(fs, plan, late)
    return load_unions(fs, plan)


def _stage_columns(fs: Fs, plan: MergePlan, run: Run[Any, Any], texts: Unions, threads: bool) -> list[StagedPiece]:
    """Orders one piece per worker; then writes the columns, those that take longest first.

    Threads share one order if a column has many texts to sort, and there is memory for it.
    """
    late = late_columns(plan)
    columns = sorted(plan.columns, key=lambda column: _cost(plan, column, column in late), reverse=True)
    if threads and plan.options.max_columns is None and is_worth_sharing(plan):
        return write_together(fs, plan, run, columns)
    cuts = [None, *bounds(Keys(fs, plan, texts), plan.options.workers), None]
    orders = [
        OrderTask(plan, lower, upper, plan.work / f"order-{index}")
        for index, (lower, upper) in enumerate(pairwise(cuts))
    ]
    written: list[StagedPiece] = []
    before = [0] * len(plan.destinations)
    for ordered in run(partial(order_piece, fs), orders):
        written.append(StagedPiece(ordered.rows, {}, _moved(ordered, before)))
        before = [sum(pair) for pair in zip(before, ordered.rows, strict=True)]
    if sum(before) != plan.rows:
        raise source_changed(plan, plan.rows, sum(before))
    paths = tuple(task.target for task in orders)
    tasks = [ColumnWrite(plan, column, tuple(before), paths, column in late) for column in columns]
    written += at_once(run, plan)(partial(write_column, fs), tasks)
    return written


def _cost(plan: MergePlan, column: Column, late: bool) -> int:
    """Bytes of a column; a text of one that is ``late`` is handled several times until it has a rank."""
    return stored_texts(plan, column) * (SORTED if late else 1) + plan.rows * column.width


def _moved(ordered: StagedPiece, before: Sequence[int]) -> dict[str, tuple[Runs | None, ...]]:
    """Runs of a piece as rows of the destinations; runs of a piece without rows in a destination are empty."""
    return {
        name: tuple(
            None if part is None else Runs(part.words, part.starts + first)
            for part, first in zip(parts, before, strict=True)
        )
        for name, parts in ordered.runs.items()
    }


def _stage_pieces(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], texts: Unions
) -> tuple[list[StagedPiece], Mapping[str, npt.NDArray[np.bool_]]]:
    """The pieces, and per column and destination the symbols in use."""
    cuts, most = tuple(bounds(Keys(fs, plan, texts), plan.ranges())), plan.options.sizes.stretch_rows
    if is_worth_parting(plan, len(cuts) + 1):
        return _stage_parted(fs, plan, run, cuts)
    stretches = [
        Stretch(plan, index, first, min(first + most, len(source)), cuts)
        for index, source in enumerate(plan.sources)
        for first in range(0, len(source), most)
    ]
    counts = Counts.add(run(partial(measure, fs), stretches))
    store_used(fs, plan, counts.used)
    return list(run(partial(write_piece, fs), list(pieces(plan, cuts, counts).values()))), counts.used


def _stage_parted(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], cuts: tuple[tuple[int, ...], ...]
) -> tuple[list[StagedPiece], Mapping[str, npt.NDArray[np.bool_]]]:
    """The pieces from rows that are parted first: what was read of the sources is proved by that pass."""
    parted = list(run(partial(part_rows, fs), [SourceRows(plan, index, cuts) for index in range(len(plan.sources))]))
    counts = Counts.add(part.counts for part in parted)
    store_used(fs, plan, counts.used)
    wide = len(plan.destinations)
    written = [StagedPiece((0,) * wide, part.digests, {}, part.verified) for part in parted]
    tasks = [
        replace(piece, plan=piece_plan(plan, parted, number), lower=None, upper=None)
        for number, piece in pieces(plan, cuts, counts).items()
    ]
    for task, done in zip(tasks, run(partial(write_piece, fs), tasks), strict=True):
        written.append(replace(done, digests={}, verified=frozenset()))
        remove_piece(fs, task.plan)
    return written, counts.used


def pieces(plan: MergePlan, cuts: Sequence[tuple[int, ...]], counts: Counts) -> dict[int, Piece]:
    """The tasks that write a date, by number, each with its position in every destination; none without rows."""
    before_rows = counts.rows.cumsum(axis=0) - counts.rows
    before_bytes = {name: array.cumsum(axis=0) - array for name, array in counts.blobs.items()}
    cut = {}
    for index in range(len(cuts) + 1):
        if not counts.rows[index].any():
            continue
        cut[index] = Piece(
            plan,
            cuts[index - 1] if index else None,
            cuts[index] if index < len(cuts) else None,
            tuple(counts.rows[index].tolist()),
            tuple(before_rows[index].tolist()),
            {name: tuple(array[index].tolist()) for name, array in before_bytes.items()},
            True,
        )
    return cut
