"""One micro-batch from splits to a committed epoch, in numbered steps, without Spark.

1. ``check-lease``    this process owns the stream; committed splits are left out. First: nothing is written by a
                      writer that was replaced
2. ``cut-tails``      bytes of earlier attempts are truncated. Before the append: they must not lie between rows
3. ``append``         symbol bytes, symbol ends, blob bytes, then ``.dat``: what is named before what names it
4. ``sync-files``, ``sync-dirs``    content first, then new directory entries, so that a name never leads
                      to a file without its bytes
5. ``collect``        the driver combines the rows of several tasks at one location. After the sync: a report says what
                      is on disk
6. ``quarantine``     rejected rows within the error budget are written, else the batch fails. Before the commit: after
                      it the source is not read again, and they would be lost
7. ``commit-record``  one record with rows and positions, synced: the commit point. All that it names is durable by now
8. ``publish``        ``table.size`` of every changed location. After the commit, from which it is derived; recovery
                      repeats it where it is missing
9. ``notify``         reports the outcome. Last: what is reported has happened

Steps 2 to 4 are ``writers.batch.task``; the ``execute`` argument decides how tasks run.

The module also has what is done between batches: syncs of mode ``periodic``, and compaction of the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.log_values import REJECTED, Batch, LocationReport, LocationState, OffsetRange, Split
from sparkhaven.store.errors import CommitError, EpochConflictError, ErrorBudgetExceeded, SparkhavenError, counted
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.collect import Collected, Combining, by_position, classified, collect
from sparkhaven.writers.batch.scratch import ending, running, scratch_name
from sparkhaven.writers.batch.task import TaskResult, TaskTable
from sparkhaven.writers.task import Decode, RejectedFile, SplitNotes, StreamTarget

Execute = Callable[[str, Mapping[Split, Split | None]], Sequence[TaskResult]]
"""Runs the tasks of a batch: (scratch name, what to read instead of committed splits) -> one result per task."""

CheckBudget = Callable[[SplitNotes, int], None]
"""Takes the rejected rows and the number of good ones; raises ErrorBudgetExceeded for too many rejected rows."""

AddToQuarantine = Callable[[Sequence[RejectedFile], int], None]
"""Writes rejected rows to quarantine: (scratch files, epoch to be committed). Durable on return."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of a batch. ``epoch`` None: all of it was committed before (``replayed`` splits).

    ``splits`` were read, among them ranges with ``messages`` offsets; ``passed`` are permitted missing offsets before
    them. ``bytes``: size of the files among the splits. ``empty``: columns without a value in any row.
    """

    batch_id: int
    epoch: int | None
    rows: int = 0
    rejected: int = 0
    splits: int = 0
    replayed: int = 0
    locations: int = 0
    messages: int = 0
    passed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    bytes: int = 0
    empty: tuple[str, ...] = ()
    written: int = 0


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What is to be committed as one batch, and who is asked and told.

    ``proposed`` are the splits, if known in advance: committed ones are skipped, and without others no task runs.
    Otherwise the tasks report what they read, and a committed split among it is an EpochConflictError. ``allow_gap``
    records missing offsets between the committed end and the batch as a gap in the epoch. ``decode`` is the tasks'
    decoder, to read rows again that are found late while results are combined. ``again``: a batch during which a
    location was truncated or deleted runs once more. ``execute`` None: its tasks run for several tables together.
    """

    execute: Execute | None
    query_id: str
    batch_id: int
    proposed: Sequence[Split] | None = None
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    allow_gap: bool = False
    decode: Decode | None = None
    again: bool = True
    notify: Callable[[BatchOutcome], None] = lambda outcome: None


@dataclass(frozen=True, slots=True)
class TableBatch:
    """What a batch is to one table of a feed: where its rows go, and what is to be committed."""

    log: StreamLog
    target: StreamTarget
    memory: WorkerCache
    request: BatchRequest


ExecuteTables = Callable[[Mapping[int, TaskTable]], Sequence[Mapping[int, TaskResult]]]
"""Runs the tasks of a batch for some tables, by number; a result of each task for each of them."""


