"""One run of a stream, whatever plans its batches and runs its tasks: its settings, its batches, its totals.

A table that is fed together with others has a first epoch of no rows, with the positions that it begins at. It is
committed when a batch is ready, before any table commits it. Else a process that is killed between the commits of two
tables would leave one without positions, and nobody could tell a table that lacks the batch from one that was added
later. A table that is added to a stream begins where the stream is.

Without Spark a stream runs in this process: until its planner has no more, or until it is stopped. Batches are planned
by the calls that Spark makes, and each is one task. What they leave on disk is the same, byte for byte, since a
location's bytes do not depend on how many tasks wrote it. Spark's checkpoint is not touched: a run in Spark renews it
and plans from the commit log, whoever wrote that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, groupby
from operator import itemgetter
from typing import Any, Protocol

from sparkhaven.store.batch_plan import recorded_end
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.file_positions import refuse_lost_log
from sparkhaven.store.epochs.state.log_values import Batch, FileId, FilePart, OffsetRange, Split, add_count
from sparkhaven.store.epochs.state.replay import first_ranges, furthest_back
from sparkhaven.store.errors import CommitError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import (
    AddToQuarantine,
    BatchOutcome,
    BatchRequest,
    CheckBudget,
    ExecuteTables,
    Maintenance,
    TableBatch,
    write_tables,
)
from sparkhaven.writers.batch.scratch import remove_stale_scratch
from sparkhaven.writers.batch.task import Task, TaskResult, TaskTable, run_tables
from sparkhaven.writers.task import Decode, DecodeTables, OneTable, StreamTarget

POLL_SECONDS = 0.2
GO_ON = "run again with -v for the traceback. Committed epochs stay, a restart continues after them"


class OpenTable(Protocol):
    """A table of a feed, with its open log."""

    @property
    def log(self) -> StreamLog: ...

    @property
    def target(self) -> StreamTarget: ...


def note_starts(
    fs: Fs, tables: Sequence[OpenTable], proposed: Sequence[Split], *, query_id: str, batch_id: int
) -> None:
    """Commits where tables without an epoch begin; ``proposed``: the batch that is the next of all tables.

    Raises what ``StreamLog.commit`` raises.
    """
    new = [table for table in tables if not table.log.state.epoch]
    if len(tables) == 1 or not new:
        return
    state = furthest_back([table.log.state for table in tables])
    ranges = first_ranges(state.offsets, (split for split in proposed if isinstance(split, OffsetRange)))
    files = tuple(sorted(state.files))
    for table in new:
        version = table.target.schema.version
        with fs.during("first-positions"):
            table.target.check_generation(fs)
            table.log.publish(table.log.commit(Batch(query_id, batch_id, files, (), version, 0, ranges=ranges)))
            table.log.sync_now()  # whatever the durability: a power cut may leave the batch in another table


SplitOf = Callable[[Mapping[str, Any]], Split]


def file_of(row: Mapping[str, Any]) -> FileId:
    """A row of a files source: ``path``, ``size``, ``mtime_ns``; of a part of a file also ``start`` and ``stop``."""
    start, stop = row.get("start"), row.get("stop")
    if start is None or stop is None or (start, stop) == (0, row["size"]):
        return FileId(row["path"], row["size"], row["mtime_ns"])
    return FilePart(row["path"], row["size"], row["mtime_ns"], start, stop)


def range_of(row: Mapping[str, Any]) -> OffsetRange:
    """A row of a source with offsets: ``topic``, ``partition``, ``start``, ``stop``, ``topic_id`` ("" = unknown)."""
    return OffsetRange(row["topic"], row["partition"], row["start"], row["stop"], row["topic_id"])


SPLIT_OF: Mapping[type, SplitOf] = {FileId: file_of, OffsetRange: range_of}
"""How a row of a source becomes a split, by the kind of its splits."""

Row = Mapping[str, Any]
"""A row of a source: a split, with ``task``, the number of its task, and ``waiting``, the backlog for later batches."""

RunTasks = Callable[[Sequence[Sequence[Split]], Mapping[int, TaskTable]], Sequence[Mapping[int, TaskResult]]]
"""Runs a task per run of splits, for some tables by number: (runs, tables) -> what each task has of each table."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One line of progress. ``rate``: rows per second; ``lag``: the backlog of the source."""

    outcome: BatchOutcome
    epoch: int
    seconds: float
    lag: int | None = None

    @property
    def rate(self) -> float:
        return self.outcome.rows / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class StreamTotals:
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
        for name in ("rows", "rejected", "splits", "messages", "passed", "replayed"):
            setattr(self, name, getattr(self, name) + getattr(outcome, name))
        if outcome.epoch is not None:
            self.epochs += 1
            self.epoch = outcome.epoch
        for name, amount in outcome.counts.items():
            add_count(self.counts, name, amount)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How to run a stream. ``trigger``: arguments of Spark's ``trigger()``; ``availableNow`` ends by itself.

    ``check_budget`` accepts or refuses rejected rows, ``quarantine`` stores them. ``report`` receives the source's own
    report whenever it changes. ``split_of`` makes a split of a source row. ``allow_gap`` records missing offsets, which
    are otherwise refused.
    """

    query_id: str
    trigger: Mapping[str, Any]
    decode: Decode
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    progress: Callable[[BatchProgress], None] = lambda progress: None
    warn: Callable[[SparkhavenError], None] = lambda error: None
    report: Callable[[Mapping[str, Any]], None] = lambda said: None
    split_of: SplitOf = file_of
    allow_gap: bool = False

    @property
    def ends(self) -> bool:
        """Whether the stream ends with what is there now."""
        return "availableNow" in self.trigger


@dataclass(frozen=True, slots=True)
class FeedTable:
    """One table that a feed has rows for. What of ``plan`` is of the feed is the same for all of its tables."""

    log: StreamLog
    target: StreamTarget
    plan: StreamPlan


@dataclass(frozen=True, slots=True)
class FeedTables:
    """The tables of a feed, in the order in which they commit; ``decode`` decodes a split once for several of them.

    The first one stands for all where a feed has one of a thing: its plan, its scratch directory, Spark's checkpoint.
    """

    tables: tuple[FeedTable, ...]
    decode: DecodeTables

    @classmethod
    def one(cls, log: StreamLog, target: StreamTarget, plan: StreamPlan) -> FeedTables:
        return cls((FeedTable(log, target, plan),), OneTable(plan.decode))

    @property
    def first(self) -> FeedTable:
        return self.tables[0]

    def check_generations(self, fs: Fs) -> None:
        """LockLostError if another process has opened one of the streams."""
        for table in self.tables:
            table.target.check_generation(fs)

    def begin(self, fs: Fs) -> None:
        """Removes the scratch files of earlier runs. PositionGapError (R8): Spark has batches, a log has no epoch."""
        for table in self.tables:
            begin_run(fs, table.log, table.target, table.plan)


def begin_run(fs: Fs, log: StreamLog, target: StreamTarget, plan: StreamPlan) -> None:
    """Removes the scratch files of earlier runs. PositionGapError (R8): Spark has batches, the log has no epoch.

    Spark's checkpoint stays: it is the witness of R8, and the next run in Spark renews it.
    """
    place = target.place(fs)
    refuse_batches_without_log(place, log.state.epoch)
    remove_stale_scratch(place)


def refuse_batches_without_log(place: StreamPlace, epoch: int) -> None:
    """PositionGapError (R8): Spark's checkpoint has batches with input, the log has no epoch."""
    checkpoint = place.spark_checkpoint
    done = [int(name) for name in place.fs.names(checkpoint / "commits") if name.isdigit()]
    if done:
        end = recorded_end(place.fs, checkpoint / "offsets" / str(max(done)))
        # Spark runs a first batch of an empty feed, too; ``n`` counts those with files
        if not (isinstance(end, dict) and end.get("n") == 0):
            refuse_lost_log(place.stream, epoch, max(done) + 1)


