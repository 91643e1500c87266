"""Sees jobs of streams that wait for an executor, says so, and ends them once their streams were asked to stop.

Spark itself waits for ever: all executors are taken, none can be started, or the master that was started again gives
the application no more. A stream ends after its batch, and such a batch has no end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkhaven.store.errors import CommitError, carried_text
from sparkhaven.writers.spark.task_slots import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

WAIT_S = 20.0  # longer than an executor takes to come; Kubernetes kills 30 seconds after SIGTERM
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class JobLoad:
    """What Spark has to do: its active ``jobs``, ``running`` tasks, and tasks that have ended in the stages of now."""

    jobs: tuple[int, ...]
    running: int = 0
    ended: int = 0


class ExecutorWatch:
    """Looks at a session whose jobs are all of streams; ``load`` tells what it has to do, ``cancel`` ends a job."""

    def __init__(
        self,
        load: Callable[[], JobLoad],
        cancel: Callable[[int, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load, self._cancel, self._clock = load, cancel, clock
        self._seen = JobLoad(())
        self._looked = self._progress = clock()
        self._said = False

    @classmethod
    def of(cls, context: SparkContext) -> ExecutorWatch | None:
        """The watch over a cluster; None in local mode, where the driver is the executor."""
        if is_local(context.master):
            return None
        return cls(lambda: _load(context), context._jsc.sc().cancelJob)

    def look(self, *, stopping: bool) -> str | None:
        """To be called again and again; a remark if jobs have begun to wait.

        With ``stopping`` jobs that no executor has run for ``WAIT_S`` are cancelled. They raise a CommitError.
        """
        now = self._clock()
        if now - self._looked < LOOK_S:
            return None
        self._looked = now
        load = self._load()
        if not load.jobs or load.running or load != self._seen:
            self._seen, self._progress, self._said = load, now, False
        waited = now - self._progress
        if waited < WAIT_S:
            return None
        if stopping:
            for job in load.jobs:
                self._cancel(job, carried_text(_without_executor(waited)))
            return None
        said, self._said = self._said, True
        return None if said else f"no executor has run a task for {waited:.0f} s. The batch waits for one"


def _without_executor(seconds: float) -> CommitError:
    return CommitError(
        "no executor ran the tasks of a batch, and the stream was asked to stop",
        expected="a running task",
        found=f"none for {seconds:.0f} s",
        hint="look at the cluster: free cores, the master, the limits of dynamic allocation. Nothing of this batch"
        " was committed, and the next start takes it",
    )


def _load(context: SparkContext) -> JobLoad:
    """Nothing to do if Spark has ended, which whoever runs jobs reports."""
    from py4j.protocol import Py4JError

    try:
        tracker = context.statusTracker()
        jobs = tuple(tracker.getActiveJobsIds())
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()] if jobs else []
    except (Py4JError, ConnectionError):
        return JobLoad(())
    known = [stage for stage in stages if stage is not None]
    running = sum(stage.numActiveTasks for stage in known)
    return JobLoad(jobs, running, sum(stage.numCompletedTasks + stage.numFailedTasks for stage in known))
