"""Plans what a source has now, in this process: the calls that Spark makes for its trigger ``availableNow``.

A source is driven by its own reader, so limits, order and positions are those of a run in Spark, whatever the feed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparkhaven.ingest.feeds.base import Source
from sparkhaven.readers.spark.source_api import SupportsTriggerAvailableNow
from sparkhaven.store.errors import SettingsError, SparkhavenError, carried_error


class AvailableNow:
    """Batches of one source, a planner of ``writers.batch.local_stream``. The source is opened by the first ``plan``.

    Its ``schema`` is a DDL text; its reader gets none. Errors that it carries are raised as they were.
    """

    def __init__(self, source: Source) -> None:
        self._source = source.kind(dict(source.options))
        self._names = [column.split()[0] for column in self._source.schema().split(",")]
        self._reader: Any = None
        self._at: Mapping[str, object] = {}
        self._stopped = False

    def plan(self) -> list[dict[str, Any]]:
        """Rows that name the splits of the next batch; none at the end. SettingsError: no ``availableNow``."""
        try:
            with _plain():
                return self._next()
        except SparkhavenError as error:
            if self._stopped and error.retryable:  # what it has waited for
                return []
            raise

    def report(self) -> Mapping[str, Any] | None:
        """What the source reports after a plan, if it reports anything."""
        with _plain():
            report = self._reader.reportLatestOffset() if self._reader is not None else None
        return report if isinstance(report, Mapping) else None

    def committed(self) -> None:
        """Tells the source that it need not plan the last batch again."""
        with _plain():
            self._reader.commit(self._at)

    def stop(self) -> None:
        self._stopped = True
        if self._reader is not None:
            self._reader.stop()

    def _next(self) -> list[dict[str, Any]]:
        if self._reader is None:
            self._open()
        if self._stopped:
            return []
        end = self._reader.latestOffset(self._at, self._limit)
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
        self._reader = reader
        reader.prepareForTriggerAvailableNow()
        self._limit, self._at = reader.getDefaultReadLimit(), reader.initialOffset()


@contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        carried = carried_error(str(error))
        if carried is None:
            raise
        raise carried from error
