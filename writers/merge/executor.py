"""Executors of merge tasks: in this process or in local processes, and one around another that reports progress.

``writers.spark.merge_executor`` has Spark's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from concurrent.futures import Executor as Pool
from functools import partial
from threading import Thread
from typing import Protocol, TypeVar

from sparkhaven.store.errors import RetryableStorageError
from sparkhaven.store.native.library import core

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
    """Workers of this machine by default: a thread a core; without the compiled core one, as others are processes."""
    return len(os.sched_getaffinity(0)) if core() is not None else 1


class LocalExecutor:
    """This machine. Default: one worker, or one task, runs in the calling process; several in threads of it.

    The compiled core works without the interpreter lock, and threads start at once. Without the core the numpy calls
    are short and contend for the lock, so several workers are ``processes``. These start at first use and stay until
    ``close``; they end with the process that started them, however it ends. RetryableStorageError: a worker died.
    """

    def __init__(self, workers: int = 1, *, processes: bool | None = None) -> None:
        self._workers = workers
        self._processes = workers > 1 and core() is None if processes is None else processes
        self._pool: Pool | None = None

    @property
    def workers(self) -> int:
        return self._workers

    @property
    def threads(self) -> bool:
        return not self._processes

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        if len(tasks) <= 1 or (not self._processes and self._workers <= 1):
            yield from map(fn, tasks)
            return
        pool, futures = self._open(), []
        try:
            futures = [pool.submit(fn, task) for task in tasks]
            for future in futures:
                yield future.result()
        except BrokenExecutor as error:
            self.close()
            raise RetryableStorageError(
                "a worker of the merge died",
                found=str(error),
                hint="if the machine ran out of memory, use less --memory or fewer --workers. Merge the date again",
            ) from error
        finally:
            for future in futures:
                future.cancel()
            for future in futures:  # whoever removes what they have written must not meet one that goes on
                future.cancelled() or future.exception()

    def _open(self) -> Pool:
        if self._pool is None:
            if self._processes:
                from concurrent.futures import ProcessPoolExecutor
                from multiprocessing import get_context

                # not forked: a copy of this process would keep its locks
                self._pool = ProcessPoolExecutor(self._workers, get_context("spawn"), _end_with_parent)
            else:
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(self._workers)
        return self._pool

    def close(self) -> None:
        """Ends the workers; idempotent. The next run starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end_with_parent() -> None:
    """Ends this process when its parent ends: it must not write while another merge starts in the same directory."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    parent = parent_process()
    if parent is not None:
        Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


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
