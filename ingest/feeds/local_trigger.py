"""Plans the batches of a source in this process, by the calls that Spark makes: what it has now, or all that comes.

A source is driven by its own reader, so limits, order and positions are those of a run in Spark, whatever the feed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparkhaven.ingest.feeds.base import Source
from sparkhaven.readers.spark.source_api import SupportsTriggerAvailableNow
from sparkhaven.store.errors import SettingsError, SparkhavenError, carried_error

LEAST_PAUSE_S, MOST_PAUSE_S = 0.002, 0.05  # between two looks at a source that has nothing new
PAUSE_SHARE = 16  # of the time that nothing was new: a busy source is looked at more often than a silent one


class SourcePlanner:
    """Batches of one source, a planner of ``writers.batch.local_stream``. The source is opened by the first ``plan``.

    Its ``schema`` is a DDL text; its reader gets none. Errors that it carries are raised as they were.
    """

    def __init__(self, source: Source, stopped: threading.Event | None = None) -> None:
        self._source = source.kind(dict(source.options))
        self._names = [column.split()[0] for column in self._source.schema().split(",")]
        self._reader: Any = None
        self._at: Mapping[str, object] = {}
        self._said: Mapping[str, Any] | None = None
        self._stopped = stopped or threading.Event()

    def plan(self) -> list[dict[str, Any]]:
        """Rows that name the splits of the next batch; none at the end. SettingsError: no ``availableNow``."""
        try:
            with _plain():
                return self._next()
        except SparkhavenError as error:
            if self._stopped.is_set() and error.retryable:  # what it has waited for
                return []
            raise

    def report(self) -> Mapping[str, Any] | None:
        """What the source has reported last, if it reports anything; also while another thread plans."""
        return self._said

    def committed(self) -> None:
        """Tells the source that it need not plan the last batch again."""
        with _plain():
            self._reader.commit(self._at)

    def stop(self) -> None:
        self._stopped.set()
        if self._reader is not None:
            self._reader.stop()

    def _next(self) -> list[dict[str, Any]]:
        """The batch that follows the last one; none where nothing is new."""
        if self._reader is None:
            self._open()
        if self._stopped.is_set():
            return []
        end = self._reader.latestOffset(self._at, self._limit)
        said = self._reader.reportLatestOffset()
        self._said = said if isinstance(said, Mapping) else None
        if end == self._at:
            return []
        runs = self._reader.partitions(self._at, end)
        rows = [dict(zip(self._names, row, strict=True)) for run in runs for row in self._reader.read(run)]
        self._at = end
        return rows

    def _open(self) -> None:
        reader = self._source.streamReader(None)
        if not isinstance(reader, SupportsTriggerAvailableNow):
            raise SettingsError(
                "the source of this feed cannot be read without Spark",
                where=self._source.name(),
                expected="a reader with SupportsTriggerAvailableNow",
                found=type(reader).__name__,
                hint="run the stream with --spark",
            )
        self._reader = reader  # from now on ``stop`` reaches it
        self._prepare(reader)
        self._limit, self._at = reader.getDefaultReadLimit(), reader.initialOffset()

    def _prepare(self, reader: Any) -> None:
        """Before its first offset is asked for."""


class AvailableNow(SourcePlanner):
    """Up to what the source has when the first batch is planned."""

    def _prepare(self, reader: Any) -> None:
        reader.prepareForTriggerAvailableNow()


class Following(SourcePlanner):
    """All that comes: but for the first one, a plan waits for something new, and is empty only once it is stopped.

    ``trigger_s``: seconds from one look at the source to the next, at least. 0: at once after a batch, and again after
    pauses that grow from 2 to 50 ms while nothing is new.
    """

    def __init__(
        self,
        source: Source,
        trigger_s: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        stopped: threading.Event | None = None,
    ) -> None:
        super().__init__(source, stopped)
        self._trigger_s, self._clock = trigger_s, clock
        self._looked: float | None = None

    def _next(self) -> list[dict[str, Any]]:
        if self._looked is None:  # like Spark's, the first batch is also one without splits
            self._looked = self._clock()
            return super()._next()
        since = self._clock()
        if self._trigger_s:
            self._wait(0.0)
        while not (rows := self._look()) and not self._stopped.is_set():
            self._wait((self._clock() - since) / PAUSE_SHARE)
        return rows

    def _look(self) -> list[dict[str, Any]]:
        self._looked = self._clock()
        return super()._next()

    def _wait(self, pause: float) -> None:
        """Until the next look is due, counted from the last one, which may have waited itself."""
        assert self._looked is not None  # noqa: S101  a first look was made
        pause = self._trigger_s or min(max(pause, LEAST_PAUSE_S), MOST_PAUSE_S)
        left = self._looked + pause - self._clock()
        if left > 0:
            self._stopped.wait(left)


@contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        carried = carried_error(str(error))
        if carried is None:
            raise
        raise carried from error
