"""Where the tasks of a merge run: here, in threads, in processes; Spark's is in ``writers.merge.spark``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import Executor as Pool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Protocol, TypeVar

from store.errors import MergeError

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Runs a function over tasks. ``workers`` is how many run at once.

    Function, tasks and results pickle. Results come in the order of the tasks; the first exception of a task is
    raised where its result would be, and what was not started by then may not run.
    """

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, in the order of ``tasks``."""


class LocalExecutor:
    """This machine. One worker runs in the calling process; more are processes of their own, unless told otherwise.

    Threads would do, but numpy calls are so short here that they spend their time handing the interpreter's lock to
    each other (2 to 4 times slower on a busy machine). Processes start at first use and stay until ``close``; they
    end with the process that started them, however it ends. A worker that dies is a MergeError.
    """

    def __init__(self, workers: int = 1, *, processes: bool | None = None) -> None:
        self._workers = workers
        self._processes = workers > 1 if processes is None else processes
        self._pool: Pool | None = None

    @property
    def workers(self) -> int:
        """How many tasks run at once."""
        return self._workers

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, in the order of ``tasks``."""
        if not self._processes and (self._workers <= 1 or len(tasks) <= 1):
            yield from map(fn, tasks)
            return
        pool, futures = self._open(), []
        try:
            futures = [pool.submit(fn, task) for task in tasks]
            for future in futures:
                yield future.result()
        except BrokenExecutor as error:
            self.close()
            raise MergeError(
                "a worker of the merge died",
                found=str(error),
                hint="if the machine ran out of memory, give less --memory or fewer --workers; merge the date again",
            ) from error
        finally:
            for future in futures:
                future.cancel()

    def _open(self) -> Pool:
        if self._pool is None:
            if self._processes:
                # not forked: a copy of this process would keep its locks
                self._pool = ProcessPoolExecutor(self._workers, get_context("spawn"), _end_with_parent)
            else:
                self._pool = ThreadPoolExecutor(self._workers)
        return self._pool

    def close(self) -> None:
        """Ends the workers; harmless when called twice, and the next run starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end_with_parent() -> None:
    """Ends this process when its parent is gone: it must not write on while another merge begins in the same place."""

    def watch(sentinel: int) -> None:
        wait([sentinel])
        os._exit(1)

    parent = parent_process()
    if parent is not None:
        Thread(target=watch, args=(parent.sentinel,), daemon=True).start()
