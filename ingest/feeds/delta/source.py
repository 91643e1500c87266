"""A Delta table as a Spark source: rows that *name* ranges of its files, never their content.

An offset of Spark's is a position in the table. Where to begin is asked from the commit log when the reader starts;
Spark's checkpoint proposes, the log decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from sparkhaven.ingest.content.file_parts import SMALL_BATCH
from sparkhaven.ingest.feeds.delta.options import DeltaOptions
from sparkhaven.ingest.feeds.delta.planner import DeltaPlanner, Planned, share_out
from sparkhaven.ingest.feeds.delta.versions import AddedFile
from sparkhaven.ingest.feeds.files.row_size import row_bytes
from sparkhaven.ingest.feeds.spark_planning import (
    RangeReader,
    RangeRun,
    RangeStream,
    committed_ends,
    range_source,
)
from sparkhaven.readers.spark.source_api import DataSource, InputPartition, ReadLimit
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.epochs.state.position_kinds import unpacked
from sparkhaven.store.errors import PositionGapError, carrying
from sparkhaven.store.io.fs import Fs

DeltaStream = RangeStream[DeltaOptions]


class DeltaOffset(TypedDict, total=False):
    """A position in the table; what it stands for is there for people."""

    position: int
    snapshot: int
    version: int
    file: int


class DeltaReport(DeltaOffset):
    """What waits behind a position."""

    waiting_files: int
    waiting_bytes: int


def delta_source(stream: DeltaStream) -> type[DataSource]:
    return range_source("delta", stream, lambda of: VersionReader(of, open_planner(Fs(), of)))


def open_planner(fs: Fs, stream: DeltaStream) -> DeltaPlanner:
    end = committed_ends(fs, stream).versions
    position, table_id = (end.stop, end.topic_id) if end else (None, "")
    return DeltaPlanner(fs, stream.feed, position, table_id, lambda file: _row_bytes(fs, file))


def _row_bytes(fs: Fs, file: AddedFile) -> float:
    stat = fs.stat(Path(file.path))
    return row_bytes(fs, FileId(file.path, file.size, stat.mtime_ns if stat else 0), "parquet")


class VersionReader(RangeReader):
    """Plans batches of whole files, in the order of versions."""

    def __init__(self, stream: DeltaStream, planner: DeltaPlanner) -> None:
        self.own, self.scratch = stream.feed.max_per_trigger, stream.scratch
        self.given_tasks = stream.tasks
        self._planner, self._first = planner, planner.position
        self._batch: Planned | None = None

    def initialOffset(self) -> DeltaOffset:
        return _offset(self._first)

    def latestOffset(self, start: DeltaOffset, limit: ReadLimit) -> DeltaOffset:
        with carrying():
            self._planner.look()
            batch = self._planner.plan(self.limited(limit))
            if batch is None:
                return start
            self._batch = batch
            return self.planned(start, _offset(batch.stop))

    def prepareForTriggerAvailableNow(self) -> None:
        with carrying():
            self._planner.freeze()

    def reportLatestOffset(self) -> DeltaReport:
        """What is known to wait, for the progress report; this is no offset to read from."""
        files, size = self._planner.waiting()
        return {**_offset(self._planner.position), "waiting_files": files, "waiting_bytes": size}

    def partitions(self, start: DeltaOffset, end: DeltaOffset) -> Sequence[InputPartition]:
        if start == end:
            return []
        batch = self._batch
        if batch is None or end["position"] != batch.stop:
            with carrying():
                raise PositionGapError(
                    "Spark asks for a batch that was not planned",
                    where=f"{start} to {end}",
                    expected="the batch that was planned last",
                    hint="start the stream again. Each start renews Spark's checkpoint, and the commit log decides"
                    " what is read",
                )
        waiting, _ = self._planner.waiting()
        ranges = share_out(batch, self._planner.table_id, self.tasks_now())
        large = batch.bytes > SMALL_BATCH
        return [RangeRun((offset_range,), task, waiting, large) for task, offset_range in enumerate(ranges)]


def _offset(position: int) -> DeltaOffset:
    parts = unpacked(position)
    if parts.snapshot:
        return {"position": position, "snapshot": parts.version, "file": parts.file}
    return {"position": position, "version": parts.version, "file": parts.file}
