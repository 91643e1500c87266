"""What the Spark sources of all feeds share: they plan splits, and their rows name them.

Spark pickles a reader for its workers, which only ask it to ``read``; what plans stays where it is. Limits come from
Spark and from the feed, and both hold. The number of tasks that share a batch follows the executors that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from sparkhaven.ingest.spec.payload_formats import Limit
from sparkhaven.readers.spark.source_api import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.errors import carrying
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.scratch.batch_plan import leave_plan, noted_tasks

RANGES = "topic string, partition int, start bigint, stop bigint, topic_id string, task int, waiting bigint"

Feed = TypeVar("Feed")
Offset = TypeVar("Offset", bound=Mapping[str, object])  # of a source, as Spark keeps it: JSON


class PlanningReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches for Spark, up to ``own`` limits; ``scratch`` is where they are left for the driver.

    ``given_tasks``: how many tasks may share a batch, until the driver has noted another number.
    """

    own: Limit
    scratch: Path
    given_tasks: int = 1
    columns = RANGES

    def __getstate__(self) -> dict[str, object]:
        """Nothing: workers only ask to ``read``, and clients and what is known of a feed stay with the planner."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The first limit that is set. Spark's limits cannot be combined; ``limited`` keeps to all of them."""
        if self.own.bytes is not None:
            return ReadMaxBytes(self.own.bytes)
        if self.own.rows is not None:
            return ReadMaxRows(self.own.rows)
        return ReadMaxFiles(self.own.files) if self.own.files is not None else ReadAllAvailable()

    def limited(self, limit: ReadLimit) -> Limit:
        """Spark's limit, with our others beside it unless all is asked for."""
        if isinstance(limit, ReadAllAvailable):
            return Limit()
        if isinstance(limit, ReadMaxBytes):
            return replace(self.own, bytes=limit.max_bytes)
        if isinstance(limit, ReadMaxRows):
            return replace(self.own, rows=limit.max_rows)
        if isinstance(limit, ReadMaxFiles):
            return replace(self.own, files=limit.max_files)
        return self.own

    def tasks_now(self) -> int:
        """How many tasks may share the batch that is planned now."""
        return noted_tasks(Fs(), self.scratch) or max(1, self.given_tasks)

    def planned(self, start: Offset, end: Offset) -> Offset:
        """``end``, with the rows up to it left for the driver; those of a large task say so."""
        names = [column.split()[0] for column in self.columns.split(", ")]
        rows = [
            dict(zip(names, row, strict=True)) | ({"large": True} if getattr(run, "large", False) else {})
            for run in self.partitions(start, end)
            for row in self.read(run)
        ]
        leave_plan(Fs(), self.scratch, end, rows)
        return end


@dataclass
class RangeRun(InputPartition):  # type: ignore[misc]
    """The ranges of one task in order, its number in the batch, and what waits behind the batch.

    ``large``: more than the driver of a cluster does itself.
    """

    ranges: tuple[OffsetRange, ...]
    task: int
    waiting: int
    large: bool = False


class RangeReader(PlanningReader):
    """A reader whose splits are ranges of offsets."""

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int, int, str, int, int]]:
        if isinstance(partition, RangeRun):
            for offsets in partition.ranges:
                named = offsets.topic, offsets.partition, offsets.start, offsets.stop, offsets.topic_id
                yield *named, partition.task, partition.waiting


@dataclass(frozen=True)  # no slots: a generic alias, when called, sets an attribute
class FeedStream(Generic[Feed]):
    """One stream over a feed: where its log is, and how many tasks may share a batch when it starts.

    ``beside`` are further tables that the feed has rows of, each with a log of the stream.
    """

    root: Path
    table: TableName
    stream: str
    feed: Feed
    tasks: int
    beside: tuple[TableName, ...] = ()

    @property
    def scratch(self) -> Path:
        return Layout(self.root).scratch(self.table, self.stream)

    def committed(self, fs: Fs) -> tuple[FileWindow, Offsets]:
        """The positions that all of its tables have; none at its first start."""
        layout = Layout(self.root)
        return load_joint_positions([StreamPlace(fs, layout, name, self.stream) for name in (self.table, *self.beside)])


def committed_ends(fs: Fs, stream: FeedStream[Any]) -> Offsets:
    """How far all tables of a stream have taken a feed of offsets."""
    return stream.committed(fs)[1]


def stream_source(
    kind: str,
    stream: FeedStream[Feed],
    open_reader: Callable[[FeedStream[Feed]], PlanningReader],
    columns: str = RANGES,
) -> type[DataSource]:
    """The source class of one stream, for ``spark.dataSource.register``; its name is of this stream alone.

    It travels by value with the feed inside: options would show a feed's secrets in plans and in Spark's UI.
    """

    class StreamSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return f"sparkhaven_{kind}_{stream.table}_{stream.stream}"

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: object) -> DataSourceStreamReader:
            with carrying():
                return open_reader(stream)

    return StreamSource
