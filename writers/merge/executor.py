"""Where the tasks of a merge run: here, in threads, in processes; Spark's is in ``writers.merge.spark``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol, TypeVar

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


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """This machine. One worker runs in the calling thread; more are threads, or with ``processes`` processes.

    The work is numpy, Arrow and system calls, which let go of the interpreter's lock; processes keep memory apart.
    """

    workers: int = 1
    processes: bool = False

    def run(self, fn: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        """The results, in the order of ``tasks``."""
        if not self.processes and (self.workers <= 1 or len(tasks) <= 1):
            yield from map(fn, tasks)
            return
        pool: Pool
        if self.processes:
            pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"))
        else:
            pool = ThreadPoolExecutor(self.workers)
        with pool:
            try:
                yield from pool.map(fn, tasks)
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
