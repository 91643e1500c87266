"""How many tasks may share a batch or a merge: as many as Spark's executors have cores, which changes while a job runs.

Executors of a cluster register some seconds after the session is there, are lost and replaced, and come and go under
dynamic allocation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scratch.batch_plan import note_tasks
from sparkhaven.writers.spark.spark_tasks import is_on

if TYPE_CHECKING:
    from pyspark import SparkContext

GROWTH = 2  # under dynamic allocation Spark asks for executors only while tasks wait for one
FIXED = "spark.default.parallelism"
DYNAMIC, MOST_EXECUTORS = "spark.dynamicAllocation.enabled", "spark.dynamicAllocation.maxExecutors"
EXECUTOR_CORES, MOST_CORES = "spark.executor.cores", "spark.cores.max"


def is_local(master: str) -> bool:
    """Whether a master stands for one process on this machine, the driver itself."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def slots_of(cores: int, conf: Mapping[str, str | None], *, local: bool) -> int:
    """The number of tasks for so many cores, which are Spark's ``defaultParallelism``.

    The cores, or the number that the user has fixed. Under dynamic allocation more than that: tasks that wait are what
    makes Spark add executors; but no more than it may add.
    """
    if local or conf.get(FIXED) or not is_on(conf.get(DYNAMIC)):
        return max(1, cores)
    limits = [int(most)] if (most := conf.get(MOST_CORES)) else []
    if (most := conf.get(MOST_EXECUTORS)) and (executor_cores := conf.get(EXECUTOR_CORES)):
        limits.append(int(most) * int(executor_cores))
    return max(1, cores, min([GROWTH * cores, *limits]))


class TaskSlots:
    """Counts the slots of a session, whose settings are read once."""

    def __init__(self, context: SparkContext) -> None:
        conf = context.getConf()
        self._context, self._local = context, is_local(context.master)
        self._conf = {name: conf.get(name) for name in (FIXED, DYNAMIC, MOST_EXECUTORS, EXECUTOR_CORES, MOST_CORES)}
        self._cores = 0

    def __call__(self) -> int:
        """The number now; the last one if Spark has ended, which whoever runs tasks reports."""
        from py4j.protocol import Py4JError

        if not self._cores or not self._local:  # in local mode it stays
            with suppress(Py4JError, ConnectionError):
                self._cores = int(self._context.defaultParallelism)
        return slots_of(self._cores, self._conf, local=self._local)


class SlotNotes:
    """Tells the planner of a stream, which is another process, how many slots there are, whenever that changes."""

    def __init__(self, fs: Fs, scratch: Path, count: Callable[[], int]) -> None:
        self._fs, self._scratch, self._count = fs, scratch, count
        self._noted = 0

    def renew(self) -> None:
        count = self._count()
        if count != self._noted:
            note_tasks(self._fs, self._scratch, count)
            self._noted = count
