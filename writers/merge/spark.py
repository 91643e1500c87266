"""Runs the tasks of a merge on a Spark cluster: Spark schedules, the rows never cross the JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

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
        """The results, in the order of ``tasks``; one job for all of them."""
        if not tasks:
            return iter(())
        slices = min(len(tasks), SLICES * self._workers)
        return iter(self._context.parallelize(list(tasks), slices).map(fn).collect())
