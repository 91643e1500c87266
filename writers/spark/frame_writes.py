"""Commits a data frame as an epoch: batches of any streaming query, or a frame that is written once.

Exactly once, in one of two ways, by the resume rules (``ResumeRule``):

*Positions* in columns of the rows, like partition and offset of Kafka. Rows below the committed end are dropped (R4,
R5); a gap before or among the others is a PositionGapError (R6), or recorded if gaps are allowed. Spark's checkpoint
is not trusted: it may be deleted, older, or torn.

*Identity* of the batch as idempotency key: (query, batch id, digest of the content). A committed batch is a no-op if
its digest is the same (R2), and a PositionGapError if the digest differs (R3) or is no longer known. Here the rows
depend on Spark's checkpoint. If it is lost, a new query starts, whose first batch may have committed rows: refused
unless ``adopt`` is set. If it is older, Spark plans a batch again, with other rows under the same id: refused by its
digest, until the stream is rolled back to the epoch before that batch.

*Leased writes.* One process begins the write of a frame, tasks write, another process commits it. Spark runs the
driver's part of a data source in a process per call, and none while the tasks run. So the lock of the stream is not
held in between; a lease stands for it:

1. *begin*   opens the stream, which starts a generation and recovers, makes a scratch directory, and leaves the
             generation (``StreamLog.hand_over``)
2. *tasks*   as those of any frame: they check the generation and the scratch directory under the lock of a location
3. *commit*  takes the generation over, if no other process has opened the stream and the log has not grown, and runs
             the steps after the tasks

Whoever opens the stream in between ends the write: its tasks are fenced off, its commit is a LockLostError, and its
bytes are tails, which the next writer truncates. The same holds for a write whose processes were killed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sparkhaven.store.digest import add, to_hex
from sparkhaven.store.epochs.files.logfile import Lease
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.reading.stream_state import list_epochs
from sparkhaven.store.epochs.state.file_positions import refuse_lost_log
from sparkhaven.store.epochs.state.log_values import OffsetRange, PositionKind, PositionSource, source_of
from sparkhaven.store.epochs.state.resume_rules import ResumeRule
from sparkhaven.store.errors import EpochConflictError, PositionGapError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.collect import Combining, collect
from sparkhaven.writers.batch.commit import (
    AddToQuarantine,
    BatchOutcome,
    BatchRequest,
    CheckBudget,
    check_lease,
    check_rejected,
    commit_rows,
)
from sparkhaven.writers.batch.scratch import begin_scratch, ending, remove_scratch, running, scratch_name
from sparkhaven.writers.batch.task import TaskResult
from sparkhaven.writers.spark.frame_task import (
    DecodeRows,
    FrameResult,
    FrameWork,
    PositionColumns,
    SpilledFrames,
    frame_task,
    write_rows,
)
from sparkhaven.writers.spark.spark_tasks import run_tasks, task_number
from sparkhaven.writers.task import StreamTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_CACHE = WorkerCache()  # of a worker process, which Spark reuses for many tasks


@dataclass(frozen=True, slots=True)
class FramePlan:
    """How to write frames of a stream. ``check_budget`` accepts or refuses rejected rows, ``quarantine`` stores them.

    ``allow_gap`` is for positions, ``adopt`` for identities.
    """

    decode: DecodeRows
    positions: PositionColumns | None = None
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    allow_gap: bool = False
    adopt: bool = False


@dataclass(frozen=True, slots=True)
class FrameSource:
    """Where a batch comes from. ``identity`` is for frames without positions; None writes the rows unconditionally."""

    query_id: str
    batch_id: int
    identity: OffsetRange | None = None


def batch_of_query(query_id: str, batch_id: int) -> OffsetRange:
    return OffsetRange(PositionSource(PositionKind.BATCHES, query_id).topic, 0, batch_id, batch_id + 1)


def labelled(label: str | None) -> OffsetRange | None:
    """The identity of a frame that is written once under this label; None without one."""
    return OffsetRange(PositionSource(PositionKind.LABEL, label).topic, 0, 0, 1) if label is not None else None


@dataclass(frozen=True, slots=True)
class FrameCommits:
    """A stream that is open for writing, and how frames become its epochs. ``memory``: of the process that commits."""

    fs: Fs
    log: StreamLog
    target: StreamTarget
    plan: FramePlan
    memory: WorkerCache = field(default_factory=WorkerCache)

    def write(self, run: Callable[[FrameWork, str], Sequence[FrameResult]], source: FrameSource) -> BatchOutcome:
        """Commits the new rows of a frame as one epoch; ``epoch`` of the outcome is None if there are none.

        ``run`` runs its tasks, with a scratch directory of this name; a task without rows has no result.
        PositionGapError, ErrorBudgetExceeded, errors of tasks: nothing was committed.
        """
        check_lease(self.fs, self.log, self.target, None)
        scratch = scratch_name(self.target, source.batch_id)
        work = self.work_of(source.identity)
        with nullcontext() if work.only_look else running(self.fs, self.target.scratch(scratch)):
            return self.commit(run(work, scratch), scratch, source)

    def work_of(self, identity: OffsetRange | None) -> FrameWork:
        """What the tasks do: write the new rows, or only compute the digest of a batch that is committed already.

        PositionGapError: a batch of this identity cannot be known.
        """
        plan, state = self.plan, self.log.state
        origin = f"epoch {state.epoch + 1}" if identity is None else f"{identity.topic}/{identity.start}"
        if self._is_replay(identity):
            return FrameWork(plan.decode, None, {}, only_look=True, origin=origin)
        ends = {source: end.stop for source, end in state.offsets.items()} if plan.positions else {}
        return FrameWork(plan.decode, plan.positions, ends, dense=not plan.allow_gap, origin=origin)

    def commit(self, results: Sequence[FrameResult], scratch: str, source: FrameSource) -> BatchOutcome:
        """The steps after the tasks: collect, check, quarantine, commit and publish. Errors as ``write``."""
        fs, log, target, plan, identity = self.fs, self.log, self.target, self.plan, source.identity
        _raise_first(results)
        if identity is not None and self._is_replay(identity):
            require_same(fs, log, target, replace(identity, digest=_digest(results)))
            return BatchOutcome(source.batch_id, epoch=None, replayed=1)
        if identity is not None and identity.source.kind is PositionKind.LABEL and not results:
            return BatchOutcome(source.batch_id, epoch=None)  # no rows: the label stays free for those that come later
        if any(part.looked for part in results):
            raise EpochConflictError(
                "tasks skipped this batch as committed, but the log does not have it",
                where=f"stream {target.stream}",
                hint="run the query again. Nothing of this batch was committed",
            )
        dropped = sum(part.dropped for part in results)
        if plan.positions is not None:
            ranges = joined((taken for part in results for taken in part.ranges), dense=not plan.allow_gap)
            if not ranges:
                return BatchOutcome(source.batch_id, epoch=None, replayed=1 if dropped else 0)
        else:
            ranges = (replace(identity, digest=_digest(results)),) if identity is not None else ()
        kept = {part.result.index: part.kept for part in results if part.kept is not None}
        again = SpilledFrames(fs, plan.decode, kept) if kept else None
        combining = Combining(fs, target, self.memory, scratch, again, log.reopen)
        collected = collect(combining, [part.result for part in results])
        collected.splits = ranges
        collected.notes.count("rows_committed_before", dropped)
        check_rejected(fs, collected, plan.check_budget)
        rules = BatchRequest(
            None, source.query_id, source.batch_id, quarantine=plan.quarantine, allow_gap=plan.allow_gap
        )
        outcome = commit_rows(fs, log, target, collected, rules)
        return outcome if plan.positions is not None else replace(outcome, messages=0)  # batches and labels are none

    def _is_replay(self, identity: OffsetRange | None) -> bool:
        if identity is None or self.plan.positions is not None:
            return False
        return is_committed(self.log, self.target, identity, adopt=self.plan.adopt)

    def begin(
        self, columns: Sequence[str], identity: OffsetRange | None = None, begun: int | None = None
    ) -> LeasedWrite:
        """Begins a write on the open log, which it closes.

        ``identity``: None if only the tasks know their batch. ``begun``: as in ``Ticket``.
        """
        work, offsets = self.work_of(identity), self.log.state.offsets
        batches = {
            topic: offsets[topic, partition].stop
            for topic, partition in offsets
            if source_of(topic).kind is PositionKind.BATCHES
        }
        scratch = scratch_name(self.target, 0)
        begin_scratch(self.fs, self.target.scratch(scratch))
        return LeasedWrite(Ticket(self.log.hand_over(), self.target, scratch, begun), work, tuple(columns), batches)

    def commit_write(self, ticket: Ticket, results: Sequence[FrameResult], source: FrameSource) -> BatchOutcome:
        """Commits a write on a log that has taken over its lease; errors as ``write``."""
        with ending(self.fs, self.target.scratch(ticket.scratch)):
            return self.commit(results, ticket.scratch, source)


def run_frame(fs: Fs, target: StreamTarget, frame: DataFrame, work: FrameWork, scratch: str) -> list[FrameResult]:
    """Runs the tasks of a frame; a task without rows has no result."""
    task = partial(frame_task, fs, _CACHE, target, work, scratch)
    rows = run_tasks(frame, task, "result binary")
    return [pickle.loads(row.result) for row in rows]  # noqa: S301 our own tasks have written it


def joined(ranges: Iterable[OffsetRange], *, dense: bool) -> tuple[OffsetRange, ...]:
    """One range per source partition. PositionGapError: there is a gap, with ``dense``."""
    whole: list[OffsetRange] = []
    for part in sorted(ranges):
        last = whole[-1] if whole else None
        if last is None or (last.topic, last.partition) != (part.topic, part.partition):
            whole.append(part)
            continue
        if dense and part.start > last.stop:
            raise PositionGapError(
                "offsets are missing among the rows of a batch",
                where=last.path,
                expected=f"offset {last.stop}",
                found=f"offset {part.start}",
                rule=ResumeRule.GAP.cited,
                hint="set allow_gap if the query filters rows, or the topic is compacted or transactional",
            )
        whole[-1] = replace(last, stop=max(last.stop, part.stop))
    return tuple(whole)


def is_committed(log: StreamLog, target: StreamTarget, identity: OffsetRange, *, adopt: bool) -> bool:
    """Whether the log has a batch of this identity. PositionGapError: that cannot be known (R6, R8)."""
    partition, offsets = (identity.topic, identity.partition), log.state.offsets
    if partition in offsets:
        end = offsets[partition].stop
        if identity.start > end:
            raise PositionGapError(
                "batches of this query are missing in the log",
                where=f"stream {target.stream}",
                expected=f"batch {end}",
                found=f"batch {identity.start}",
                rule=ResumeRule.GAP.cited,
                hint="if the stream was rolled back, roll back Spark's checkpoint too: remove all batches after"
                f" {end - 1} from its directories `offsets` and `commits`",
            )
        return identity.start < end
    sources = [source_of(topic) for topic, _ in offsets]
    others = sorted(source.name for source in sources if source.kind is PositionKind.BATCHES)
    if identity.source.kind is PositionKind.BATCHES and not adopt:
        refuse_lost_log(target.stream, log.state.epoch, identity.start)
        if others:
            raise PositionGapError(
                "another query has written this stream, and rows without positions do not show what it has committed",
                where=f"stream {target.stream}",
                expected=others[-1],
                found=identity.source.name,
                hint="restore Spark's checkpoint, or set adopt if the new query starts where the old one ended",
            )
    return False


def _back(target: StreamTarget, epoch: int) -> str:
    return f"`sparkhaven epochs rollback {target.table} {target.stream} --to {epoch - 1}`"


def require_same(fs: Fs, log: StreamLog, target: StreamTarget, again: OffsetRange) -> None:
    """A repeated batch must have the digest of the committed one, which must still be known."""
    entries = list_epochs(target.place(fs))
    known = {
        part.start: (part.digest, entry.epoch)
        for entry in entries
        if entry.live
        for part in entry.ranges
        if part.topic == again.topic
    }
    end = log.state.offsets[again.topic, again.partition]
    digest, epoch = known.get(again.start, (end.digest if end.last_start == again.start else "", 0))
    if digest == again.digest:
        return
    if again.source.kind is PositionKind.LABEL:
        raise PositionGapError(
            "other rows were written under this label",
            where=f"stream {target.stream}, label {again.source.name}",
            expected=f"digest {digest}" if digest else "an epoch above the rollback floor",
            found=f"digest {again.digest}",
            rule=ResumeRule.CHANGED.cited,
            hint="write them under another label"
            + (f", or go back before them: {_back(target, epoch)}" if epoch else ""),
        )
    back = f"go back before it and restart: {_back(target, epoch)}" if epoch else "restore the checkpoint"
    raise PositionGapError(
        "a committed batch was repeated with other rows: Spark planned it again, or the source is not repeatable",
        where=f"stream {target.stream}, batch {again.start}",
        expected=f"digest {digest}" if digest else "an epoch above the rollback floor",
        found=f"digest {again.digest}",
        rule=ResumeRule.CHANGED.cited,
        hint=f"if Spark's checkpoint is older than the commit log, {back}",
    )


def _raise_first(results: Sequence[FrameResult]) -> None:
    for part in results:
        if part.result.error is not None:
            raise part.result.error


def _digest(results: Sequence[FrameResult]) -> str:
    return to_hex(add(*(part.digest for part in results)))


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the commit of a write must know; pickles. ``begun``: the epoch that a new stream began at, else None."""

    lease: Lease
    target: StreamTarget
    scratch: str
    begun: int | None = None


