"""Pauses the garbage collector while many objects without reference cycles are made."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
