"""One micro-batch from splits to a committed epoch, in numbered steps, without Spark.

1. ``check-lease``    this process still owns the stream; committed splits are left out
2. ``cut-tails``      in each task and location: bytes of earlier attempts are truncated
3. ``append``         symbol bytes, symbol ends, blob bytes, then ``.dat``
4. ``sync-files``, ``sync-dirs``    content first, then new directory entries
5. ``collect``        the driver collects reports and combines the rows of several tasks at one location
6. ``quarantine``     rejected rows within the error budget are written to quarantine, else the batch fails
7. ``commit-record``  one record in the commit log, synced: the commit point
8. ``publish``        ``table.size`` of every changed location; recovery repeats it where it is missing
9. ``notify``         reports the outcome

Steps 2 to 4 are ``writers.batch.task``; the ``execute`` argument decides how tasks run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.file_positions import Resolution
from sparkhaven.store.epochs.state.log_values import REJECTED, Batch, OffsetRange, Split
from sparkhaven.store.errors import CommitError, EpochConflictError, ErrorBudgetExceeded
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.collect import Collected, collect
from sparkhaven.writers.batch.file_parts import by_position, classified
from sparkhaven.writers.batch.scratch import running, scratch_name
from sparkhaven.writers.batch.task import TaskResult
from sparkhaven.writers.task.decoding import Decode, RejectedFile, SplitNotes
from sparkhaven.writers.task.target import StreamTarget

Execute = Callable[[str, Mapping[Split, Split | None]], Sequence[TaskResult]]
"""Runs the tasks of a batch: (scratch name, what to read instead of committed splits) -> one result per task."""

CheckBudget = Callable[[SplitNotes, int], None]
"""Takes the rejected rows and the number of good ones; raises ErrorBudgetExceeded for too many rejected rows."""

AddToQuarantine = Callable[[Sequence[RejectedFile], int], None]
"""Writes rejected rows to quarantine: (scratch files, epoch to be committed). Durable on return."""


@frozen
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


@frozen
class BatchRequest:
    """What is to be committed as one batch, and who is asked and told.

    ``proposed`` are the splits, if known in advance: committed ones are skipped, and without others no task runs.
    Otherwise the tasks report what they read, and a committed split among it is an EpochConflictError. ``allow_gap``
    records missing offsets between the committed end and the batch as a gap in the epoch. ``decode`` is the tasks'
    decoder, to read rows again that are found late while results are combined. ``again``: a batch during which a
    location was truncated or deleted runs once more.
    """

    execute: Execute
    query_id: str
    batch_id: int
    proposed: Sequence[Split] | None = None
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    allow_gap: bool = False
    decode: Decode | None = None
    again: bool = True
    notify: Callable[[BatchOutcome], None] = lambda outcome: None


def write_batch(
    fs: Fs, log: StreamLog, target: StreamTarget, memory: WorkerCache, request: BatchRequest
) -> BatchOutcome:
    """Runs the nine steps for one batch. Errors of tasks and of each step: nothing was committed, unless they say so.

    If a location was truncated or deleted while the batch ran, the batch runs once more from its splits; then the rows
    of that location are late and all others are committed.
    """
    started = time.perf_counter()
    scratch = scratch_name(target, request.batch_id)
    resolution = check_lease(fs, log, target, request.proposed, allow_gap=request.allow_gap)
    if resolution is not None and not resolution.fresh:
        replayed = len(by_position((*resolution.taken, *resolution.below)))
        outcome = BatchOutcome(request.batch_id, epoch=None, replayed=replayed)
    else:
        removals = log.removals_end
        attempt = partial(_attempt, fs, log, target, memory, request, resolution, started)
        try:
            outcome = attempt(scratch)
        except EpochConflictError:
            log.refresh()
            # with the scratch directory still there, a task of the first attempt could go on writing
            left = fs.stat(target.scratch(scratch)) is not None
            if not request.again or log.removals_end == removals or left:
                raise
            outcome = attempt(f"{scratch}-again")
    with fs.during("notify"):
        request.notify(outcome)
    return outcome


def _attempt(
    fs: Fs,
    log: StreamLog,
    target: StreamTarget,
    memory: WorkerCache,
    request: BatchRequest,
    resolution: Resolution | None,
    started: float,
    scratch: str,
) -> BatchOutcome:
    """Steps 2 to 8, with a scratch directory of this name."""
    with running(fs, target.scratch(scratch)):
        results = request.execute(scratch, resolution.instead if resolution is not None else {})
        expected = resolution.fresh if resolution else None
        collected = collect(fs, target, memory, results, scratch, expected=expected, decode=request.decode)
        appended = time.perf_counter()
        quarantine_rejected(fs, collected, request.check_budget, request.quarantine, log.state.epoch + 1)
        quarantined = time.perf_counter()
        gaps = log.state.offsets.jumps(collected.ranges) if request.allow_gap else ()
        epoch = commit_record(fs, log, target, collected, request.query_id, request.batch_id, gaps)
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
        passed=passed_offsets(gaps),
        counts=dict(collected.notes.counts),
        seconds={
            **collected.seconds,
            "tasks": appended - started,
            **({"quarantine": quarantined - appended} if collected.notes.rejected_rows else {}),
            "commit": committed - quarantined,
            "publish": time.perf_counter() - committed,
        },
        bytes=sum(file.size for file in collected.files),
        empty=_empty_columns(target.schema, collected),
        written=collected.written,
    )


def passed_offsets(gaps: Iterable[OffsetRange]) -> int:
    return sum(max(0, gap.stop - gap.start) for gap in gaps)


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


def quarantine_rejected(
    fs: Fs, collected: Collected, check_budget: CheckBudget | None, quarantine: AddToQuarantine | None, epoch: int
) -> None:
    """Step 6. ErrorBudgetExceeded, nothing committed: too many rejected rows, or any without ``check_budget``.

    The same for rejected rows that cannot be written to quarantine.
    """
    notes = collected.notes
    with fs.during("quarantine"):
        if not notes.rejected_rows:
            return
        (check_budget or refuse_all)(notes, collected.rows)
        if quarantine is None or sum(file.rows for file in notes.rejected_files) != notes.rejected_rows:
            refuse_all(notes, collected.rows)
        else:
            quarantine(notes.rejected_files, epoch)


def refuse_all(notes: SplitNotes, rows: int) -> None:
    """The check of ``max_rows = 0``: raises with the first bad row."""
    first = notes.rejected[0] if notes.rejected else "no sample"
    raise ErrorBudgetExceeded(
        f"{notes.rejected_rows} rows of the batch are bad, none is allowed. Nothing was committed",
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
    query_id: str,
    batch_id: int,
    gaps: tuple[OffsetRange, ...] = (),
) -> int:
    """Step 7, the commit point. Returns the new epoch; errors as ``StreamLog.commit``."""
    notes = collected.notes
    batch = Batch(
        query_id=query_id,
        batch_id=batch_id,
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


def _empty_columns(schema: TableSchema, collected: Collected) -> tuple[str, ...]:
    names = (schema.labels.get(name, name) for name in collected.empty)
    return tuple(name for name in names if schema.column(name) is not None)
