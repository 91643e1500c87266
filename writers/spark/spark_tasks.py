"""Runs tasks in Spark, on the partitions of a frame or on given tasks, and raises their errors unchanged.

As many tasks share a batch or a merge as Spark's executors have cores, which changes while a job runs. Executors of a
cluster register some seconds after the session is there, are lost and replaced, and come and go under dynamic
allocation.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sparkhaven.store.batch_plan import note_tasks
from sparkhaven.store.errors import CommitError, SettingsError, carried_error
from sparkhaven.store.io.fs import Fs

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row


T = TypeVar("T")
R = TypeVar("R")

GONE = "find out what ended it (out of memory?), then restart. It continues after the last commit"
PYTHON_HINT = (
    "set PYSPARK_PYTHON, or spark.pyspark.python, to an interpreter that has the packages of sparkhaven on every"
    " worker. sparkhaven itself can be shipped by `--py-files sparkhaven.zip` (`make zip`)"
)
_HOST = re.compile(r"\(TID \d+\) \(([^\s)]+) executor [^)]*\)")
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_tasks(frame: DataFrame, work: Work, ddl: str) -> list[Row]:
    """Runs ``work`` on each partition of ``frame``; returns its rows, of the schema ``ddl``.

    CommitError: a worker died, or failed with an error that is not of sparkhaven.
    """
    with _task_errors():
        return list(frame.mapInArrow(work, ddl).collect())


def run_each(context: SparkContext, work: Callable[[Iterator[T]], Iterator[R]], tasks: Sequence[T]) -> list[R]:
    """Runs ``work`` on each of ``tasks`` as one job; raises what ``run_tasks`` raises.

    A plain job needs one worker process per task, a frame of a Python source two.
    """
    with _task_errors():
        return list(context.parallelize(tasks, len(tasks)).mapPartitions(work).collect())


@contextmanager
def _task_errors() -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise carried_error(str(error)) or lacks_package(error) or tasks_failed(error_summary(error)) from error


def tasks_failed(summary: str) -> CommitError:
    """The error for tasks that ended with an error that is not of sparkhaven."""
    return CommitError(
        "Spark could not run the tasks of a batch",
        found=summary,
        hint="restart the stream, with -v for the traceback. Nothing of this batch was committed",
    )


def lacks_package(error: BaseException) -> SettingsError | None:
    """The error for a task that failed because a package is missing; None for another cause."""
    summary = error_summary(error)
    if "ModuleNotFoundError" not in summary and "PYTHON_VERSION_MISMATCH" not in summary:
        return None
    return lacking(host_of(error), summary)


def lacking(where: str, python: str) -> SettingsError:
    """The error for a worker whose Python lacks packages."""
    return SettingsError(
        "a worker's Python lacks packages of sparkhaven",
        where=where,
        expected=f"the packages of {sys.executable}, which runs the driver",
        found=python,
        hint=PYTHON_HINT,
    )


def host_of(error: BaseException) -> str:
    host = _HOST.search(str(error))
    return host[1] if host else "one of Spark's workers"


def jvm_gone(error: BaseException) -> CommitError | None:
    """The error for a broken connection to Spark's JVM; None for any other error."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    # an unanswered call has no exception class of its own; an answered one quotes the Java trace
    unanswered = type(error) is Py4JError and "Trace:" not in str(error)
    if not unanswered and not isinstance(error, ConnectionError | Py4JNetworkError):
        return None
    return CommitError("Spark's JVM has ended", found=f"{type(error).__name__}: {error_summary(error)}", hint=GONE)


def task_number() -> tuple[int, int]:
    """Number of the running task in its stage, and of its attempt, which is unique in the application.

    Spark's ``attemptNumber`` is not unique: it starts at 0 again when a stage is repeated. Outside of Spark it is 0, 0.
    """
    if "pyspark" not in sys.modules:  # no task of Spark runs here
        return 0, 0
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.partitionId(), context.taskAttemptId()) if context else (0, 0)


def local_property(name: str) -> str | None:
    """A local property of the running task's job; None outside of a task, or where the job has none."""
    from pyspark import TaskContext

    context = TaskContext.get()
    text: str | None = context.getLocalProperty(name) if context else None
    return text


def is_on(setting: str | None) -> bool:
    """Whether Spark takes a setting for true, which it writes in any case."""
    return (setting or "").strip().lower() == "true"


def speculation() -> SettingsError:
    """The error for a job with speculative execution: two copies of a task would write the same files."""
    return SettingsError(
        "a stream cannot run with speculative execution",
        where="spark.speculation",
        expected="false",
        found="true",
        hint="remove the setting from spark-defaults.conf or from the command line",
    )


def error_summary(error: BaseException) -> str:
    """One line for a foreign error: the error of the Python traceback inside it, else the first exception."""
    text = str(error)
    _, python, rest = text.partition("Traceback (most recent call last):\n")
    if python:  # traceback lines are indented, the error after them is not
        return next((line for line in rest.splitlines() if line[:1].strip()), "")[:500]
    lines = [line.strip(" :") for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "Exception: " in line), lines[0] if lines else type(error).__name__)[:500]


def local_uri(path: Path) -> str:
    """A local path as a ``file:`` URI: Spark resolves a bare path in its default file system, which may be HDFS.

    Not percent-encoded, because Hadoop does not decode it, and with one slash, as Hadoop writes it: Delta compares
    these URIs as text.
    """
    return f"file:{path.absolute()}"


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
