"""Runs the tasks of a merge on a Spark cluster; rows never cross the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sparkhaven.store.errors import MergeError, SparkhavenError
from sparkhaven.writers.spark.spark_tasks import TaskSlots, error_summary, host_of, jvm_gone, lacks_package
from sparkhaven.writers.spark.workers import check_workers

T = TypeVar("T")
R = TypeVar("R")
SLICES = 4  # Spark tasks per worker: enough to balance load, few enough that their start cost is small


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
