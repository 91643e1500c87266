"""A Delta table as a Spark source: rows that *name* ranges of its files, never their content.

An offset of Spark's is a position in the table. Where to begin is asked from the commit log when the reader starts;
Spark's checkpoint proposes, the log decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ingest.delta_feed import DeltaFeed
from ingest.delta_log import Added
from ingest.delta_planner import DeltaPlanner, Planned, share_out
from ingest.row_size import row_bytes
from ingest.spec import Limit
from store.epochs.load import load_stream
from store.epochs.state import FileId, OffsetRange
from store.epochs.versions import TABLE, unpacked
from store.errors import PositionGapError, TableNotFoundError, carrying
from store.fs import Fs
from store.layout import Layout, TableName

SOURCE = "sparkhaven_delta"
SCHEMA = "topic string, partition int, start bigint, stop bigint, topic_id string, tasks int, waiting bigint"

Offset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeltaStream:
    """One stream over a Delta table: where its log is, and how many tasks may share a batch."""

    root: Path
    table: TableName
    stream: str
    feed: DeltaFeed
    tasks: int

    @property
    def format(self) -> str:
        """The name for ``spark.readStream.format(...)``; each stream has its own, since a class holds its settings."""
        return f"{SOURCE}_{self.table}_{self.stream}"


def delta_source(stream: DeltaStream) -> type[DataSource]:
    """The source class of one stream, for ``spark.dataSource.register``. It travels by value, settings included."""

    class DeltaSource(DataSource):  # type: ignore[misc]
        """Made by ``delta_source``."""

        @classmethod
        def name(cls) -> str:
            return stream.format

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            del schema
            with carrying():
                return VersionReader(stream, open_planner(Fs(), stream))

    return DeltaSource


def open_planner(fs: Fs, stream: DeltaStream) -> DeltaPlanner:
    """The planner of a stream, at the position that its commit log has."""
    try:
        end = load_stream(fs, Layout(stream.root), stream.table, stream.stream).offsets.get((TABLE, 0))
    except TableNotFoundError:
        end = None  # the first start of a stream
    position, table_id = (end.stop, end.topic_id) if end else (None, "")
    return DeltaPlanner(fs, stream.feed, position, table_id, lambda file: _row_bytes(fs, file))


def _row_bytes(fs: Fs, file: Added) -> float:
    found = fs.stat(Path(file.path))
    return row_bytes(fs, FileId(file.path, file.size, found.mtime_ns if found else 0), "parquet")


@dataclass
class Run(InputPartition):  # type: ignore[misc]
    """The range of one task."""

    range: OffsetRange
    tasks: int
    waiting: int


class VersionReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches for Spark."""

    def __init__(self, stream: DeltaStream, planner: DeltaPlanner) -> None:
        self._limit, self._tasks = stream.feed.max_per_trigger, max(stream.tasks, 1)
        self._planner, self._first = planner, planner.position
        self._batch: Planned | None = None

    def __getstate__(self) -> dict[str, object]:
        """Nothing: what Spark pickles for its workers is only asked to ``read``."""
        return {}

    def initialOffset(self) -> Offset:
        """The committed position, or where the stream begins."""
        return _offset(self._first)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The first limit that is set. Spark's limits cannot be combined; ``latestOffset`` keeps to all of them."""
        limit = self._limit
        if limit.bytes is not None:
            return ReadMaxBytes(limit.bytes)
        if limit.rows is not None:
            return ReadMaxRows(limit.rows)
        return ReadMaxFiles(limit.files) if limit.files is not None else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next batch, or ``start`` when nothing is new."""
        with carrying():
            self._planner.look()
            batch = self._planner.plan(_limit(limit, self._limit))
        if batch is None:
            return start
        self._batch = batch
        return _offset(batch.stop)

    def prepareForTriggerAvailableNow(self) -> None:
        """Only the versions that are there now."""
        with carrying():
            self._planner.freeze()

    def reportLatestOffset(self) -> Offset:
        """What is known to wait, for the progress report; this is no offset to read from."""
        files, size = self._planner.waiting()
        return {**_offset(self._planner.position), "waiting_files": files, "waiting_bytes": size}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Ranges of the batch that was planned last; none if nothing was new."""
        if start == end:
            return []
        batch = self._batch
        if batch is None or end["position"] != batch.stop:
            with carrying():
                raise PositionGapError(
                    "Spark asks for a batch that was not planned",
                    where=f"{start} to {end}",
                    expected="the batch that was planned last",
                    hint="start the stream again: each start renews Spark's checkpoint, and the commit log decides",
                )
        waiting, _ = self._planner.waiting()
        ranges = share_out(batch, self._planner.table_id, self._tasks)
        return [Run(item, len(ranges), waiting) for item in ranges]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int, int, str, int, int]]:
        """One row for the range of a task."""
        if isinstance(partition, Run):
            item = partition.range
            yield item.topic, item.partition, item.start, item.stop, item.topic_id, partition.tasks, partition.waiting


def _offset(position: int) -> Offset:
    at = unpacked(position)
    return {"position": position, "snapshot" if at.snapshot else "version": at.version, "file": at.file}


def _limit(limit: ReadLimit, own: Limit) -> Limit:
    """Spark's limit, with our others beside it unless all is asked for."""
    if isinstance(limit, ReadAllAvailable):
        return Limit()
    if isinstance(limit, ReadMaxBytes):
        return replace(own, bytes=limit.max_bytes)
    if isinstance(limit, ReadMaxRows):
        return replace(own, rows=limit.max_rows)
    if isinstance(limit, ReadMaxFiles):
        return replace(own, files=limit.max_files)
    return own