class StreamBatches:
    """Writes the batches of one run, one after the other, and adds them up for each table.

    ``memory`` is for tasks of this process.
    """

    def __init__(self, fs: Fs, fed: FeedTables, clock: Callable[[], float]) -> None:
        self.totals = [StreamTotals() for _ in fed.tables]
        self.memory = WorkerCache()
        self._fs, self._fed, self._plan, self._clock = fs, fed, fed.first.plan, clock
        self._maintenance = [
            Maintenance(table.log, table.target.policy, table.plan.warn, clock=clock) for table in fed.tables
        ]

    def write(self, rows: Sequence[Row], batch_id: int, run: RunTasks, begun: float, *, here: bool = False) -> None:
        """Commits the batch of these rows or raises; on return it is in each log. ``begun``: when it was planned.

        ``here``: ``run`` runs one task, alone in this process.
        """
        split_of = self._plan.split_of
        runs = [[self._after(split_of(row)) for row in some] for _, some in groupby(rows, itemgetter("task"))]
        proposed = [split for splits in runs for split in splits]
        waiting = rows[0].get("waiting") if rows else None
        batches = [
            self._batch(number, batch_id, proposed, partial(self._committed, number, begun, waiting))
            for number in range(len(self._fed.tables))
        ]
        execute: ExecuteTables = partial(run, runs)
        query_id = self._plan.query_id
        starts = partial(note_starts, self._fs, self._fed.tables, proposed, query_id=query_id, batch_id=batch_id)
        write_tables(self._fs, batches, execute, starts, here=here)
        for maintenance in self._maintenance:
            maintenance.after_batch()

    def _after(self, split: Split) -> Split:
        """A range with the last message that was committed before it, which a task compares with the source."""
        if not isinstance(split, OffsetRange):
            return split
        for table in self._fed.tables:
            end = table.log.state.offsets.get((split.topic, split.partition))
            if end is not None and end.stop == split.start and split.topic_id in ("", end.topic_id):
                return replace(split, after=end.last)
        return split

    def _batch(
        self, number: int, batch_id: int, proposed: Sequence[Split], notify: Callable[[BatchOutcome], None]
    ) -> TableBatch:
        table = self._fed.tables[number]
        plan = table.plan
        request = BatchRequest(
            None,
            query_id=plan.query_id,
            batch_id=batch_id,
            proposed=proposed,
            check_budget=plan.check_budget,
            quarantine=plan.quarantine,
            allow_gap=self._plan.allow_gap,
            decode=plan.decode,
            notify=notify,
        )
        return TableBatch(table.log, table.target, self.memory, request)

    def _committed(self, number: int, begun: float, waiting: int | None, outcome: BatchOutcome) -> None:
        table = self._fed.tables[number]
        self.totals[number].add(outcome)
        table.plan.progress(BatchProgress(outcome, table.log.state.epoch, self._clock() - begun, waiting))

    def idle(self) -> None:
        """Maintenance while no batch runs: the sync of mode ``periodic``."""
        for maintenance in self._maintenance:
            maintenance.sync_if_due()

    def finish(self) -> None:
        """Maintenance that further batches would continue, after the last one."""
        for maintenance in self._maintenance:
            maintenance.finish()

    def ended(self, started: float) -> list[StreamTotals]:
        """The totals of each table."""
        for table, totals in zip(self._fed.tables, self.totals, strict=True):
            totals.seconds = self._clock() - started
            totals.epoch = table.log.state.epoch
        return self.totals


