"""One write of a frame by processes that do not live at the same time: one begins it, tasks write, another commits it.

Spark runs the driver's part of a data source in a process per call, and none while the tasks run. So the lock of the
stream is not held in between; a lease stands for it:

1. *begin*   opens the stream, which starts a generation and recovers, makes a scratch directory, and leaves the
             generation (``StreamLog.hand_over``)
2. *tasks*   as those of any frame: they check the generation and the scratch directory under the lock of a location
3. *commit*  takes the generation over, if no other process has opened the stream and the log has not grown, and runs
             the steps after the tasks (``writers.spark.frame_writes``)

Whoever opens the stream in between ends the write: its tasks are fenced off, its commit is a LockLostError, and its
bytes are tails, which the next writer truncates. The same holds for a write whose processes were killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkhaven.store.epochs.files.logfile import Lease
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.position_kinds import PositionKind, source_of
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.batch.scratch import begin_scratch, ending, remove_scratch, scratch_name
from sparkhaven.writers.batch.task import TaskResult
from sparkhaven.writers.spark.frame_task import FrameResult, FrameWork, write_rows
from sparkhaven.writers.spark.frame_writes import FramePlan, FrameSource, commit_frame, work_of
from sparkhaven.writers.spark.spark_tasks import task_number
from sparkhaven.writers.task.target import StreamTarget


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


def begin_write(
    fs: Fs,
    log: StreamLog,
    target: StreamTarget,
    plan: FramePlan,
    columns: Sequence[str],
    identity: OffsetRange | None = None,
    begun: int | None = None,
) -> LeasedWrite:
    """Begins a write on an open log, which it closes.

    ``identity``: None if only the tasks know their batch. ``begun``: as in ``Ticket``.
    """
    work = work_of(log, target, plan, identity)
    offsets = log.state.offsets
    batches = {
        topic: offsets[topic, partition].stop
        for topic, partition in offsets
        if source_of(topic).kind is PositionKind.BATCHES
    }
    scratch = scratch_name(target, 0)
    begin_scratch(fs, target.scratch(scratch))
    return LeasedWrite(Ticket(log.hand_over(), target, scratch, begun), work, tuple(columns), batches)


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


def commit_write(
    fs: Fs, log: StreamLog, ticket: Ticket, results: Sequence[FrameResult], plan: FramePlan, source: FrameSource
) -> BatchOutcome:
    """Commits a write on a log that has taken over its lease; errors as ``frame_writes.write_frame_batch``."""
    with ending(fs, ticket.target.scratch(ticket.scratch)):
        return commit_frame(fs, log, ticket.target, WorkerCache(), results, plan, ticket.scratch, source)


def abort_write(fs: Fs, ticket: Ticket) -> None:
    """Fences off the tasks of a write and removes its scratch files; after a commit it changes nothing."""
    remove_scratch(fs, ticket.target.scratch(ticket.scratch))
