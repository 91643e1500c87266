"""The phases of a date's merge before publishing: stage, sync, check.

Phase 0, plan, comes before; phases 4 (publish) to 7 (clean) are in ``writers.merge.publish.publish_phase``:

1. *stage*: pieces write the columns, then each destination gets prefixes, symbol tables and definition. Beside history:
   a kill leaves nothing that readers see;
2. *sync*: files, then directories. Before the check, so that what was checked is what is on disk. Several workers
   meanwhile compare sources with their committed checksums, and read column files back: what a failed sync has lost is
   no result, whatever was read;
3. *check*: before publishing, while the sources are all there and nobody reads the result: sources and results, unless
   they are looked at, rows and digests in = out, ``table.size``.

Several small dates run through all phases in one task and share each sync. The tasks of a large date are spread over
the workers in each phase.

The digest of rows that the merge record keeps is taken by reading a staged location back, all columns together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sparkhaven.store.digest import RowDigests, add, to_hex
from sparkhaven.store.errors import SparkhavenError, ValidationFailedError, in_phase
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs, SyncGuard
from sparkhaven.store.layout import PARQUET
from sparkhaven.store.merges.merge_records import MergeOutput, MergeRecord, store_record
from sparkhaven.store.merges.merge_run import MergePhase, Proof
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import file_state
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Storage
from sparkhaven.writers.merge.date_result import PhaseTimes, PhaseWatch
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.plan.merge_proof import Digests, HashedColumn, as_hex, digest_block, total
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.write.date_survey import source_files, verify_file
from sparkhaven.writers.merge.write.finish import Finished, size_record, staged_source
from sparkhaven.writers.merge.write.indexes import IndexCheck, check_index, directories_of
from sparkhaven.writers.merge.write.location_check import ColumnFound, ColumnTask, check_column
from sparkhaven.writers.merge.write.staging import Run, StagedPiece, at_once, here
from sparkhaven.writers.merge.write.work_shares import stage_date


@dataclass(frozen=True, slots=True)
class RowTask:
    """A task: rows ``[first, stop)`` of one finished destination."""

    plan: MergePlan
    finished: Finished
    first: int
    stop: int

    def size(self) -> int:
        """Bytes that are read."""
        return sum(self.finished.sizes.values()) * (self.stop - self.first) // max(self.finished.rows, 1)


@dataclass(frozen=True, slots=True)
class RowsFound:
    """The digest of rows of a destination, and those of its columns of fixed width where column files were read."""

    destination: int
    digest: int
    columns: Mapping[str, int] = field(default_factory=dict)


def row_tasks(plan: MergePlan, finished: Finished, parts: int) -> Iterator[RowTask]:
    """The rows of a destination in about so many parts."""
    most = plan.options.sizes.rows
    step = -(-max(finished.rows, 1) // (parts * most)) * most
    for first in range(0, finished.rows, step):
        yield RowTask(plan, finished, first, min(first + step, finished.rows))


def check_rows(fs: Fs, task: RowTask) -> RowsFound:
    """Reads the rows back from column files."""
    plan, source = task.plan, staged_source(task.plan, task.finished)
    digests = Digests(plan.schema)
    columns = [
        HashedColumn(ColumnSource(fs, source, column), column, digests, counted=False) for column in plan.columns
    ]
    digest, most = 0, plan.options.sizes.rows
    for first in range(task.first, task.stop, most):
        digest = add(digest, digest_block(columns, first, min(first + most, task.stop)))
    fixed = {column.name for column in plan.columns if column.storage is Storage.FIXED} & digests.totals.keys()
    return RowsFound(task.finished.destination, digest, {name: digests.totals[name] for name in fixed})


def check_parquet_rows(fs: Fs, task: RowTask) -> RowsFound:
    """Reads the rows back from ``table.parquet``."""
    from sparkhaven.writers.merge.write.parquet_check import row_batches  # only merges into Parquet need DuckDB

    plan, read = task.plan, RowDigests(task.plan.columns)
    location = plan.destinations[task.finished.destination].stage(plan.table, plan.value)
    for batch in row_batches(location / PARQUET, plan.columns, (task.first, task.stop), plan.options.sizes.texts):
        pairs = zip(plan.columns, batch.columns, strict=True)
        read.add([array.cast(column.type.arrow) for column, array in pairs], len(batch))
    return RowsFound(task.finished.destination, read.row_digest)


T = TypeVar("T")
Found = ColumnFound | RowsFound


@dataclass(frozen=True, slots=True)
class WholeDate:
    """The work for one date; ``record`` is the stored plan."""

    plan: MergePlan
    record: MergeRecord
    now_ms: int


@dataclass(frozen=True, slots=True)
class Failure:
    error: SparkhavenError | OSError


@dataclass(frozen=True, slots=True)
class Checked:
    """A date after its check, or why it failed.

    ``times``: milliseconds of each phase, of all dates of its task together. A failed task may lack the last ones.
    """

    result: MergeRecord | Failure
    times: PhaseTimes


@dataclass(frozen=True, slots=True)
class _Staged:
    plan: MergePlan
    written: list[StagedPiece]
    finished: list[Finished]


def run_group(fs: Fs, tasks: Sequence[WholeDate], run: Run[Any, Any] = here) -> list[Checked]:
    """A task: stages, syncs and checks dates in this process; returns records of phase ``check``, not yet stored.

    A failed date does not stop the others; a failed sync fails all.
    """
    watch = PhaseWatch()
    with _guarded(fs, tasks) as guards:
        with fs.during("merge-stage"), watch.phase(MergePhase.STAGE):
            staged = [_tried("stage", _stage, fs, task, run, task.plan.ranges() > 1) for task in tasks]
        with fs.during("merge-sync"), watch.phase(MergePhase.SYNC):
            failed = _tried("sync", _sync, fs, guards, [dates for dates in staged if isinstance(dates, _Staged)])
    with fs.during("merge-check"), watch.phase(MergePhase.CHECK):
        records: list[MergeRecord | Failure] = []
        for task, dates in zip(tasks, staged, strict=True):
            if isinstance(dates, Failure):
                records.append(dates)
            else:
                records.append(_tried("check", _check, fs, task, run, dates) if failed is None else failed)
        failed = _tried("check", _sync_sizes, fs, list(zip(tasks, records, strict=True)))
        for dates in staged:
            if isinstance(dates, _Staged):
                fs.release(_files(fs, dates, None))
    results = records if failed is None else [r if isinstance(r, Failure) else failed for r in records]
    return [Checked(result, watch.times) for result in results]


def run_large(place: TablePlace, task: WholeDate, run: Run[Any, Any], *, threads: bool = False) -> Checked:
    """Stages, syncs and checks one date by tasks in ``run``; raises the error. ``threads``: they share memory."""
    fs, record, watch = place.fs, task.record, PhaseWatch()
    with _guarded(fs, [task]) as guards:
        with fs.during("merge-stage"), watch.phase(MergePhase.STAGE):
            staged = _stage(fs, task, run, True, threads)
        record = replace(record, phase=MergePhase.STAGE)
        with fs.during("merge-sync"), watch.phase(MergePhase.SYNC):
            read_back = _sync_and_read(place, record, guards, run, staged)
        store_record(place, replace(record, phase=MergePhase.SYNC))
    with fs.during("merge-check"), watch.phase(MergePhase.CHECK):
        record = _check(fs, task, run, staged, read_back)
        _sync_sizes(fs, [(task, record)])
        fs.release(_files(fs, staged, None))
    return Checked(record, watch.times)


def _tried(phase: str, fn: Callable[..., T], *arguments: Any) -> T | Failure:
    try:
        with in_phase(phase):
            return fn(*arguments)
    except (SparkhavenError, OSError) as error:
        return Failure(error)


def _stage(fs: Fs, task: WholeDate, run: Run[Any, Any], split: bool, threads: bool = False) -> _Staged:
    return _Staged(task.plan, *stage_date(fs, task.plan, run, split, task.now_ms, threads=threads))


@contextmanager
def _guarded(fs: Fs, tasks: Sequence[WholeDate]) -> Iterator[dict[Path, SyncGuard]]:
    """One guard per staging root, opened before anything is written."""
    roots = sorted({d.stage_root.parent for task in tasks for d in task.plan.destinations})
    with ExitStack() as opened:
        yield {root: opened.enter_context(fs.sync_guard(root)) for root in roots}


def _sync(fs: Fs, guards: dict[Path, SyncGuard], staged: Sequence[_Staged]) -> None:
    """Makes staged locations durable: files, then the directories up to the staging root."""
    for root_, guard in guards.items():
        files = [file for staged_date in staged for file in _files(fs, staged_date, root_)]
        directories: list[Path] = []
        for staged_date in staged:
            plan = staged_date.plan
            for done in staged_date.finished:
                destination = plan.destinations[done.destination]
                if destination.stage_root.parent != root_:
                    continue
                location = destination.stage(plan.table, plan.value)
                directories += [location / name for name in directories_of(done.index_files)]
                directories += [location, location.parent, location.parent.parent, destination.stage_root]
        if files:
            guard.sync(files, [*directories, root_])


def _files(fs: Fs, staged: _Staged, root: Path | None) -> Iterator[Path]:
    """The files of staged locations; ``root``: of those below a staging root."""
    for done in staged.finished:
        destination = staged.plan.destinations[done.destination]
        if root is not None and destination.stage_root.parent != root:
            continue
        location = destination.stage(staged.plan.table, staged.plan.value)
        inside = {Path(name).parts[0] for name in done.index_files}
        yield from (location / name for name in fs.names(location) if name not in inside)
        yield from (location / name for name in done.index_files)


def _sync_and_read(
    place: TablePlace, record: MergeRecord, guards: dict[Path, SyncGuard], run: Run[Any, Any], staged: _Staged
) -> list[Found] | None:
    """Stores the record, then syncs; several workers compare the sources meanwhile, and read column files back.

    Returns what was read; None: one worker does both after the sync.
    """
    fs = place.fs

    def sync() -> None:
        store_record(place, record)  # which waits for the disk where it is busy with the files
        _sync(fs, guards, [staged])

    if staged.plan.options.workers == 1:
        sync()
        return None
    from concurrent.futures import ThreadPoolExecutor  # which one worker does not need

    with ThreadPoolExecutor(1) as syncing:
        synced = syncing.submit(sync)
        with in_phase("merge-check"):
            _verify(fs, run, staged)
            read_back = _read_back(fs, run, staged)
        synced.result()
    return read_back


def _verify(fs: Fs, run: Run[Any, Any], staged: _Staged) -> None:
    plan = staged.plan
    if plan.options.verify_sources:
        verified = set().union(*(piece.verified for piece in staged.written))
        for _ in run(partial(verify_file, fs), source_files(plan, verified)):
            pass


def _check(
    fs: Fs, task: WholeDate, run: Run[Any, Any], staged: _Staged, read_back: list[Found] | None = None
) -> MergeRecord:
    plan = task.plan
    if read_back is None:
        _verify(fs, run, staged)
        read_back = _read_back(fs, run, staged)
    columns = [part for part in read_back if isinstance(part, ColumnFound)]
    rows = [part for part in read_back if isinstance(part, RowsFound)]
    columns = [replace(column, digest=_digest_of(column, rows)) for column in columns]
    if plan.format != "deephaven":
        (parquet, parquet_rows), checks = _read_parquet(fs, plan, run, staged), _index_checks(staged)
        columns = _agreed(plan, columns, parquet) if columns else parquet
        _require_rows(plan, rows, parquet_rows)
        rows = rows or parquet_rows
        for _ in run(partial(check_index, fs), checks) if checks else ():
            pass
    digests_in = total(part.digests for part in staged.written)
    digests_out = total({column.column: column.digest} for column in columns)
    proof = Proof(
        rows_in=plan.rows + plan.left_out.rows,
        rows_out=sum(done.rows for done in staged.finished),
        digests_in=as_hex(digests_in, plan.schema),
        digests_out=as_hex(digests_out, plan.schema),
        left_out=plan.left_out,
    )
    if not proof.holds:
        raise proof_failure(proof, f"{plan.table} {plan.value}")
    outputs = tuple(_output(fs, plan, done, columns, rows, task.now_ms) for done in staged.finished)
    return replace(task.record, phase=MergePhase.CHECK, outputs=outputs, proof=proof)


def _index_checks(staged: _Staged) -> list[IndexCheck]:
    return [IndexCheck(staged.plan, done, columns) for done in staged.finished for columns in done.indexes]


def _read_back(fs: Fs, run: Run[Any, Any], staged: _Staged) -> list[Found]:
    """What is in column files; those of Parquet alone have none."""
    plan = staged.plan
    if plan.format == "parquet":
        return []
    tasks: list[IndexCheck | ColumnTask | RowTask] = []
    tasks += (ColumnTask(plan, done, column) for done in staged.finished for column in plan.columns)
    tasks += _row_tasks(staged)
    # DuckDB has proved table.parquet before it is compared with
    tasks += _index_checks(staged) if plan.format == "deephaven" else ()
    longest_first = sorted(tasks, key=lambda task: -task.size())
    return [part for part in at_once(run, plan)(partial(read_part, fs), longest_first) if part is not None]


def _row_tasks(staged: _Staged) -> list[RowTask]:
    """The rows of every destination; those of a large date are spread over the workers."""
    plan = staged.plan
    parts = plan.options.workers if plan.ranges() > 1 else 1
    return [task for done in staged.finished for task in row_tasks(plan, done, parts)]


def read_part(fs: Fs, task: IndexCheck | ColumnTask | RowTask) -> Found | None:
    """A task of the check: a column is read back, or rows, or an index, of which nothing is left to tell."""
    if isinstance(task, ColumnTask):
        return check_column(fs, task)
    if isinstance(task, RowTask):
        return check_rows(fs, task)
    check_index(fs, task)
    return None


def _read_parquet(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], staged: _Staged
) -> tuple[list[ColumnFound], list[RowsFound]]:
    """What DuckDB reads of every column and of the rows of every destination, by tasks as column files have them."""
    from sparkhaven.writers.merge.write.parquet_check import (  # only merges into Parquet need DuckDB
        ParquetCheck,
        check_parquet,
    )

    parts = plan.options.workers if plan.ranges() > 1 else 1
    shares = [plan.columns[first::parts] for first in range(min(parts, len(plan.columns)))]
    tasks = [ParquetCheck(plan, done, share) for done in staged.finished for share in shares]
    columns = [column for columns in run(partial(check_parquet, fs), tasks) for column in columns]
    return columns, list(run(partial(check_parquet_rows, fs), _row_tasks(staged)))


def _require_rows(plan: MergePlan, rows: Sequence[RowsFound], parquet: Sequence[RowsFound]) -> None:
    """ValidationFailedError: ``table.parquet`` has other rows than the column files beside it, if there are any."""
    for one in {part.destination for part in rows}:
        here, there = (_rows_of(parts, one) for parts in (rows, parquet))
        if here != there:
            raise ValidationFailedError(
                f"{PARQUET} has other rows than the column files beside it",
                where=f"{plan.table} {plan.value}",
                expected=to_hex(here),
                found=to_hex(there),
                hint="nothing was published. Merge the date again",
                phase="check",
            )


def _digest_of(column: ColumnFound, rows: Sequence[RowsFound]) -> int:
    """The digest of a column that was read back, or of its values that were read with the rows."""
    own = (part for part in rows if part.destination == column.destination)
    return add(column.digest, *(part.columns.get(column.column, 0) for part in own))


def _rows_of(parts: Sequence[RowsFound], destination: int) -> int:
    return add(*(part.digest for part in parts if part.destination == destination))


def _agreed(plan: MergePlan, columns: Sequence[ColumnFound], parquet: Sequence[ColumnFound]) -> list[ColumnFound]:
    """What was found in column files. ValidationFailedError: ``table.parquet`` beside them has other values."""
    other = {(column.destination, column.column): column.digest for column in parquet}
    for column in columns:
        if other[column.destination, column.column] != column.digest:
            raise ValidationFailedError(
                f"column {column.column} has other values in {PARQUET} than in its column files",
                where=f"{plan.table} {plan.value}",
                expected=to_hex(column.digest),
                found=to_hex(other[column.destination, column.column]),
                hint="nothing was published. Merge the date again",
                phase="check",
            )
    return list(columns)


def _output(
    fs: Fs,
    plan: MergePlan,
    done: Finished,
    columns: Sequence[ColumnFound],
    rows: Sequence[RowsFound],
    now_ms: int,
) -> MergeOutput:
    mine = [column for column in columns if column.destination == done.destination]
    files: dict[str, FileState] = {}
    for column in mine:
        files |= column.files
    destination = plan.destinations[done.destination]
    location = destination.stage(plan.table, plan.value)
    indexes = {name: file_state(fs, location / name) for name in done.index_files}
    if plan.format != "deephaven":
        files[PARQUET] = file_state(fs, location / PARQUET)
    fs.write_new(location / table_size.NAME, size_record(plan, done, files, now_ms))
    digests = as_hex({column.column: column.digest for column in mine}, plan.schema)
    stats, row_digest = {c.column: c.stats for c in mine}, to_hex(_rows_of(rows, done.destination))
    written = digests, files, stats, indexes, row_digest
    return MergeOutput(destination.internal, done.rows, *written, named_by=plan.schema.version)


def _sync_sizes(fs: Fs, checked: Sequence[tuple[WholeDate, MergeRecord | Failure]]) -> None:
    locations = []
    for task, record in checked:
        if isinstance(record, MergeRecord):
            plan, internals = task.plan, {output.internal for output in record.outputs}
            locations += [d.stage(plan.table, plan.value) for d in plan.destinations if d.internal in internals]
    fs.sync([location / table_size.NAME for location in locations])
    fs.sync_dirs(locations)


def proof_failure(proof: Proof, where: str) -> ValidationFailedError:
    """The error for a proof that does not hold, with the differing columns."""
    differing = [name for name, digest in proof.digests_in.items() if proof.digests_out.get(name) != digest]
    return ValidationFailedError(
        "the merged rows differ from the source rows",
        where=where,
        expected=f"{proof.rows_in} rows, equal digests",
        found=f"{proof.rows_out} rows, other digests in {', '.join(differing) or 'no column'}",
        hint="nothing was published. Run `sparkhaven verify --deep` and merge again",
        phase="check",
    )
