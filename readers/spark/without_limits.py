"""Stream readers as PySpark 4.0 and 4.1 call them: without the start of a batch, limits, or the trigger.

Those releases ask ``latestOffset()`` for an end, and take everything up to it as one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparkhaven.readers.spark.source_api import DataSource, DataSourceStreamReader, InputPartition

Offset = dict[str, Any]


def planned_source(kind: type[DataSource], *, once: bool) -> type[DataSource]:
    """The source class of one stream, whose reader keeps to its own limits; ``once``: up to what is there now."""

    class PlannedSource(kind):  # type: ignore[misc]
        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return PlannedBatches(super().streamReader(schema), once=once)

    return PlannedSource


class _Adapted(DataSourceStreamReader):  # type: ignore[misc]
    """A reader whose other calls are those of ``reader``."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def initialOffset(self) -> Offset:
        return self._reader.initialOffset()  # type: ignore[no-any-return]

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self._reader.partitions(start, end)  # type: ignore[no-any-return]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)  # type: ignore[no-any-return]

    def commit(self, end: Offset) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


class PlannedBatches(_Adapted):
    """Batch after batch by the limits of the reader. It begins anew with each query, since a start renews
    the checkpoint: the end of the last batch is the start of the next."""

    def __init__(self, reader: Any, *, once: bool) -> None:
        super().__init__(reader)
        self._once = once
        self._end: Offset | None = None

    def __getstate__(self) -> Offset:
        return {"_reader": self._reader}

    def latestOffset(self) -> Offset:
        """The end of the next batch; the last one when nothing is new."""
        if self._end is None:
            self._end = self._reader.initialOffset()
            if self._once:
                self._reader.prepareForTriggerAvailableNow()
        self._end = self._reader.latestOffset(self._end, self._reader.getDefaultReadLimit())
        return self._end


class WholeBatches(_Adapted):
    """All that is there is one batch: where the query has a checkpoint, nobody knows the start of a batch."""

    def latestOffset(self) -> Offset:
        return self._reader.reportLatestOffset()  # type: ignore[no-any-return]
