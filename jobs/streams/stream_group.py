"""The streams of one stream file: one for each table that its feed has rows of. They start, run and end together.

Restarts of a failed stream among others: reported, released, and started again after a pause.

Only errors whose exit code is "worth retrying" lead to a restart: a source or disk that is away, a worker that died.
Bad data, a source that does not continue, settings, and a stream that another process has taken over end the stream.
The pause doubles with each consecutive failure; an epoch in between resets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from sparkhaven.jobs.settings.stream_file import NotStarted, StreamSettings, name_stream
from sparkhaven.jobs.streams.stream_run import StreamRun
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.epochs.state.replay import StreamState, furthest_back
from sparkhaven.store.errors import EXIT_RETRY, LockLostError, ours
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.schema.deployed.deploy import user_tables

T = TypeVar("T", StreamSettings, StreamRun)


@dataclass(slots=True)
class StreamGroup:
    """The runs of one stream file, in the order in which they commit. An error is of all of them."""

    runs: list[StreamRun]

    @property
    def first(self) -> StreamRun:
        return self.runs[0]

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def error(self) -> Exception | None:
        return next((run.error for run in self.runs if run.error is not None), None)

    @error.setter
    def error(self, error: Exception | None) -> None:
        if error is not None:
            name_stream(error, self.first.settings)
        for run in self.runs:
            run.error = error

    @property
    def epoch(self) -> int:
        """A number that rises with each epoch of one of them."""
        return sum(run.epoch for run in self.runs)

    @property
    def state(self) -> StreamState:
        """What all tables have of the feed."""
        return furthest_back([run.state for run in self.runs])


def grouped(runs: Iterable[StreamRun]) -> list[StreamGroup]:
    """The runs by stream file."""
    by_file: dict[Path, list[StreamRun]] = {}
    for run in runs:
        by_file.setdefault(run.settings.file, []).append(run)
    return [StreamGroup(of_file) for of_file in by_file.values()]


def whole_files(streams: Sequence[T], failed: Sequence[NotStarted]) -> list[T]:
    """Those of files of which no stream has failed: a feed is not ingested into some of its tables."""
    broken = {stream.file for stream in failed}
    return [stream for stream in streams if _file_of(stream) not in broken]


def _file_of(stream: StreamSettings | StreamRun) -> Path:
    return stream.file if isinstance(stream, StreamSettings) else stream.settings.file


def fed_places(fs: Fs, layout: Layout, settings: StreamSettings) -> list[StreamPlace]:
    """The streams of all tables of a feed."""
    stream = settings.spec.stream
    return [StreamPlace(fs, layout, TableName.parse(table), stream) for table in settings.spec.fed_tables]


def joint_state(fs: Fs, layout: Layout, settings: StreamSettings) -> StreamState | None:
    """What all tables of a feed have of it; None where no stream has files. Raises what ``load_stream`` raises."""
    places = fed_places(fs, layout, settings)
    states = [load_stream(place) for place in places if place.stream in list_streams(place)]
    return furthest_back(states) if states else None


def left_tables(fs: Fs, layout: Layout, group: StreamGroup) -> list[str]:
    """Tables that the last run of the stream has fed, and that its file does not name any more."""
    routes, last = group.first.settings.spec.routes, {run.state.last_query for run in group.runs} - {None}
    if routes is None or not last:
        return []
    left = []
    for table in user_tables(fs, layout):
        place = StreamPlace(fs, layout, table, group.name)
        has_run = str(table) not in routes.names and fs.stat(place.stream_log) is not None
        if has_run and load_stream(place).last_query in last:
            left.append(str(table))
    return left


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