@dataclass(frozen=True, slots=True)
class LeasedWrite:
    """What the tasks of a write must know; pickles.

    ``columns``: those of the frame that are used. ``batches``: number of committed batches by query.
    """

    ticket: Ticket
    work: FrameWork
    columns: tuple[str, ...]
    batches: Mapping[str, int]


def write_task(
    fs: Fs, memory: WorkerCache, write: LeasedWrite, identity: OffsetRange | None, batches: Iterator[pa.RecordBatch]
) -> FrameResult | None:
    """Runs one task; None without rows. ``identity``: the batch of the query, if the write has begun without one."""
    work, ticket = write.work, write.ticket
    if identity is not None and work.positions is None:
        committed = identity.start < write.batches.get(identity.topic, 0)
        work = replace(work, only_look=committed, origin=f"{identity.topic}/{identity.start}")
    used = (batch.select(write.columns) for batch in batches)
    try:
        return write_rows(fs, memory, ticket.target, work, ticket.scratch, used)
    except SparkhavenError as error:
        return failed(error)


def failed(error: SparkhavenError) -> FrameResult:
    return FrameResult(TaskResult(task_number()[0], error=error))


def abort_write(fs: Fs, ticket: Ticket) -> None:
    """Fences off the tasks of a write and removes its scratch files; after a commit it changes nothing."""
    remove_scratch(fs, ticket.target.scratch(ticket.scratch))
