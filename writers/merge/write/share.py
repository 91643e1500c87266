"""Distributes the writing of a date's staged locations over workers.

A small date is one task. For a large one, workers order pieces of it, then write whole columns. A date too large for
that is cut into pieces that fit a worker's memory: tasks count ranges of rows, then write their piece of every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from store.errors import MergeError
from store.io.fs import Fs
from store.types.model import Column, Storage
from writers.merge.plan.plan import MergePlan
from writers.merge.write.dictionaries import UnionTask, fits_slice, load_unions, store_union, store_unions
from writers.merge.write.finish import Finished, finish, used_of
from writers.merge.write.order import Keys, Unions, bounds, late_columns
from writers.merge.write.parquet import ParquetTask, write_parquet
from writers.merge.write.stage import (
    ColumnWrite,
    Ordered,
    OrderTask,
    Piece,
    Runs,
    Written,
    order_piece,
    write_column,
    write_piece,
)
from writers.merge.write.survey import Counts, Stretch, measure, store_used, unions

T = TypeVar("T")
R = TypeVar("R")
Run = Callable[[Callable[[T], R], Sequence[T]], Iterator[R]]
STRETCH_ROWS = 8 << 20


def here(fn: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    """Runs tasks one after the other in this process."""
    return map(fn, tasks)


def stage_date(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], split: bool, now_ms: int
) -> tuple[list[Written], list[Finished]]:
    """Writes every destination's location, complete except ``table.size``; ``split`` cuts the date as planned.

    ``now_ms``: the time of the merge.
    """
    for destination in plan.destinations:
        fs.mkdirs(destination.stage(plan.table, plan.value))
    by_columns = split and plan.by_columns()
    found = prepare(fs, plan, stored=split or not fits_slice(plan), late=late_columns(plan) if by_columns else ())
    if by_columns:
        written = _stage_columns(fs, plan, run, found)
    elif split:
        written = _stage_pieces(fs, plan, run, found)
    else:
        written = [write_piece(fs, Piece(plan, None, None), found)]
    used = used_of(written)
    finished = []
    for index, destination in enumerate(plan.destinations):
        rows = sum(part.rows[index] for part in written)
        if rows:
            runs = {c.name: [part.runs[c.name][index] for part in written if part.runs] for c in plan.schema.grouping}
            finished.append(finish(fs, plan, index, rows, runs, used, found))
        else:
            fs.remove_tree(destination.stage_root / destination.internal)
    if plan.format != "deephaven":
        finished = list(run(partial(write_parquet, fs), [ParquetTask(plan, each, now_ms) for each in finished]))
    return written, finished


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


def _stage_columns(fs: Fs, plan: MergePlan, run: Run[Any, Any], found: Unions) -> list[Written]:
    """Orders one piece per worker beside the texts that the order does not need; then the columns, largest first."""
    cuts = [None, *bounds(Keys(fs, plan, found), plan.options.workers), None]
    orders = [
        OrderTask(plan, lower, upper, plan.work / f"order-{index}")
        for index, (lower, upper) in enumerate(pairwise(cuts))
    ]
    written: list[Written] = []
    before = [0] * len(plan.destinations)
    others = [UnionTask(plan, column) for column in late_columns(plan)]
    results = list(run(partial(order_or_union, fs), [*others, *orders]))
    for ordered in results[len(others) :]:
        written.append(Written(ordered.rows, {}, _moved(ordered, before), {}))
        before = [sum(pair) for pair in zip(before, ordered.rows, strict=True)]
    if sum(before) != plan.rows:
        raise MergeError(
            "a source changed while it was merged",
            where=f"{plan.table} {plan.value}",
            expected=f"{plan.rows} rows",
            found=f"{sum(before)} rows",
            hint="merge the date again",
            phase="stage",
        )
    columns = sorted(plan.columns, key=lambda c: (c.storage is not Storage.BLOB, -c.width))
    paths = tuple(task.target for task in orders)
    tasks = [ColumnWrite(plan, column, tuple(before), paths) for column in columns]
    written += run(partial(write_column, fs), tasks)
    return written


def order_or_union(fs: Fs, task: UnionTask | OrderTask) -> Ordered | None:
    """Runs a task of either kind; only that of an order has a result."""
    if isinstance(task, OrderTask):
        return order_piece(fs, task)
    store_union(fs, task)
    return None


def _moved(ordered: Ordered, before: Sequence[int]) -> dict[str, tuple[Runs | None, ...]]:
    """Runs of a piece as rows of the destinations; runs of a piece without rows in a destination are empty."""
    return {
        name: tuple(
            None if part is None else Runs(part.words, part.starts + first)
            for part, first in zip(parts, before, strict=True)
        )
        for name, parts in ordered.runs.items()
    }


def _stage_pieces(fs: Fs, plan: MergePlan, run: Run[Any, Any], found: Unions) -> list[Written]:
    cuts = tuple(bounds(Keys(fs, plan, found), plan.ranges()))
    stretches = [
        Stretch(plan, index, first, min(first + STRETCH_ROWS, len(source)), cuts)
        for index, source in enumerate(plan.sources)
        for first in range(0, len(source), STRETCH_ROWS)
    ]
    counts = Counts.add(run(partial(measure, fs), stretches))
    store_used(fs, plan, counts.used)
    written = list(run(partial(write_piece, fs), pieces(plan, cuts, counts)))
    return [*written, Written((0,) * len(plan.destinations), {}, {}, counts.used)]


def pieces(plan: MergePlan, cuts: Sequence[tuple[int, ...]], counts: Counts) -> list[Piece]:
    """The tasks that write a date, each with its position in every destination."""
    before_rows = counts.rows.cumsum(axis=0) - counts.rows
    before_bytes = {name: array.cumsum(axis=0) - array for name, array in counts.blobs.items()}
    found = []
    for index in range(len(cuts) + 1):
        if not counts.rows[index].any():
            continue
        found.append(
            Piece(
                plan,
                cuts[index - 1] if index else None,
                cuts[index] if index < len(cuts) else None,
                tuple(counts.rows[index].tolist()),
                tuple(before_rows[index].tolist()),
                {name: tuple(array[index].tolist()) for name, array in before_bytes.items()},
                True,
            )
        )
    return found
