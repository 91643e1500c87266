"""The phases of one date's merge that come before publishing: stage, sync, check.

Numbered as in a date's life (0 plan comes before, 4 publish to 7 clean after, in ``writers.merge.dates``):

1. *stage*: pieces write the columns, then each destination gets prefixes, symbol tables and definition;
2. *sync*: files, then directories;
3. *check*: sources against their committed checksums, results read back, rows and digests in = out, ``table.size``.

A small date runs through all of them in one task. A large one is shared out: workers order pieces of it, then write
whole columns. One that is too large for that is cut into pieces that fit a worker's memory: tasks count stretches of
rows, then write their piece of every column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from store.epochs.state import FileState
from store.errors import MergeError, ValidationFailedError
from store.fs import Fs, SyncGuard
from store.layout import Layout
from store.merges import MergeOutput, MergeRecord, Proof, store_record
from store.schema.model import Storage
from writers.merge.check import ColumnFound, ColumnTask, check_column
from writers.merge.finish import Finished, finish, size_record, used_of
from writers.merge.order import Keys, Unions, bounds
from writers.merge.plan import MergePlan
from writers.merge.proof import as_hex, total
from writers.merge.stage import (
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
from writers.merge.survey import (
    Counts,
    Stretch,
    load_unions,
    measure,
    source_files,
    store_unions,
    unions,
    verify_file,
)

T = TypeVar("T")
R = TypeVar("R")
Run = Callable[[Callable[[T], R], Sequence[T]], Iterator[R]]
STRETCH_ROWS = 8 << 20


@dataclass(frozen=True, slots=True)
class WholeDate:
    """A task: everything up to the check of one date. ``record`` is the stored plan."""

    plan: MergePlan
    record: MergeRecord
    now_ms: int


def here(fn: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    """Runs tasks one after the other, where we are."""
    return map(fn, tasks)


def run_whole(fs: Fs, layout: Layout, task: WholeDate) -> MergeRecord:
    """Stages, syncs and checks a date in this process; returns the record of phase ``check``, not yet stored."""
    return run_phases(fs, layout, task, here, split=task.plan.ranges() > 1)


def run_phases(fs: Fs, layout: Layout, task: WholeDate, run: Run[Any, Any], *, split: bool) -> MergeRecord:
    """The same with tasks given to ``run``; ``split`` cuts the date into ``plan.ranges()`` pieces."""
    plan, record = task.plan, task.record
    with ExitStack() as opened:
        roots = {d.stage_root for d in plan.destinations}
        guards = {root: opened.enter_context(fs.sync_guard(root.parent)) for root in sorted(roots)}
        with fs.during("merge-stage"):
            written, finished = _stage(fs, plan, run, split)
        record = _advance(fs, layout, plan, record, "stage")
        with fs.during("merge-sync"):
            for root, guard in guards.items():
                sync_locations(fs, plan, root, guard, finished)
        record = _advance(fs, layout, plan, record, "sync")
    with fs.during("merge-check"):
        outputs, proof = _check(fs, plan, run, written, finished, task.now_ms)
    return replace(record, phase="check", outputs=outputs, proof=proof)


def _advance(fs: Fs, layout: Layout, plan: MergePlan, record: MergeRecord, phase: str) -> MergeRecord:
    record = replace(record, phase=phase)
    store_record(fs, layout, plan.table, record)
    return record


# --- 1 stage -------------------------------------------------------------------------------------------


def _stage(fs: Fs, plan: MergePlan, run: Run[Any, Any], split: bool) -> tuple[list[Written], list[Finished]]:
    for destination in plan.destinations:
        fs.mkdirs(destination.stage(plan.table, plan.value))
    found = unions(fs, plan)
    if split and plan.by_columns():
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
    return written, finished


def _stage_columns(fs: Fs, plan: MergePlan, run: Run[Any, Any], found: Unions) -> list[Written]:
    """Orders in as many pieces as there are workers, then shares the columns out, those of most bytes first."""
    fs.mkdirs(plan.work)
    work = plan.work / "unions.arrow"
    store_unions(fs, work, found)
    cuts = [None, *bounds(Keys(fs, plan, found), plan.options.workers), None]
    orders = [
        OrderTask(plan, lower, upper, work, plan.work / f"order-{index}")
        for index, (lower, upper) in enumerate(pairwise(cuts))
    ]
    written: list[Written] = []
    before = [0] * len(plan.destinations)
    for ordered in run(partial(order_piece, fs), orders):
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
    tasks = [ColumnWrite(plan, column, tuple(before), work, paths) for column in columns]
    written += run(partial(write_column, fs), tasks)
    return written


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
    fs.mkdirs(plan.work)
    work = plan.work / "unions.arrow"
    store_unions(fs, work, found)
    cuts = tuple(bounds(Keys(fs, plan, load_unions(fs, work)), plan.ranges()))
    stretches = [
        Stretch(plan, index, first, min(first + STRETCH_ROWS, len(source)), cuts, work)
        for index, source in enumerate(plan.sources)
        for first in range(0, len(source), STRETCH_ROWS)
    ]
    counts = Counts.add(run(partial(measure, fs), stretches))
    return list(run(partial(write_piece, fs), pieces(plan, cuts, counts, work)))


def pieces(plan: MergePlan, cuts: Sequence[tuple[int, ...]], counts: Counts, work: Path) -> list[Piece]:
    """The tasks that write a date: each with its place in every destination."""
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
                counts.used,
                work,
            )
        )
    return found


# --- 2 sync --------------------------------------------------------------------------------------------


def sync_locations(fs: Fs, plan: MergePlan, root: Path, guard: SyncGuard, finished: Sequence[Finished]) -> None:
    """Makes the locations staged below one root durable: files, then the directories up to the root's parent."""
    files: list[Path] = []
    directories: list[Path] = []
    for done in finished:
        destination = plan.destinations[done.destination]
        if destination.stage_root == root:
            place = destination.stage(plan.table, plan.value)
            files += [place / name for name in fs.names(place)]
            directories += [place, place.parent, place.parent.parent]
    if files:
        guard.sync(files, [*directories, root, root.parent])


