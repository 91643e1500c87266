"""Less work for the garbage collector: pauses, and objects of long runs that it need not search."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType


class _Pauses:
    """Who pauses the collector, which the whole process shares: it stays off until the last one has ended."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._threads: list[int] = []
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            self._threads.append(threading.get_ident())
            if len(self._threads) == 1:
                self._was_enabled = gc.isenabled()
                gc.disable()

    def end(self) -> None:
        with self._lock:
            self._threads.remove(threading.get_ident())
            self._resume()

    def after_fork(self) -> None:
        """Only the thread that has forked runs on in the child."""
        self._lock = threading.RLock()
        self._threads = [thread for thread in self._threads if thread == threading.get_ident()]
        self._resume()

    def _resume(self) -> None:
        if not self._threads and self._was_enabled:
            gc.enable()
            self._was_enabled = False


_pauses = _Pauses()
os.register_at_fork(after_in_child=_pauses.after_fork)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pauses the garbage collector in the body; scanning all live objects again and again costs a third of the time.

    Bodies may nest and overlap in several threads. A body must be short, must not contain a ``yield``, and makes no
    reference cycles that matter before its end.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()


class LongRun:
    """Spares a long run from full collections of what its start has left: 60 ms each, for modules that stay anyway.

    ``look`` is called now and then. The first call after ``settle_s`` seconds collects once, and leaves what is alive
    out of later collections, until the end of the block.
    """

    def __init__(self, settle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._due = clock, clock() + settle_s
        self._frozen = False

    def look(self) -> None:
        if not self._frozen and self._clock() >= self._due:
            gc.collect()
            gc.freeze()
            self._frozen = True

    def __enter__(self) -> LongRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frozen:
            gc.unfreeze()
