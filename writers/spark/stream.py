"""Runs a stream in Spark: one query whose micro-batches become epochs.

The source's rows name splits (``writers.spark.splits``), with ``task``, the number of the split's task, and
``waiting``, the backlog for later batches if the source counts it. The planner writes them to a file for the driver
(``store.planned``). A single task runs in the driver, several are one Spark job over their splits; so does a large one
of a cluster, because the driver commits for all streams. A task opens and decodes splits itself, so no row of data
crosses the JVM; it returns its result, errors included.

Spark's checkpoint is a cache: positions are in the commit log, and the source plans from it. Spark never syncs its
checkpoint, so after a crash it may be old, empty or torn; every start therefore renews it, after a check whether it has
batches that the log lacks (then the log was lost, rule R8).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.epochs.log import StreamLog
from store.epochs.state.files import refuse_lost_log
from store.epochs.state.values import Split, add_count
from store.errors import CommitError, SparkhavenError, carried_error
from store.io.fs import Fs
from store.planned import planned_rows, recorded_end
from writers.append.empty_location import WorkerCache
from writers.batch.commit import AddToQuarantine, BatchOutcome, CheckBudget, write_batch
from writers.batch.maintenance import SYNC_SECONDS, Maintenance
from writers.batch.scratch import remove_scratch
from writers.batch.task import Task, TaskResult, run_task
from writers.spark.paths import local_uri
from writers.spark.slots import SlotNotes, TaskSlots, is_local
from writers.spark.source_reports import SourceReports
from writers.spark.splits import SplitOf, file_of
from writers.spark.tasks import error_summary, is_on, jvm_gone, run_each, speculation, task_number, tasks_failed
from writers.spark.workers import check_workers
from writers.target import Decode, StreamTarget

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

POLL_SECONDS = 0.2
ENDED_WELL = "Stopped"  # Spark's last status message of a query that did not fail
GO_ON = "run again with -v for the traceback; committed epochs stay, a restart continues after them"
STREAM_CONF = {
    # Hadoop's local file system forks a process for each checkpoint file; the raw one does not
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # the checkpoint is only a cache
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One line of progress. ``rate``: rows per second; ``lag``: the backlog of the source."""

    outcome: BatchOutcome
    epoch: int
    seconds: float
    lag: int | None = None

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.outcome.rows / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class StreamTotals:
    """Totals of a run of a stream."""

    rows: int = 0
    rejected: int = 0
    epochs: int = 0
    epoch: int = 0
    splits: int = 0
    messages: int = 0
    passed: int = 0
    replayed: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, outcome: BatchOutcome) -> None:
        """Adds a batch."""
        self.rows += outcome.rows
        self.rejected += outcome.rejected
        self.splits += outcome.splits
        self.messages += outcome.messages
        self.passed += outcome.passed
        self.replayed += outcome.replayed
        if outcome.epoch is not None:
            self.epochs += 1
            self.epoch = outcome.epoch
        for name, amount in outcome.counts.items():
            add_count(self.counts, name, amount)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How to run a stream. ``trigger``: arguments of Spark's ``trigger()``; ``availableNow`` ends by itself.

    ``check_budget`` accepts or refuses rejected rows, ``quarantine`` stores them. ``report`` receives the source's own
    report whenever it changes. ``sync_seconds`` is for durability ``periodic``. ``adopt`` starts an empty log although
    Spark's checkpoint has batches of the stream. ``split_of`` makes a split of a source row. ``allow_gap`` records
    missing offsets, which are otherwise refused.
    """

    query_id: str
    trigger: Mapping[str, Any]
    decode: Decode
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    progress: Callable[[BatchProgress], None] = lambda progress: None
    warn: Callable[[SparkhavenError], None] = lambda error: None
    report: Callable[[Mapping[str, Any]], None] = lambda said: None
    sync_seconds: float = SYNC_SECONDS
    adopt: bool = False
    split_of: SplitOf = file_of
    allow_gap: bool = False


class StreamStopping(Exception):
    """Raised into Spark between two batches, so that it does not count the batch it has just begun as done."""


def run_stream(
    spark: SparkSession,
    source: DataFrame,
    fs: Fs,
    log: StreamLog,
    target: StreamTarget,
    plan: StreamPlan,
    *,
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> StreamTotals:
    """Runs the query until its trigger ends it, ``stop`` is set (it ends after the current batch), or it fails.

    Raises errors of tasks, driver and source unchanged; committed epochs stay. LockLostError: another process has
    opened the stream.
    """
    refuse_speculation(spark)
    check_workers(spark.sparkContext, target.layout.root, target.lock_file, plan.warn)
    checkpoint = target.layout.spark_checkpoint(target.table, target.stream)
    renew_checkpoint(fs, checkpoint, log, target.stream, adopt=plan.adopt)
    scratch = target.layout.scratch(target.table, target.stream)
    remove_scratch(fs, scratch)
    slots = SlotNotes(fs, scratch, TaskSlots(spark.sparkContext))
    slots.renew()
    started = clock()
    batches = Batches(fs, log, target, plan, clock, slots.renew)
    writer = source.writeStream.foreachBatch(batches).trigger(**plan.trigger)
    query = writer.option("checkpointLocation", local_uri(checkpoint)).start()
    reports = SourceReports(query, plan.report, clock)
    try:
        _watch(query, batches, stop, reports)
    except Exception as error:
        batches.close()  # a batch that runs here outlives the JVM; it must end before the log is released
        if batches.error is None and not batches.refused:
            target.check_generation(fs)  # a lost lock is the cause, whatever error Spark met first
            raise _translated(error) from error
    if batches.error is not None:
        raise jvm_gone(batches.error) or batches.error
    if query.status["message"] != ENDED_WELL and not batches.refused:
        # an error inside Spark that is not in the query's exception
        raise CommitError("Spark ended the stream without a reason", found=query.status["message"], hint=GO_ON)
    reports.look()
    batches.finish()
    if plan.trigger.get("availableNow") is None:
        log.sync_now()
    batches.totals.seconds = clock() - started
    batches.totals.epoch = log.state.epoch
    return batches.totals


def _watch(query: StreamingQuery, batches: Batches, stop: threading.Event, reports: SourceReports) -> None:
    while not query.awaitTermination(POLL_SECONDS):  # raises what ended the query
        if stop.is_set() or batches.error is not None:
            batches.close()
            query.stop()
            return
        batches.idle()
        reports.look_if_due()


def refuse_speculation(spark: SparkSession) -> None:
    """SettingsError: speculative execution is on."""
    if is_on(spark.sparkContext.getConf().get("spark.speculation")):
        raise speculation()


def renew_checkpoint(fs: Fs, checkpoint: Path, log: StreamLog, stream: str, *, adopt: bool = False) -> None:
    """Removes Spark's checkpoint. PositionGapError: it has finished batches and the log has no epoch (R8)."""
    done = [int(name) for name in fs.names(checkpoint / "commits") if name.isdigit()]
    if done and not _took_nothing(fs, checkpoint, max(done)):
        refuse_lost_log(stream, log.state.epoch, max(done) + 1, adopt=adopt)
    fs.remove_tree(checkpoint)