def write_batch(
    fs: Fs, log: StreamLog, target: StreamTarget, memory: WorkerCache, request: BatchRequest
) -> BatchOutcome:
    """Runs the nine steps for one batch. Errors of tasks and of each step: nothing was committed, unless they say so.

    If a location was truncated or deleted while the batch ran, the batch runs once more from its splits; then the rows
    of that location are late and all others are committed. Where the stream takes late rows, so are they.
    """

    def execute(tables: Mapping[int, TaskTable]) -> list[dict[int, TaskResult]]:
        assert request.execute is not None  # noqa: S101  a batch of one table has its own
        return [{0: result} for result in request.execute(tables[0].scratch, tables[0].instead)]

    return write_tables(fs, [TableBatch(log, target, memory, request)], execute)[0]


def write_tables(
    fs: Fs,
    tables: Sequence[TableBatch],
    execute: ExecuteTables,
    before_commit: Callable[[], None] = lambda: None,
    *,
    here: bool = False,
) -> list[BatchOutcome]:
    """Writes a batch of several tables, whose tasks run together; each table has an epoch of its own.

    No table commits before the tasks of all have ended, and the rejected rows of all are within their budgets. Then
    ``before_commit`` is called, and they commit in order. Where one fails, those before it have committed: a repeat
    leaves their rows out.

    ``here``: the only task is ``alone`` in this process, and ended when ``execute`` returns. No scratch directory is
    made to fence it off; one that it makes is removed.
    """
    started = time.perf_counter()
    batch = _Batch(fs, execute, before_commit, started, here)
    names = [scratch_name(table.target, table.request.batch_id) for table in tables]
    ends = [table.log.removals_end for table in tables]
    try:
        batch.attempt(tables, names)
    except EpochConflictError:
        for table in tables:
            table.log.refresh()
        removed = any(table.log.removals_end != end for table, end in zip(tables, ends, strict=True))
        # with a scratch directory still there, a task of the first attempt could go on writing
        left = any(fs.stat(table.target.scratch(name)) is not None for table, name in zip(tables, names, strict=True))
        if not all(table.request.again for table in tables) or not removed or left:
            raise
        batch.attempt(tables, [f"{name}-again" for name in names])
    return [batch.outcomes[number] for number in range(len(tables))]


class _Batch:
    """A batch of some tables, by number. ``outcomes``: of those that are done, which a second attempt leaves out."""

    def __init__(
        self, fs: Fs, execute: ExecuteTables, before_commit: Callable[[], None], started: float, here: bool
    ) -> None:
        self._fs, self._execute, self._before_commit, self._started = fs, execute, before_commit, started
        self._here = here
        self.outcomes: dict[int, BatchOutcome] = {}

    def attempt(self, tables: Sequence[TableBatch], names: Sequence[str]) -> None:
        """All steps, with scratch directories of these names."""
        fresh: dict[int, Resolution | None] = {}
        for number, table in enumerate(tables):
            if number in self.outcomes:
                continue
            request = table.request
            resolution = check_lease(self._fs, table.log, table.target, request.proposed, allow_gap=request.allow_gap)
            if resolution is None or resolution.fresh:
                fresh[number] = resolution
                continue
            replayed = len(by_position((*resolution.taken, *resolution.below)))
            self._done(number, table, BatchOutcome(request.batch_id, epoch=None, replayed=replayed))
        if not fresh:
            return
        committed: dict[int, BatchOutcome] = {}
        try:
            scratch_of = ending if self._here else running
            with ExitStack() as scratch:
                for number in fresh:
                    scratch.enter_context(scratch_of(self._fs, tables[number].target.scratch(names[number])))
                collected = self._collect(tables, names, fresh)
                appended = time.perf_counter()
                for number, rows in collected.items():
                    check_rejected(self._fs, rows, tables[number].request.check_budget)
                self._before_commit()
                for number, rows in collected.items():
                    table = tables[number]
                    rows.seconds["tasks"] = appended - self._started
                    committed[number] = commit_rows(self._fs, table.log, table.target, rows, table.request)
                    appended = time.perf_counter()
        except Exception:
            self._all_done(tables, committed)
            raise
        self._all_done(tables, committed)

    def _all_done(self, tables: Sequence[TableBatch], outcomes: Mapping[int, BatchOutcome]) -> None:
        for number, outcome in outcomes.items():
            self._done(number, tables[number], outcome)

    def _done(self, number: int, table: TableBatch, outcome: BatchOutcome) -> None:
        """Step 9."""
        self.outcomes[number] = outcome
        with self._fs.during("notify"):
            table.request.notify(outcome)

    def _collect(
        self, tables: Sequence[TableBatch], names: Sequence[str], fresh: Mapping[int, Resolution | None]
    ) -> dict[int, Collected]:
        """Steps 2 to 5."""
        parts = {
            number: TaskTable(
                tables[number].target,
                tables[number].request.decode,
                names[number],
                resolution.instead if resolution is not None else {},
                fenced=not self._here,
            )
            for number, resolution in fresh.items()
        }
        results = self._execute(parts)
        return {
            number: collect(
                Combining(
                    self._fs,
                    tables[number].target,
                    tables[number].memory,
                    names[number],
                    tables[number].request.decode,
                    tables[number].log.reopen,
                ),
                [result[number] for result in results],
                resolution.fresh if resolution else None,
            )
            for number, resolution in fresh.items()
        }