class Planner(Protocol):
    """Plans the batches of one source."""

    def plan(self) -> Sequence[Row]:
        """The splits of the next batch; none when all is planned, or when ``stop`` was called.

        Where a stream does not end by itself, the first plan alone may be empty, too.
        """

    def report(self) -> Mapping[str, Any] | None:
        """What the source has said of itself last; also called while another thread plans."""

    def committed(self) -> None:
        """The batch that was planned last is in the log."""

    def stop(self) -> None:
        """Ends a ``plan`` that waits; called by another thread, also after the last plan."""


def run_local_tables(
    planner: Planner,
    fs: Fs,
    fed: FeedTables,
    *,
    stop: threading.Event,
) -> list[StreamTotals]:
    """Runs batches until nothing is left, or ``stop`` is set: then the current one is the last. Totals by table.

    A stream whose plan does not end by itself waits for more.

    Raises errors of planner, tasks and commits unchanged, other exceptions as CommitError; committed epochs stay.
    LockLostError: another process has opened the stream.
    """
    return _LocalRun(planner, fs, fed, stop).run()


class _LocalRun:
    def __init__(self, planner: Planner, fs: Fs, fed: FeedTables, stop: threading.Event) -> None:
        self._planner, self._fs, self._fed, self._stop = planner, fs, fed, stop
        self._said: Mapping[str, Any] | None = None

    def run(self) -> list[StreamTotals]:
        self._fed.begin(self._fs)
        started = time.monotonic()
        batches = self._batches = StreamBatches(self._fs, self._fed, time.monotonic)
        with ThreadPoolExecutor(1, "planner") as pool:
            try:
                for number in count():
                    rows = self._planned(pool)
                    self._report()
                    if self._stop.is_set() or (number and not rows):
                        break
                    # like Spark, the first one also without splits
                    batches.write(rows, number, self._run_tasks, time.monotonic(), here=True)
                    if rows:
                        self._planner.committed()
                    elif self._fed.first.plan.ends:
                        break
            finally:
                self._planner.stop()
        batches.finish()
        return batches.ended(started)

    def _report(self) -> None:
        """Passes on what the source says, whenever that has changed."""
        said = self._planner.report()
        if said is not None and said != self._said:
            self._said = said
            self._fed.first.plan.report(said)

    def _planned(self, pool: ThreadPoolExecutor) -> Sequence[Row]:
        """The next batch, planned in a thread of its own: a source may wait for input, or for a server."""
        planned = pool.submit(self._planner.plan)
        while not wait([planned], POLL_SECONDS).done:
            self._batches.idle()
            self._report()
            if self._stop.is_set():
                self._planner.stop()
        try:
            return planned.result()
        except Exception as error:
            self._fed.check_generations(self._fs)  # a lost lock is the cause, whatever the source met first
            if isinstance(error, SparkhavenError):
                raise
            raise CommitError("the source of the stream failed", found=_named(error), hint=GO_ON) from error

    def _run_tasks(
        self, runs: Sequence[Sequence[Split]], tables: Mapping[int, TaskTable]
    ) -> list[dict[int, TaskResult]]:
        splits = [split for run in runs for split in run]
        try:
            task = Task(0, 0, "", splits, True)
            return [run_tables(self._fs, self._batches.memory, tables, self._fed.decode, task)]
        except Exception as error:
            raise CommitError("the task of a batch failed", found=_named(error), hint=GO_ON) from error


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
