"""Runs a stream in Spark: one query whose micro-batches become epochs.

The source's rows name splits (``writers.batch.stream_batches.Row``). The planner writes them to a file for the driver
(``store.batch_plan``). A single task runs in the driver, several are one Spark job over their splits; so does a
large one of a cluster, because the driver commits for all streams. A task opens and decodes splits itself, so no row of
data crosses the JVM; it returns its result, errors included.

Spark's checkpoint is a cache: positions are in the commit log, and the source plans from it. Spark never syncs its
checkpoint, so after a crash it may be old, empty or torn; every start therefore renews it, after a check whether it has
batches that the log lacks (then the log was lost, rule R8).

While a query runs, its source reports its status through this module.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.batch_plan import planned_rows
from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import CommitError, carried_error
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.stream_batches import FeedTables, Row, StreamBatches, StreamTotals
from sparkhaven.writers.batch.task import Task, TaskResult, TaskTable, run_tables
from sparkhaven.writers.spark.spark_tasks import (
    SlotNotes,
    TaskSlots,
    error_summary,
    is_local,
    is_on,
    jvm_gone,
    local_uri,
    run_each,
    speculation,
    task_number,
    tasks_failed,
)
from sparkhaven.writers.spark.workers import check_workers
from sparkhaven.writers.task import DecodeTables

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


REPORT_SECONDS = 1.0


class SourceReports:
    """Passes on what the source reported at the end of the newest trigger (its ``reportLatestOffset``), once each.

    ``report`` None: PySpark 4.0 and 4.1 ask no source for reports.
    """

    def __init__(
        self, query: StreamingQuery, report: Callable[[Mapping[str, Any]], None] | None, clock: Callable[[], float]
    ) -> None:
        self._query, self._report, self._clock = query, report, clock
        self._next = 0.0
        self._last: object = None

    def look_if_due(self) -> None:
        """Calls ``look`` at most once a second, because it asks the JVM."""
        if self._clock() >= self._next:
            self._next = self._clock() + REPORT_SECONDS
            self.look()

    def look(self) -> None:
        if self._report is None:
            return
        progress = self._query.lastProgress
        said = progress.sources[0].latestOffset if progress and progress.sources else None
        if said is not None and said != self._last:
            self._last = said
            value = json.loads(said) if isinstance(said, str) else said
            if isinstance(value, dict):
                self._report(value)


POLL_SECONDS = 0.2
NOTHING_NEW = "Waiting for data to arrive"  # the same, after its source was asked
ENDED_WELL = "Stopped"  # Spark's last status message of a query that did not fail
GO_ON = "run again with -v for the traceback. Committed epochs stay, a restart continues after them"
_CONF = {
    # Hadoop's local file system forks a process for each checkpoint file; the raw one does not
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # the checkpoint is only a cache
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}


def stream_conf() -> dict[str, str]:
    """Settings of a session with streams. SettingsError: Spark is not there, or not supported."""
    room = ".checkpointing" if installed_spark().numbers >= (4, 1) else ""
    manager = f"org.apache.spark.sql.execution.streaming{room}.FileSystemBasedCheckpointFileManager"
    return {"spark.sql.streaming.checkpointFileManagerClass": manager, **_CONF}


class StreamStopping(Exception):
    """Raised into Spark between two batches, so that it does not count the batch it has just begun as done."""


def run_stream_of_tables(
    spark: SparkSession,
    source: DataFrame,
    fs: Fs,
    fed: FeedTables,
    *,
    stop: threading.Event,
) -> list[StreamTotals]:
    """Runs the query until its trigger ends it, ``stop`` is set (it ends after the current batch), or it fails.

    Returns the totals of each table.
    Raises errors of tasks, driver and source unchanged; committed epochs stay. LockLostError: another process has
    opened the stream.
    """
    from sparkhaven.readers.spark.source_api import HAS_LIMITS  # imports PySpark

    refuse_speculation(spark)
    target, plan = fed.first.target, fed.first.plan
    check_workers(spark.sparkContext, target.layout.root, target.lock_file, plan.warn)
    fed.begin(fs)
    checkpoint = target.layout.spark_checkpoint(target.table, target.stream)
    fs.remove_tree(checkpoint)
    slots = SlotNotes(fs, target.layout.scratch(target.table, target.stream), TaskSlots(spark.sparkContext))
    slots.renew()
    started = time.monotonic()
    batches = Batches(fs, fed, time.monotonic, slots.renew)
    by_itself = HAS_LIMITS or not plan.ends
    trigger = plan.trigger if by_itself else {"processingTime": "0 seconds"}
    writer = source.writeStream.foreachBatch(batches).trigger(**trigger)
    query = writer.option("checkpointLocation", local_uri(checkpoint)).start()
    reports = SourceReports(query, plan.report if HAS_LIMITS else None, time.monotonic)
    try:
        _watch(query, batches, stop, reports, by_itself=by_itself)
    except Exception as error:
        batches.close()  # a batch that runs here outlives the JVM; it must end before the log is released
        if batches.error is None and not batches.refused:
            fed.check_generations(fs)  # a lost lock is the cause, whatever error Spark met first
            ended = CommitError("Spark ended the stream", found=error_summary(error), hint=GO_ON)
            raise jvm_gone(error) or carried_error(str(error)) or ended from error
    if batches.error is not None:
        raise jvm_gone(batches.error) or carried_error(str(batches.error)) or batches.error
    status = query.status["message"]
    if status != ENDED_WELL and not batches.refused:
        # an error inside Spark that is not in the query's exception
        raise CommitError("Spark ended the stream without a reason", found=status, hint=GO_ON)
    reports.look()
    batches.written.finish()
    if not plan.ends:
        for table in fed.tables:
            table.log.sync_now()
    return batches.written.ended(started)


def _watch(
    query: StreamingQuery, batches: Batches, stop: threading.Event, reports: SourceReports, *, by_itself: bool
) -> None:
    """Until the query has ended; unless it ends ``by_itself``, it is ended when its source has nothing new."""
    while not query.awaitTermination(POLL_SECONDS):  # raises what ended the query
        if stop.is_set() or batches.error is not None or (not by_itself and query.status["message"] == NOTHING_NEW):
            batches.close()
            query.stop()
            return
        batches.idle()
        reports.look_if_due()
    query.awaitTermination()  # with a time limit it may return before the query's error and last status are there


def refuse_speculation(spark: SparkSession) -> None:
    if is_on(spark.sparkContext.getConf().get("spark.speculation")):
        raise speculation()


class Batches:
    """The foreachBatch function. ``error``: the exception that stopped it; Spark passes on only its text.

    ``refused``: a batch began after the stream was asked to stop; Spark then reports a failed query. ``count_slots``
    is called before the next batch is planned.
    """

    def __init__(
        self,
        fs: Fs,
        fed: FeedTables,
        clock: Callable[[], float],
        count_slots: Callable[[], None] = lambda: None,
    ) -> None:
        self.error: BaseException | None = None
        self.refused = False
        self.written = StreamBatches(fs, fed, clock)
        self._fs, self._decode, self._clock = fs, fed.decode, clock
        target = fed.first.target
        self._scratch = target.layout.scratch(target.table, target.stream)
        self._offsets = target.layout.spark_checkpoint(target.table, target.stream) / "offsets"
        self._count_slots = count_slots
        self._batch_lock = threading.Lock()
        self._closing = False

    def __call__(self, splits: DataFrame, batch_id: int) -> None:
        """Commits one micro-batch or raises; on return the batch is in the log."""
        with self._batch_lock:
            if self._closing or self.error is not None:
                self.refused = True
                raise StreamStopping
            try:
                self._write(splits, batch_id)
                self._count_slots()
            except BaseException as error:  # noqa: BLE001 run_stream_of_tables raises it
                self.error = error
                raise StreamStopping from None

    def close(self) -> None:
        """Waits for the running batch; no further one begins."""
        with self._batch_lock:
            self._closing = True

    def idle(self) -> None:
        """What is due while no batch runs: the sync of mode ``periodic``, a look at the executors."""
        if self.error is None and self._batch_lock.acquire(blocking=False):
            try:
                self.written.idle()
                self._count_slots()
            except BaseException as error:  # noqa: BLE001 run_stream_of_tables raises it after it has stopped the query
                self.error = error
            finally:
                self._batch_lock.release()

    def _write(self, splits: DataFrame, batch_id: int) -> None:
        begun = self._clock()
        rows: Sequence[Row] | None = planned_rows(self._fs, self._scratch, self._offsets / str(batch_id))
        if rows is None:
            rows = [row.asDict() for row in splits.collect()]
        context = splits.sparkSession.sparkContext
        alone = len({row["task"] for row in rows}) == 1
        here = alone and (not rows[0].get("large") or is_local(context.master))
        self.written.write(rows, batch_id, partial(self._run, context, here), begun)

    def _run(
        self,
        context: SparkContext,
        here: bool,
        runs: Sequence[Sequence[Split]],
        tables: Mapping[int, TaskTable],
    ) -> list[dict[int, TaskResult]]:
        tasks = [Task(n, 0, "", run, alone=here) for n, run in enumerate(runs)]
        if not here:
            return run_each(context, partial(run_attempt, self._fs, tables, self._decode), tasks)
        try:
            return [run_tables(self._fs, self.written.memory, tables, self._decode, tasks[0])]
        except Exception as error:  # as from a worker
            raise tasks_failed(f"{type(error).__name__}: {error}") from error


_CACHE = WorkerCache()  # of a worker process, which Spark reuses for many tasks


def run_attempt(
    fs: Fs, tables: Mapping[int, TaskTable], decode: DecodeTables, tasks: Iterator[Task]
) -> Iterator[dict[int, TaskResult]]:
    _, attempt = task_number()
    for task in tasks:
        yield run_tables(fs, _CACHE, tables, decode, replace(task, attempt=attempt))
