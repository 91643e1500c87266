"""One failing stream among several: told, let go, and started again after a while, as long as that may help.

An error whose exit code says that it is worth another try (a source or disk that was away for a moment, a worker that
died) is. Data that do not fit, a source that does not go on, settings, and a stream that another process has taken over
are not: they end the stream. Waiting doubles with each failure in a row; an epoch in between begins the row anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from store.errors import EXIT_RETRY, LockLostError, SparkhavenError

REMIND_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the first restart, and at most; after ``tries`` failures in a row the stream ends."""

    first: float = 1.0
    most: float = 60.0
    tries: int = 10

    def pause(self, failures: int) -> float | None:
        """How long to wait after that many failures in a row, at least one; None = no more."""
        return None if failures > self.tries else min(self.most, self.first * 2.0 ** min(failures - 1, 32))


class Reminders:
    """When to tell of streams that have stopped while others run: each time that ``every`` seconds have passed."""

    def __init__(self, every: float = REMIND_SECONDS) -> None:
        self._every = every
        self._stopped: dict[str, tuple[float, float]] = {}  # name -> stopped at, told at

    def due(self, stopped: Iterable[str], now: float) -> list[tuple[str, float]]:
        """Those to tell of at ``now``, with the seconds for which each is known to be stopped."""
        found = []
        for name in stopped:
            since, told = self._stopped.setdefault(name, (now, now))
            if now - told >= self._every:
                self._stopped[name] = since, now
                found.append((name, now - since))
        return found


class Restartable(Protocol):
    """A stream as the loop sees it."""

    error: Exception | None

    @property
    def epoch(self) -> int:
        """The newest epoch of the stream."""
        ...


def is_worth_another_try(error: Exception) -> bool:
    """Whether the same stream may do better without anybody changing anything."""
    if isinstance(error, SparkhavenError):
        return error.exit_code == EXIT_RETRY and not isinstance(error, LockLostError)
    return isinstance(error, OSError)


def keep_running(
    stream: Restartable,
    live: Callable[[], None],
    reopen: Callable[[], None],
    *,
    stop: threading.Event,
    told: Callable[[Exception, float], None],
    can_go_on: Callable[[], bool] = lambda: True,
    backoff: Backoff = Backoff(),
) -> int:
    """Calls ``live`` until it leaves no error on the stream, or one that ends it; returns how often it was restarted.

    ``reopen`` lets the stream go and takes it over again, with recovery; it may raise what ``live`` may leave. ``told``
    hears of each failure that is followed by a restart, and in how many seconds. ``can_go_on`` is False when there is
    nothing to run in any more.
    """
    restarts, failures = 0, 0
    opened = True
    before = stream.epoch
    while True:
        if opened:
            live()
        error = stream.error
        if error is None or stop.is_set() or not is_worth_another_try(error) or not can_go_on():
            return restarts
        failures = 1 if opened and stream.epoch > before else failures + 1
        pause = backoff.pause(failures)
        if pause is None:
            return restarts
        told(error, pause)
        if stop.wait(pause):
            return restarts
        stream.error = None
        try:
            reopen()
        except Exception as again:  # noqa: BLE001 judged like any other at the head of the loop
            stream.error, opened = again, False
            continue
        opened = True
        restarts, before = restarts + 1, stream.epoch
