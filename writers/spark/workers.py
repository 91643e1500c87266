"""Spark's workers: a check that they can run our tasks, a watch over jobs that wait, and a merge's tasks on them.

The check (Python, packages, versions, compiled core, root, clock) runs once, before the first task, with
standard-library functions only: a worker that lacks a package cannot unpickle sparkhaven's tasks, and its error names
neither the machine nor the interpreter.

The watch reports jobs of streams that wait for an executor, and ends them once their streams were asked to stop. Spark
itself waits for ever: all executors are taken, none can be started, or the master that was started again gives the
application no more. A stream ends after its batch, and such a batch has no end.

The tasks of a merge run here too, in Spark; rows never cross the JVM.
"""

from __future__ import annotations

import platform
import shutil
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparkhaven.store.errors import CommitError, MergeError, SettingsError, SparkhavenError, carried_error, carried_text
from sparkhaven.store.native.library import sources
from sparkhaven.writers.spark.spark_tasks import (
    PYTHON_HINT,
    TaskSlots,
    error_summary,
    host_of,
    is_local,
    jvm_gone,
    lacking,
    lacks_package,
)
from sparkhaven.writers.task import unseen

if TYPE_CHECKING:
    from pyspark import SparkContext


NEEDED = ("numpy", "pandas", "pyarrow", "xxhash", "duckdb", "sparkhaven")
CORE = "the compiled core"
MISSING = "none"
COMPARED = ("sparkhaven", "numpy", "pyarrow", "xxhash", CORE)
ROUNDS = 5  # jobs until each executor has answered: Spark chooses where a task runs
SKEW = 2.0  # seconds between clocks that nobody needs to know
Tell = Callable[[SparkhavenError], None]
WAIT_S = 20.0  # longer than an executor takes to come; Kubernetes kills 30 seconds after SIGTERM
LOOK_S = 1.0
T = TypeVar("T")
R = TypeVar("R")
SLICES = 4  # Spark tasks per worker: enough to balance load, few enough that their start cost is small


@dataclass(frozen=True, slots=True)
class Worker:
    """An executor's answer. ``sees``: whether it reads in the marker file what the driver reads.

    ``process``: of the executor, on its machine; ``versions`` of ``COMPARED``, None where a package is not installed,
    as those of a zip; ``clock``: its time, in seconds since the epoch.
    """

    host: str
    python: str
    version: str
    missing: tuple[str, ...]
    sees: bool
    process: int = 0
    versions: tuple[str | None, ...] = ()
    clock: float | None = None


def check_workers(context: SparkContext, root: Path, marker: Path, warn: Tell | None = None) -> None:
    """Asks each executor by a short job, unless the workers run this interpreter on this machine.

    ``marker``: an existing file below ``root``, which nobody else has written like this. SettingsError: a worker has
    another Python version or another sparkhaven, or lacks packages. CommitError: it does not see the root, or the job
    was cancelled. ``warn`` is called with other versions of packages and of a clock that differs; default: Python's
    warnings.
    """
    if is_local(context.master):
        require_own_package(context)
        if shutil.which(context.pythonExec) == sys.executable:
            return
    tell = warn or (lambda error: warnings.warn(str(error), stacklevel=2))
    content = marker.read_bytes()
    answers: dict[tuple[str, int], Worker] = {}
    before = time.time()
    for _ in range(ROUNDS):
        try:
            tasks = max(1, context.defaultParallelism)  # executors register meanwhile
            ask = _question(str(marker), content)
            answered = context.parallelize(range(tasks), tasks).mapPartitions(ask).collect()
        except Exception as error:
            raise jvm_gone(error) or carried_error(str(error)) or cannot_run(context, error) from error
        answers |= {(worker.host, worker.process): worker for worker in (Worker(*answer) for answer in answered)}
        if len(answers) >= _executors(context):
            break
    require_capable(root, [*answers.values()])
    for remark in differences([*answers.values()], installed(), before, time.time()):
        tell(remark)


def require_own_package(context: SparkContext) -> None:
    """SettingsError: Spark's Python processes would import another sparkhaven, from where Spark was started.

    Spark runs them by ``python -m``, which looks into the working directory of the JVM before anything else.
    """
    jvm = context._jvm
    assert jvm is not None  # noqa: S101  a classic session has one
    system = jvm.java.lang.System
    package = Path(system.getProperty("user.dir")) / "sparkhaven" / "__init__.py"
    ours = Path(__file__).parents[2] / package.name
    safe = system.getenv("PYTHONSAFEPATH") or context.environment.get("PYTHONSAFEPATH")
    if safe or not package.is_file() or package.resolve() == ours.resolve():
        return
    raise SettingsError(
        "Spark's Python processes would import another sparkhaven than this program",
        where=f"{package.parents[1]}, where Spark was started",
        expected=str(ours.parent),
        found=str(package.parent),
        hint="start Spark in another directory, or set PYTHONSAFEPATH=1 before it starts",
    )


def require_capable(root: Path, workers: Sequence[Worker]) -> None:
    """Raises what ``check_workers`` raises, for the workers' answers."""
    for worker in workers:
        if worker.missing:
            missing = f"Python {worker.version} without {', '.join(worker.missing)}"
            raise lacking(f"{worker.python} on {worker.host}", missing)
        if not worker.sees:
            raise unseen(root, worker.host)