def _took_nothing(fs: Fs, checkpoint: Path, batch: int) -> bool:
    """Whether the feed was empty up to a batch: Spark runs a first batch even so. ``n`` counts those with files."""
    end = recorded_end(fs, checkpoint / "offsets" / str(batch))
    return isinstance(end, dict) and end.get("n") == 0


class Batches:
    """The foreachBatch function. ``error``: the exception that stopped it; Spark passes on only its text.

    ``refused``: a batch began after the stream was asked to stop; Spark then reports a failed query. ``count_slots``
    is called before the next batch is planned.
    """

    def __init__(
        self,
        fs: Fs,
        log: StreamLog,
        target: StreamTarget,
        plan: StreamPlan,
        clock: Callable[[], float],
        count_slots: Callable[[], None] = lambda: None,
    ) -> None:
        self.error: BaseException | None = None
        self.refused = False
        self.totals = StreamTotals()
        self._fs, self._log, self._target, self._plan, self._clock = fs, log, target, plan, clock
        self._scratch = target.layout.scratch(target.table, target.stream)
        self._offsets = target.layout.spark_checkpoint(target.table, target.stream) / "offsets"
        self._count_slots = count_slots
        self._batch_lock = threading.Lock()
        self._closing = False
        self._memory = WorkerCache()
        self._maintenance = Maintenance(log, target.durability, plan.warn, sync_seconds=plan.sync_seconds, clock=clock)

    def __call__(self, splits: DataFrame, batch_id: int) -> None:
        """Commits one micro-batch or raises; on return the batch is in the log."""
        with self._batch_lock:
            if self._closing or self.error is not None:
                self.refused = True
                raise StreamStopping
            try:
                self._write(splits, batch_id)
                self._maintenance.after_batch()
                self._count_slots()
            except BaseException as error:  # noqa: BLE001 run_stream raises it
                self.error = error
                raise StreamStopping from None

    def close(self) -> None:
        """Waits for the running batch; no further one begins."""
        with self._batch_lock:
            self._closing = True

    def finish(self) -> None:
        """Maintenance that further batches would continue, after the last one."""
        self._maintenance.finish()

    def idle(self) -> None:
        """What is due while no batch runs: the sync of mode ``periodic``, a look at the executors."""
        if self.error is None and self._batch_lock.acquire(blocking=False):
            try:
                self._maintenance.sync_if_due()
                self._count_slots()
            except BaseException as error:  # noqa: BLE001 run_stream raises it after it has stopped the query
                self.error = error
            finally:
                self._batch_lock.release()

    def _write(self, splits: DataFrame, batch_id: int) -> None:
        before = self._clock()
        rows = planned_rows(self._fs, self._scratch, self._offsets / str(batch_id))
        if rows is None:
            rows = [row.asDict() for row in splits.collect()]
        split_of = self._plan.split_of
        runs = [[split_of(row) for row in run] for _, run in groupby(rows, itemgetter("task"))]
        context = splits.sparkSession.sparkContext
        here = len(runs) == 1 and (not rows[0].get("large") or is_local(context.master))
        outcome = write_batch(
            self._fs,
            self._log,
            self._target,
            self._memory,
            partial(self._run, context, runs, here),
            query_id=self._plan.query_id,
            batch_id=batch_id,
            proposed=[split for run in runs for split in run],
            check_budget=self._plan.check_budget,
            allow_gap=self._plan.allow_gap,
            quarantine=self._plan.quarantine,
            decode=self._plan.decode,
        )
        self.totals.add(outcome)
        waiting = rows[0].get("waiting") if rows else None
        seconds = self._clock() - before
        self._plan.progress(BatchProgress(outcome, self._log.state.epoch, seconds, waiting))

    def _run(
        self,
        context: SparkContext,
        runs: Sequence[Sequence[Split]],
        here: bool,
        scratch: str,
        instead: Mapping[Split, Split | None],
    ) -> list[TaskResult]:
        """Runs a task per run of splits, in Spark or, the only one, in this process."""
        tasks = [Task(n, 0, scratch, run, alone=here, instead=instead) for n, run in enumerate(runs)]
        if not here:
            return run_each(context, partial(run_attempt, self._fs, self._target, self._plan.decode), tasks)
        try:
            return [run_task(self._fs, self._memory, self._target, self._plan.decode, tasks[0])]
        except Exception as error:  # as from a worker
            raise tasks_failed(f"{type(error).__name__}: {error}") from error


# --- tasks -------------------------------------------------------------------------------------------------

_CACHE = WorkerCache()  # of a worker process, which Spark reuses for many tasks


def run_attempt(fs: Fs, target: StreamTarget, decode: Decode, tasks: Iterator[Task]) -> Iterator[TaskResult]:
    """The function of the job: a task in, its result out."""
    _, attempt = task_number()
    for task in tasks:
        yield run_task(fs, _CACHE, target, decode, replace(task, attempt=attempt))


def _translated(error: Exception) -> SparkhavenError:
    """The sparkhaven error inside one of Spark's, or a CommitError with a summary of it."""
    return (
        jvm_gone(error)
        or carried_error(str(error))
        or CommitError("Spark ended the stream", found=error_summary(error), hint=GO_ON)
    )
