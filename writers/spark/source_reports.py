"""Status reports of a Spark source while a query runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

REPORT_SECONDS = 1.0


class SourceReports:
    """Passes on what the source reported at the end of the newest trigger (its ``reportLatestOffset``), once each.

    ``report`` None: PySpark 4.0 and 4.1 ask no source for reports.
    """

    def __init__(
        self, query: StreamingQuery, report: Callable[[Mapping[str, Any]], None] | None, clock: Callable[[], float]
    ) -> None:
        self._query, self._report, self._clock = query, report, clock
        self._next = 0.0
        self._last: object = None

    def look_if_due(self) -> None:
        """Calls ``look`` at most once a second, because it asks the JVM."""
        if self._clock() >= self._next:
            self._next = self._clock() + REPORT_SECONDS
            self.look()

    def look(self) -> None:
        if self._report is None:
            return
        progress = self._query.lastProgress
        said = progress.sources[0].latestOffset if progress and progress.sources else None
        if said is not None and said != self._last:
            self._last = said
            value = json.loads(said) if isinstance(said, str) else said
            if isinstance(value, dict):
                self._report(value)
