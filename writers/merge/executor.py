"""Executors of merge tasks: in threads of this process, and one around another that reports progress.

``writers.spark.workers`` has Spark's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
EVERY_S = 5.0  # between reports of progress


class Executor(Protocol):
    """Runs a function over tasks, ``workers`` at once.

    Function, tasks and results pickle. Results come in task order; the first exception is raised in the place of its
    result. No task runs any more by then, and those that were not started may not run at all.
    """

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    @property
    def threads(self) -> bool:
        """Whether they run in threads of this process: parts of a task may be tasks too."""

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, in the order of ``tasks``."""


def local_workers() -> int:
    """Workers of this machine by default: a thread a core."""
    return len(os.sched_getaffinity(0))


class LocalExecutor:
    """This machine. Default: one worker, or one task, runs in the calling thread; several in threads of this process.

    The compiled core works without the interpreter lock, and threads start at once. They start at first use and stay
    until ``close``.
    """

    threads = True

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers
        self._pool: ThreadPoolExecutor | None = None

    @property
    def workers(self) -> int:
        return self._workers

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        if len(tasks) <= 1 or self._workers <= 1:
            yield from map(fn, tasks)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers)
        futures = []
        try:
            futures = [self._pool.submit(fn, task) for task in tasks]
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
            for future in futures:  # whoever removes what they have written must not meet one that goes on
                future.cancelled() or future.exception()

    def close(self) -> None:
        """Ends the workers; idempotent. The next run starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


WORK = {
    "order_piece": "ordering rows",
    "write_column": "writing columns",
    "order_and_write": "ordering rows and writing columns",
    "measure": "counting rows",
    "write_piece": "writing pieces",
    "verify_file": "verifying source files",
    "read_part": "reading back columns and rows",
    "write_parquet": "writing Parquet",
    "check_parquet": "reading back Parquet",
    "check_parquet_rows": "reading back rows of Parquet",
}


class ProgressExecutor:
    """Wraps an executor; reports progress every ``EVERY_S`` seconds and at the end of each kind of task."""

    def __init__(
        self, inner: Executor, value: str, clock: Callable[[], float], on_progress: Callable[[str], None]
    ) -> None:
        self._inner, self._value, self._clock, self._on_progress = inner, value, clock, on_progress

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        plain = fn.func if isinstance(fn, partial) else fn
        work = WORK.get(plain.__name__, plain.__name__)
        last = self._clock()
        for done, result in enumerate(self._inner.run(fn, tasks), start=1):
            now = self._clock()
            if done == len(tasks) or now - last >= EVERY_S:
                self._on_progress(f"{self._value}: {work}, {done} of {len(tasks)} tasks")
                last = now
            yield result
