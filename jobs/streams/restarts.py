"""Restarts of a failed stream among others: reported, released, and started again after a pause.

Only errors whose exit code is "worth retrying" lead to a restart: a source or disk that is away, a worker that died.
Bad data, a source that does not continue, settings, and a stream that another process has taken over end the stream.
The pause doubles with each consecutive failure; an epoch in between resets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from sparkhaven.store.errors import EXIT_RETRY, LockLostError
from sparkhaven.store.io.system_errors import ours

REMIND_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the first restart, and at most; after ``tries`` failures in a row the stream ends."""

    first: float = 1.0
    most: float = 60.0
    tries: int = 10

    def pause(self, failures: int) -> float | None:
        """Seconds to wait after that many consecutive failures, at least one; None: no more restarts."""
        return None if failures > self.tries else min(self.most, self.first * 2.0 ** min(failures - 1, 32))


class Reminders:
    """When to report streams that have stopped while others run: every ``every`` seconds."""

    def __init__(self, every: float = REMIND_SECONDS) -> None:
        self._every = every
        self._stopped: dict[str, tuple[float, float]] = {}  # name -> stopped at, reported at

    def due(self, stopped: Iterable[str], now: float) -> list[tuple[str, float]]:
        """The streams to report at ``now``, with the seconds since each has stopped."""
        due = []
        for name in stopped:
            since, reported = self._stopped.setdefault(name, (now, now))
            if now - reported >= self._every:
                self._stopped[name] = since, now
                due.append((name, now - since))
        return due


class Restartable(Protocol):
    """A stream that can be restarted."""

    error: Exception | None

    @property
    def epoch(self) -> int:
        """The newest epoch of the stream."""


def is_retryable(error: Exception) -> bool:
    """Whether a restart may help without any change."""
    if isinstance(error, OSError):
        return True
    known = ours(error)
    return known is not None and known.exit_code == EXIT_RETRY and not isinstance(known, LockLostError)


def keep_running(
    stream: Restartable,
    run: Callable[[], None],
    reopen: Callable[[], None],
    *,
    stop: threading.Event,
    on_restart: Callable[[Exception, float], None],
    can_restart: Callable[[], bool] = lambda: True,
    backoff: Backoff = Backoff(),
) -> int:
    """Calls ``run`` until it leaves no error on the stream, or one that ends it; returns the number of restarts.

    ``reopen`` releases the stream and opens it again, with recovery; it may raise the errors of ``run``. ``on_restart``
    gets each failure that is followed by a restart, and the pause in seconds. ``can_restart`` is False once there is no
    session to run in.
    """
    restarts, failures = 0, 0
    opened = True
    before = stream.epoch
    while True:
        if opened:
            run()
        error = stream.error
        if error is None or stop.is_set() or not is_retryable(error) or not can_restart():
            return restarts
        failures = 1 if opened and stream.epoch > before else failures + 1
        pause = backoff.pause(failures)
        if pause is None:
            return restarts
        on_restart(error, pause)
        if stop.wait(pause):
            return restarts
        stream.error = None
        try:
            reopen()
        except Exception as again:  # noqa: BLE001 handled like any other at the head of the loop
            stream.error, opened = again, False
            continue
        opened = True
        restarts, before = restarts + 1, stream.epoch