def differences(
    workers: Sequence[Worker], here: Sequence[str | None], before: float, after: float
) -> Iterator[SettingsError]:
    """What differs between driver and workers, but stops nothing.

    SettingsError raised: another sparkhaven, or a worker that cannot use the compiled core.

    ``here``: the driver's versions of ``COMPARED``; ``before`` and ``after``: its clock around the question.
    """
    for worker in workers:
        python = f"{worker.python} on {worker.host}"
        for name, mine, theirs in zip(COMPARED, here, worker.versions, strict=False):
            if mine == theirs or None in (mine, theirs):
                continue
            if (name, theirs) == (CORE, MISSING):
                raise SettingsError(
                    "a worker cannot use the compiled core",
                    where=python,
                    expected=f"the library in the zip of the job, or sparkhaven installed for {platform.machine()}",
                    found="no library that can be loaded",
                    hint="let the worker's user write to ~/.cache, or to a directory that XDG_CACHE_HOME names",
                )
            remark = SettingsError(
                f"a worker has another version of {name} than the driver",
                where=python,
                expected=f"{name} {mine}",
                found=f"{name} {theirs}",
                hint="install the same on all machines, or ship one packed environment to all of them",
            )
            if name == "sparkhaven":
                raise remark
            yield remark
        if worker.clock is not None and not before - SKEW <= worker.clock <= after + SKEW:
            apart = before - worker.clock if worker.clock < before else worker.clock - after
            yield SettingsError(
                "a worker's clock differs from the driver's",
                where=worker.host,
                expected=f"less than {SKEW:.0f} seconds",
                found=f"{apart:.1f} seconds {'behind' if worker.clock < before else 'ahead'}",
                hint="synchronise the clocks. Epochs have the driver's time, files and logs of tasks the worker's",
            )


def installed() -> tuple[str | None, ...]:
    return tuple(sources() if name == CORE else _installed(name) for name in COMPARED)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _executors(context: SparkContext) -> int:
    """How many executors Spark has; in local mode the one that is the driver."""
    known = int(context._jsc.sc().getExecutorMemoryStatus().size())
    return max(1, known - (not context.master.startswith("local")))


def cannot_run(context: SparkContext, error: BaseException) -> SettingsError:
    """The error if the workers cannot run any function: no such interpreter, or another Python version."""
    return SettingsError(
        "Spark's workers cannot run Python functions of this driver",
        where=f"{context.pythonExec} on {host_of(error)}",
        expected=f"Python {sys.version_info[0]}.{sys.version_info[1]}, as {sys.executable}, which runs the driver",
        found=error_summary(error),
        hint=PYTHON_HINT,
    )


def _question(marker: str, content: bytes) -> Callable[[Iterable[int]], Iterator[tuple[Any, ...]]]:
    """The function for the workers; nested, because Spark pickles it by value and not by module name."""
    needed, compared, core, absent = NEEDED, COMPARED, CORE, MISSING

    def answer(_: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        import importlib.metadata
        import importlib.util
        import os
        import pathlib
        import platform
        import sys
        import time

        def parent(process: int) -> int:
            """Spark's daemon starts the workers, and the executor the daemon."""
            try:
                status = pathlib.Path(f"/proc/{process}/status").read_text()
            except OSError:
                return process
            return int(next(line for line in status.splitlines() if line.startswith("PPid")).split()[1])

        def installed(name: str) -> str | None:
            if name == core:
                try:
                    from sparkhaven.store.errors import CoreNotUsableError
                    from sparkhaven.store.native.library import sources
                except ImportError:  # of another sparkhaven
                    return None
                try:
                    return sources()
                except CoreNotUsableError:
                    return absent
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                return None

        missing = tuple(name for name in needed if importlib.util.find_spec(name) is None)
        try:
            sees = pathlib.Path(marker).read_bytes() == content
        except OSError:
            sees = False
        process = parent(os.getppid())
        versions = () if missing else tuple(installed(name) for name in compared)
        here = socket.gethostname(), sys.executable, platform.python_version(), missing, sees
        yield *here, process, versions, time.time()

    return answer


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


class SparkExecutor:
    """A few Spark tasks per worker, each with a share of the merge's tasks; ``context`` is a live SparkContext.

    The workers must be able to import sparkhaven's packages (``--py-files``) and see ``root``: before the first task
    they are asked for ``marker``, an existing file in it. ``workers`` None: as many as there are.
    """

    def __init__(self, context: Any, root: Path, marker: Path, workers: int | None = None) -> None:
        self._context, self._root, self._marker = context, root, marker
        self._checked = False
        self._slots: Callable[[], int] = TaskSlots(context) if workers is None else lambda: workers

    @property
    def workers(self) -> int:
        """How many tasks run at once, as it is now; the first call waits until a worker has answered.

        Raises what ``run`` raises for workers that cannot run tasks.
        """
        if not self._checked:
            check_workers(self._context, self._root, self._marker)
            self._checked = True
        return self._slots()

    @property
    def threads(self) -> bool:
        return False

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, in the order of ``tasks``; one Spark job for all.

        Raises a task's own error unchanged. MergeError: Spark could not run the tasks. SettingsError, CommitError: the
        workers cannot run sparkhaven's tasks, or the JVM has ended.
        """
        if not tasks:
            return
        from py4j.protocol import Py4JError

        slices = min(len(tasks), SLICES * self.workers)
        try:
            results = self._context.parallelize(list(tasks), slices).map(partial(_attempt, fn)).collect()
        except (Py4JError, ConnectionError) as error:
            failed = MergeError(
                "Spark could not run the tasks of a merge",
                where=host_of(error),
                found=error_summary(error),
                hint="run again with -v for the traceback. Published dates stay, the others start from the beginning",
            )
            raise jvm_gone(error) or lacks_package(error) or failed from error
        for result, failure in results:
            if failure is not None:
                raise failure
            yield result


def _attempt(fn: Callable[[T], R], task: T) -> tuple[R | None, SparkhavenError | OSError | None]:
    """The result, or the error as a value: Spark would retry the task and then pass on only the error's text."""
    try:
        return fn(task), None
    except (SparkhavenError, OSError) as error:
        return None, error
