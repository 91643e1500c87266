"""Runs the tasks of a merge on a Spark cluster: Spark schedules, the rows never cross the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from store.errors import MergeError, SparkhavenError

T = TypeVar("T")
R = TypeVar("R")
SLICES = 4  # Spark tasks per worker: enough to even out, few enough that starting them does not count


class SparkExecutor:
    """A few Spark tasks per worker, each with a share of the merge's tasks; ``context`` is a live SparkContext.

    The packages of this distribution must be importable in the workers (``--py-files``).
    """

    def __init__(self, context: Any, workers: int | None = None) -> None:
        self._context = context
        self._workers = workers or int(context.defaultParallelism)

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        return self._workers

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, in the order of ``tasks``; one job for all of them.

        A task's own error comes back as it was raised; MergeError when Spark could not run the tasks.
        """
        if not tasks:
            return
        from py4j.protocol import Py4JError

        slices = min(len(tasks), SLICES * self._workers)
        try:
            found = self._context.parallelize(list(tasks), slices).map(partial(_attempt, fn)).collect()
        except Py4JError as error:
            raise MergeError(
                "Spark could not run the tasks of a merge",
                found=next((line for line in str(error).splitlines()[1:] if line.strip()), str(error)),
                hint="run again with -v for the traceback; dates that were published stay, the others start clean",
            ) from error
        for result, failure in found:
            if failure is not None:
                raise failure
            yield result


def _attempt(fn: Callable[[T], R], task: T) -> tuple[R | None, SparkhavenError | OSError | None]:
    """The result, or the error as a value: Spark would hand on nothing but its text, after trying again."""
    try:
        return fn(task), None
    except (SparkhavenError, OSError) as error:
        return None, error