def check_lease(
    fs: Fs, log: StreamLog, target: StreamTarget, proposed: Sequence[Split] | None, *, allow_gap: bool = False
) -> Resolution | None:
    """Step 1. LockLostError: fenced off. PositionGapError: the source does not continue where the log ends (R3, R6)."""
    with fs.during("check-lease"):
        target.check_generation(fs)
        if proposed is None:
            return None
        ranges = (split for split in proposed if isinstance(split, OffsetRange))
        gaps = log.state.offsets.jumps(ranges) if allow_gap else ()
        return classified(proposed, lambda positions: log.state.classify(positions, gaps))


def check_rejected(fs: Fs, collected: Collected, check_budget: CheckBudget | None) -> None:
    """The check of step 6. ErrorBudgetExceeded: too many rejected rows, or any without ``check_budget``."""
    with fs.during("quarantine"):
        if collected.notes.rejected_rows:
            (check_budget or refuse_all)(collected.notes, collected.rows)


def quarantine_rejected(fs: Fs, collected: Collected, quarantine: AddToQuarantine | None, epoch: int) -> None:
    """Step 6. ErrorBudgetExceeded, nothing committed: rejected rows that cannot be written to quarantine."""
    notes = collected.notes
    with fs.during("quarantine"):
        if not notes.rejected_rows:
            return
        if quarantine is None or sum(file.rows for file in notes.rejected_files) != notes.rejected_rows:
            refuse_all(notes, collected.rows)
        else:
            quarantine(notes.rejected_files, epoch)


def refuse_all(notes: SplitNotes, rows: int) -> None:
    """The check of ``max_rows = 0``: raises with the first bad row."""
    first = notes.rejected[0] if notes.rejected else "no sample"
    raise ErrorBudgetExceeded(
        f"the batch has {counted(notes.rejected_rows, 'bad row')}, none is allowed. Nothing was committed",
        where=getattr(first, "file", None),
        expected=f"0 bad rows beside {rows} good ones",
        found=first,
        hint="correct the file, or allow bad rows in the stream file",
    )


def commit_record(
    fs: Fs,
    log: StreamLog,
    target: StreamTarget,
    collected: Collected,
    request: BatchRequest,
    gaps: tuple[OffsetRange, ...],
) -> int:
    """Step 7, the commit point. Returns the new epoch; errors as ``StreamLog.commit``."""
    notes = collected.notes
    batch = Batch(
        query_id=request.query_id,
        batch_id=request.batch_id,
        files=collected.files,
        reports=tuple(collected.reports[key] for key in sorted(collected.reports)),
        schema_version=target.schema.version,
        rows=collected.rows,
        counts={**notes.counts, **({REJECTED: notes.rejected_rows} if notes.rejected_rows else {})},
        ranges=collected.ranges,
        gaps=gaps,
    )
    with fs.during("commit-record"):
        return log.commit(batch)