# --- 3 check -------------------------------------------------------------------------------------------


def _check(
    fs: Fs,
    plan: MergePlan,
    run: Run[Any, Any],
    written: Sequence[Written],
    finished: Sequence[Finished],
    now_ms: int,
) -> tuple[tuple[MergeOutput, ...], Proof]:
    if plan.options.verify_sources:
        for _ in run(partial(verify_file, fs), source_files(plan)):
            pass
    tasks = [ColumnTask(plan, done, column) for done in finished for column in plan.columns]
    found: list[ColumnFound] = list(run(partial(check_column, fs), tasks))
    digests_in = total(part.digests for part in written)
    digests_out = total({column.column: column.digest} for column in found)
    proof = Proof(
        rows_in=plan.rows,
        rows_out=sum(done.rows for done in finished),
        digests_in=as_hex(digests_in, plan.schema),
        digests_out=as_hex(digests_out, plan.schema),
    )
    if not proof.holds:
        raise proof_failure(proof, f"{plan.table} {plan.value}")
    return tuple(_output(fs, plan, done, found, now_ms) for done in finished), proof


def _output(fs: Fs, plan: MergePlan, done: Finished, found: Sequence[ColumnFound], now_ms: int) -> MergeOutput:
    mine = [column for column in found if column.destination == done.destination]
    files: dict[str, FileState] = {}
    for column in mine:
        files |= column.files
    destination = plan.destinations[done.destination]
    place = destination.stage(plan.table, plan.value)
    record = place / "table.size"
    fs.write_new(record, size_record(plan, done.rows, files, now_ms))
    fs.sync([record])
    fs.sync_dirs([place])
    digests = as_hex({column.column: column.digest for column in mine}, plan.schema)
    return MergeOutput(destination.internal, done.rows, digests, files, {c.column: c.stats for c in mine})


def proof_failure(proof: Proof, where: str) -> ValidationFailedError:
    """The error for a proof that does not hold: which columns differ."""
    differing = [name for name, digest in proof.digests_in.items() if proof.digests_out.get(name) != digest]
    return ValidationFailedError(
        "the merged rows are not the source rows",
        where=where,
        expected=f"{proof.rows_in} rows, equal digests",
        found=f"{proof.rows_out} rows, other digests in {', '.join(differing) or 'no column'}",
        hint="nothing was published; run `sparkhaven verify --deep` and merge again",
        phase="check",
    )
