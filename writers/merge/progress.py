"""Reports the progress of the tasks of a large date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from sparkhaven.writers.merge.executor import Executor

T = TypeVar("T")
R = TypeVar("R")
EVERY_S = 5.0
WORK = {
    "order_piece": "ordering rows",
    "write_column": "writing columns",
    "measure": "counting rows",
    "write_piece": "writing pieces",
    "verify_file": "verifying source files",
    "check_column": "reading back columns",
    "write_parquet": "writing Parquet",
    "check_parquet": "reading back Parquet",
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
