"""One run of a stream, whatever plans its batches and runs its tasks: its settings, its batches, its totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.file_positions import refuse_lost_log
from sparkhaven.store.epochs.state.log_values import FileId, FilePart, OffsetRange, Split, add_count
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.scratch.batch_plan import recorded_end
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.commit import AddToQuarantine, BatchOutcome, BatchRequest, CheckBudget, write_batch
from sparkhaven.writers.batch.maintenance import Maintenance
from sparkhaven.writers.batch.scratch import remove_stale_scratch
from sparkhaven.writers.batch.task import TaskResult
from sparkhaven.writers.task.decoding import Decode
from sparkhaven.writers.task.target import StreamTarget

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


Row = Mapping[str, Any]
"""A row of a source: a split, with ``task``, the number of its task, and ``waiting``, the backlog for later batches."""

RunTasks = Callable[[Sequence[Sequence[Split]], str, Mapping[Split, Split | None]], Sequence[TaskResult]]
"""Runs a task per run of splits: (runs, scratch name, what to read instead of committed splits) -> their results."""


@frozen
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


@frozen
class StreamPlan:
    """How to run a stream. ``trigger``: arguments of Spark's ``trigger()``; ``availableNow`` ends by itself.

    ``check_budget`` accepts or refuses rejected rows, ``quarantine`` stores them. ``report`` receives the source's own
    report whenever it changes. ``adopt`` starts an empty log although Spark's checkpoint has batches of the stream.
    ``split_of`` makes a split of a source row. ``allow_gap`` records missing offsets, which are otherwise refused.
    """

    query_id: str
    trigger: Mapping[str, Any]
    decode: Decode
    check_budget: CheckBudget | None = None
    quarantine: AddToQuarantine | None = None
    progress: Callable[[BatchProgress], None] = lambda progress: None
    warn: Callable[[SparkhavenError], None] = lambda error: None
    report: Callable[[Mapping[str, Any]], None] = lambda said: None
    adopt: bool = False
    split_of: SplitOf = file_of
    allow_gap: bool = False

    @property
    def ends(self) -> bool:
        """Whether the stream ends with what is there now."""
        return "availableNow" in self.trigger


def begin_run(fs: Fs, log: StreamLog, target: StreamTarget, plan: StreamPlan) -> None:
    """Removes the scratch files of earlier runs. PositionGapError (R8): Spark has batches, the log has no epoch.

    Spark's checkpoint stays: it is the witness of R8, and the next run in Spark renews it.
    """
    place = target.place(fs)
    refuse_batches_without_log(place, log.state.epoch, adopt=plan.adopt)
    remove_stale_scratch(place)


def refuse_batches_without_log(place: StreamPlace, epoch: int, *, adopt: bool = False) -> None:
    """PositionGapError (R8): Spark's checkpoint has batches with input, the log has no epoch."""
    checkpoint = place.spark_checkpoint
    done = [int(name) for name in place.fs.names(checkpoint / "commits") if name.isdigit()]
    if done:
        end = recorded_end(place.fs, checkpoint / "offsets" / str(max(done)))
        # Spark runs a first batch of an empty feed, too; ``n`` counts those with files
        if not (isinstance(end, dict) and end.get("n") == 0):
            refuse_lost_log(place.stream, epoch, max(done) + 1, adopt=adopt)


class StreamBatches:
    """Writes the batches of one run, one after the other, and adds them up. ``memory`` is for tasks of this process."""

    def __init__(
        self, fs: Fs, log: StreamLog, target: StreamTarget, plan: StreamPlan, clock: Callable[[], float]
    ) -> None:
        self.totals = StreamTotals()
        self.memory = WorkerCache()
        self._fs, self._log, self._target, self._plan, self._clock = fs, log, target, plan, clock
        self._maintenance = Maintenance(log, target.policy, plan.warn, clock=clock)

    def write(self, rows: Sequence[Row], batch_id: int, run: RunTasks, begun: float) -> None:
        """Commits the batch of these rows or raises; on return it is in the log. ``begun``: when it was planned."""
        runs = [[self._plan.split_of(row) for row in some] for _, some in groupby(rows, itemgetter("task"))]
        plan = self._plan
        request = BatchRequest(
            partial(run, runs),
            query_id=plan.query_id,
            batch_id=batch_id,
            proposed=[split for splits in runs for split in splits],
            check_budget=plan.check_budget,
            quarantine=plan.quarantine,
            allow_gap=plan.allow_gap,
            decode=plan.decode,
            notify=partial(self._committed, begun, rows[0].get("waiting") if rows else None),
        )
        write_batch(self._fs, self._log, self._target, self.memory, request)
        self._maintenance.after_batch()

    def _committed(self, begun: float, waiting: int | None, outcome: BatchOutcome) -> None:
        self.totals.add(outcome)
        self._plan.progress(BatchProgress(outcome, self._log.state.epoch, self._clock() - begun, waiting))

    def idle(self) -> None:
        """Maintenance while no batch runs: the sync of mode ``periodic``."""
        self._maintenance.sync_if_due()

    def finish(self) -> None:
        """Maintenance that further batches would continue, after the last one."""
        self._maintenance.finish()

    def ended(self, started: float) -> StreamTotals:
        self.totals.seconds = self._clock() - started
        self.totals.epoch = self._log.state.epoch
        return self.totals
