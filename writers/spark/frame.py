"""A data frame becomes an epoch: batches of any streaming query, or a frame that is written once.

Two ways to know what is committed already:

*Positions* in columns of the rows, like partition and offset of Kafka. Rows below the committed end are dropped (R4,
R5), a hole before or among the others is a PositionGapError (R6) unless gaps are allowed, then it is recorded. Nothing
that Spark remembers is trusted: its checkpoint may be deleted, older, or torn.

*Identity* of the batch: (query, batch id, digest of the content). A batch that was committed is a no-op if its digest
is the same (R2), a PositionGapError if it is not (R3), and so is one of which that cannot be told any more. Here the
rows depend on Spark's checkpoint: if it is lost, a new query begins, whose first batch may hold rows that are
committed. It is refused unless ``adopt`` says that it is meant. If it is older, Spark plans a batch anew, with other
rows under the same id: refused by its digest, until the stream is rolled back to the epoch before that batch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from store.digest import add, to_hex
from store.epochs.files.load import list_epochs
from store.epochs.log import StreamLog
from store.epochs.state.files import refuse_lost_log
from store.epochs.state.values import OffsetRange
from store.errors import PositionGapError
from store.io.fs import Fs
from writers.append.empty_location import WorkerCache
from writers.batch.commit import (
    AddToQuarantine,
    BatchOutcome,
    CheckBudget,
    check_lease,
    collect,
    commit_record,
    publish,
    quarantine_rejected,
)
from writers.batch.scratch import running, scratch_name
from writers.spark.frame_task import DecodeRows, FrameResult, FrameWork, PositionColumns, frame_task
from writers.spark.tasks import run_tasks
from writers.target import StreamTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY = "@query "  # no topic of Kafka has such a name
WRITE = "@write "
_CACHE = WorkerCache()  # of a worker process, which Spark uses for many tasks

Run = Callable[["DataFrame", FrameWork, str], list[FrameResult]]


@dataclass(frozen=True, slots=True)
class FramePlan:
    """How frames of a stream are written. ``check_budget`` decides about rejected rows, ``quarantine`` keeps them.

    ``allow_gap`` is for positions, ``adopt`` for identities.
    """

    decode: DecodeRows
    positions: PositionColumns | None = None
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    allow_gap: bool = False
    adopt: bool = False


def batch_of_query(query_id: str, batch_id: int) -> OffsetRange:
    """The identity of a batch of a streaming query."""
    return OffsetRange(QUERY + query_id, 0, batch_id, batch_id + 1)


def labelled(label: str) -> OffsetRange:
    """The identity of a frame that is written once under this name."""
    return OffsetRange(WRITE + label, 0, 0, 1)


def write_frame_batch(
    fs: Fs,
    log: StreamLog,
    target: StreamTarget,
    memory: WorkerCache,
    frame: DataFrame,
    plan: FramePlan,
    *,
    query_id: str,
    batch_id: int,
    identity: OffsetRange | None,
) -> BatchOutcome:
    """Writes the rows of a frame that are not committed yet as one epoch; with none left ``epoch`` is None.

    ``identity`` is for frames without positions; None takes the rows whatever was written before. PositionGapError,
    ErrorBudgetExceeded, errors of tasks: nothing was committed.
    """
    check_lease(fs, log, target, None)
    scratch = scratch_name(target, batch_id)
    run = partial(run_frame, fs, target)
    origin = f"epoch {log.state.epoch + 1}" if identity is None else f"{identity.topic}/{identity.start}"
    if identity is not None and plan.positions is None and is_committed(log, target, identity, adopt=plan.adopt):
        work = FrameWork(plan.decode, None, {}, only_look=True, origin=origin)
        found = run(frame, work, scratch)
        _raise_first(found)
        require_same(fs, log, target, replace(identity, digest=_digest(found)))
        return BatchOutcome(batch_id, None, replayed=1)
    ends = {place: log.state.offsets[place].stop for place in log.state.offsets} if plan.positions else {}
    with running(fs, target.scratch(scratch)):
        found = run(
            frame, FrameWork(plan.decode, plan.positions, ends, dense=not plan.allow_gap, origin=origin), scratch
        )
        _raise_first(found)
        dropped = sum(part.dropped for part in found)
        if plan.positions is not None:
            ranges = joined((taken for part in found for taken in part.ranges), dense=not plan.allow_gap)
            if not ranges:
                return BatchOutcome(batch_id, None, replayed=1 if dropped else 0)
        else:
            ranges = (replace(identity, digest=_digest(found)),) if identity is not None else ()
        collected = collect(fs, target, memory, [part.result for part in found], scratch)
        collected.splits = ranges
        collected.notes.count("rows_committed_before", dropped)
        quarantine_rejected(fs, collected, plan.check_budget, plan.quarantine, log.state.epoch + 1)
        gaps = log.state.offsets.jumps(ranges) if plan.allow_gap else ()
        epoch = commit_record(fs, log, target, collected, query_id, batch_id, gaps)
        publish(fs, log, target, epoch)
    return BatchOutcome(
        batch_id,
        epoch,
        collected.rows,
        collected.notes.rejected_rows,
        len(ranges),
        0,
        len(collected.reports),
        sum(taken.stop - taken.start for taken in ranges) if plan.positions else 0,
        sum(max(0, gap.stop - gap.start) for gap in gaps),
        dict(collected.notes.counts),
        collected.seconds,
    )


def run_frame(fs: Fs, target: StreamTarget, frame: DataFrame, work: FrameWork, scratch: str) -> list[FrameResult]:
    """Runs the tasks of a frame; tasks without rows have no result."""
    task = partial(frame_task, fs, _CACHE, target, work, scratch)
    rows = run_tasks(frame, task, "result binary")
    return [pickle.loads(row.result) for row in rows]  # noqa: S301 our own tasks have written it


def joined(ranges: Iterable[OffsetRange], *, dense: bool) -> tuple[OffsetRange, ...]:
    """One range for each partition of the source; PositionGapError for a hole, where ``dense``."""
    found: list[OffsetRange] = []
    for part in sorted(ranges):
        last = found[-1] if found else None
        if last is None or (last.topic, last.partition) != (part.topic, part.partition):
            found.append(part)
            continue
        if dense and part.start > last.stop:
            raise PositionGapError(
                "rows of a batch lack offsets between them",
                where=last.path,
                expected=f"offset {last.stop}",
                found=f"offset {part.start}",
                hint="set allow_gap if the query filters rows, or the topic is compacted or written by transactions",
            )
        found[-1] = replace(last, stop=max(last.stop, part.stop))
    return tuple(found)


def is_committed(log: StreamLog, target: StreamTarget, identity: OffsetRange, *, adopt: bool) -> bool:
    """Whether a batch of this identity is in the log; PositionGapError where that cannot be known (R6, R8)."""
    place, offsets = (identity.topic, identity.partition), log.state.offsets
    if place in offsets:
        end = offsets[place].stop
        if identity.start > end:
            raise PositionGapError(
                "batches of this query are missing in the log",
                where=f"stream {target.stream}",
                expected=f"batch {end}",
                found=f"batch {identity.start}",
                hint="if the stream was rolled back, take Spark's checkpoint back too: remove this batch and all later"
                f" than {end - 1} from its directories `offsets` and `commits`",
            )
        return identity.start < end
    others = sorted(topic for topic, _ in offsets if topic.startswith(QUERY))
    if identity.topic.startswith(QUERY) and not adopt:
        refuse_lost_log(target.stream, log.state.epoch, identity.start)
        if others:
            raise PositionGapError(
                "another query has written this stream, and rows without positions do not tell what it has taken",
                where=f"stream {target.stream}",
                expected=others[-1].removeprefix(QUERY),
                found=identity.topic.removeprefix(QUERY),
                hint="restore Spark's checkpoint; or set adopt, if the new query starts where the old one ended",
            )
    return False


def require_same(fs: Fs, log: StreamLog, target: StreamTarget, again: OffsetRange) -> None:
    """R2 and R3: a batch that comes again must have the digest of the committed one, and that must be known."""
    entries = list_epochs(fs, target.layout, target.table, target.stream)
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
    back = f"roll the stream back to the epoch before {epoch}, and start again" if epoch else "restore the checkpoint"
    raise PositionGapError(
        "a committed batch comes again with other rows: Spark has planned it anew, or the source is not repeatable",
        where=f"stream {target.stream}, batch {again.start}",
        expected=f"digest {digest}" if digest else "an epoch that is still kept",
        found=f"digest {again.digest}",
        hint=f"if Spark's checkpoint is older than the commit log, {back}",
    )


def _raise_first(found: Sequence[FrameResult]) -> None:
    for part in found:
        if part.result.error is not None:
            raise part.result.error


def _digest(found: Sequence[FrameResult]) -> str:
    return to_hex(add(*(part.digest for part in found)))
