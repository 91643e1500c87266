"""Runs a stream in this process, without Spark: until its planner has no more, or until it is stopped.

Batches are planned by the calls that Spark makes, and each is one task. What they leave on disk is the same, byte
for byte, since a location's bytes do not depend on how many tasks wrote it. Spark's checkpoint is not touched: a run in
Spark renews it and plans from the commit log, whoever wrote that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import count
from typing import Any, Protocol

from sparkhaven.store.epochs.state.log_values import Split
from sparkhaven.store.errors import CommitError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.writers.batch.stream_batches import FeedTables, Row, StreamBatches, StreamTotals
from sparkhaven.writers.batch.task import Task, TaskResult, TaskTable, run_tables

POLL_SECONDS = 0.2
GO_ON = "run again with -v for the traceback. Committed epochs stay, a restart continues after them"


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
    clock: Callable[[], float] = time.monotonic,
) -> list[StreamTotals]:
    """Runs batches until nothing is left, or ``stop`` is set: then the current one is the last. Totals by table.

    A stream whose plan does not end by itself waits for more.

    Raises errors of planner, tasks and commits unchanged, other exceptions as CommitError; committed epochs stay.
    LockLostError: another process has opened the stream.
    """
    fed.begin(fs)
    started = clock()
    batches = StreamBatches(fs, fed, clock)
    run = partial(_run_tasks, fs, fed, batches)
    tell = _Reports(planner, fed.first.plan.report)
    with ThreadPoolExecutor(1, "planner") as pool:
        try:
            for number in count():
                rows = _planned(pool, planner, fed, fs, batches, stop, tell)
                tell()
                if stop.is_set() or (number and not rows):
                    break
                batches.write(rows, number, run, clock(), here=True)  # like Spark, the first one also without splits
                if rows:
                    planner.committed()
                elif fed.first.plan.ends:
                    break
        finally:
            planner.stop()
    batches.finish()
    return batches.ended(started)


class _Reports:
    """Passes on what the source says, whenever that has changed."""

    def __init__(self, planner: Planner, report: Callable[[Mapping[str, Any]], None]) -> None:
        self._planner, self._report = planner, report
        self._last: Mapping[str, Any] | None = None

    def __call__(self) -> None:
        said = self._planner.report()
        if said is not None and said != self._last:
            self._last = said
            self._report(said)


def _planned(
    pool: ThreadPoolExecutor,
    planner: Planner,
    fed: FeedTables,
    fs: Fs,
    batches: StreamBatches,
    stop: threading.Event,
    tell: Callable[[], None],
) -> Sequence[Row]:
    """The next batch, planned in a thread of its own: a source may wait for input, or for a server."""
    planned = pool.submit(planner.plan)
    while not wait([planned], POLL_SECONDS).done:
        batches.idle()
        tell()
        if stop.is_set():
            planner.stop()
    try:
        return planned.result()
    except Exception as error:
        fed.check_generations(fs)  # a lost lock is the cause, whatever the source met first
        if isinstance(error, SparkhavenError):
            raise
        raise CommitError("the source of the stream failed", found=_named(error), hint=GO_ON) from error


def _run_tasks(
    fs: Fs,
    fed: FeedTables,
    batches: StreamBatches,
    runs: Sequence[Sequence[Split]],
    tables: Mapping[int, TaskTable],
) -> list[dict[int, TaskResult]]:
    splits = [split for run in runs for split in run]
    try:
        return [run_tables(fs, batches.memory, tables, fed.decode, Task(0, 0, "", splits, True))]
    except Exception as error:
        raise CommitError("the task of a batch failed", found=_named(error), hint=GO_ON) from error


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