def publish(fs: Fs, log: StreamLog, target: StreamTarget, epoch: int) -> None:
    """Step 8. A failure stops the stream, because the next batch starts from ``table.size``; the epoch is committed."""
    with fs.during("publish"):
        try:
            log.publish(epoch)
        except OSError as error:
            raise CommitError(
                f"epoch {epoch} is committed, but its table.size files cannot be written: {error.strerror or error}",
                where=error.filename or target.layout.intraday(target.table),
                hint="free space or repair the disk, then restart. Recovery publishes it. Nothing is lost or doubled",
            ) from error


def commit_rows(
    fs: Fs, log: StreamLog, target: StreamTarget, collected: Collected, request: BatchRequest
) -> BatchOutcome:
    """Steps 6 to 8 of a batch whose rejected rows are within their budget."""
    begun = time.perf_counter()
    quarantine_rejected(fs, collected, request.quarantine, log.state.epoch + 1)
    quarantined = time.perf_counter()
    gaps = log.state.offsets.jumps(collected.ranges) if request.allow_gap else ()
    epoch = commit_record(fs, log, target, collected, request, gaps)
    committed = time.perf_counter()
    publish(fs, log, target, epoch)
    return BatchOutcome(
        request.batch_id,
        epoch=epoch,
        rows=collected.rows,
        rejected=collected.notes.rejected_rows,
        splits=len(collected.files) + len(collected.ranges),
        replayed=len(by_position(collected.skipped)),
        locations=len(collected.reports),
        messages=sum(read.messages for read in collected.ranges),
        passed=sum(max(0, gap.stop - gap.start) for gap in gaps),
        counts=dict(collected.notes.counts),
        seconds={
            **collected.seconds,
            **({"quarantine": quarantined - begun} if collected.notes.rejected_rows else {}),
            "commit": committed - quarantined,
            "publish": time.perf_counter() - committed,
        },
        bytes=sum(file.size for file in collected.files),
        empty=_empty_columns(target.schema, collected.reports, log.state.locations),
        written=collected.written,
    )


def _empty_columns(
    schema: TableSchema, reports: Mapping[LocationKey, LocationReport], locations: Mapping[LocationKey, LocationState]
) -> tuple[str, ...]:
    """Columns of the schema that are null in all rows of these reports; ``locations``: after them."""
    grown = {key: report for key, report in reports.items() if report.rows > report.base_rows}
    empty = [*schema.stored] if grown else []
    for key, report in grown.items() if empty else ():
        named_by, stats = locations[key].named_by, report.stats
        parts = ((column, stats.get(column.stem(named_by))) for column in empty)
        empty = [c for c, part in parts if part is not None and part.nulls == part.stop - part.start]
    return tuple(column.name for column in empty)


class Maintenance:
    """Maintenance of one open log. ``warn`` is called if there is no space for a compaction; the stream continues."""

    def __init__(
        self,
        log: StreamLog,
        policy: CommitPolicy,
        warn: Callable[[SparkhavenError], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._policy, self._warn, self._clock = log, policy, warn, clock
        self._synced = clock()

    def after_batch(self) -> None:
        """Syncs and compacts if due; raises what ``sync_if_due`` raises."""
        self.sync_if_due()
        self._compact()

    def finish(self) -> None:
        """Completes a compaction that has begun; without it a log of which each process writes few batches only grows.

        Called before the log is closed.
        """
        if self._log.compacting:
            self._compact(now=True)

    def _compact(self, *, now: bool = False) -> None:
        try:
            self._log.compact_if_due(now=now)
        except EpochConflictError as error:  # the log is as it was
            self._warn(error)

    def sync_if_due(self) -> None:
        """Syncs unsynced epochs when the loss window is over; raises what ``StreamLog.sync_now`` raises."""
        due = not self._policy.syncs_each_batch and self._clock() - self._synced >= self._policy.loss_window_s
        if due:
            self._log.sync_now()
            self._synced = self._clock()
