"""What the Spark sources of all feeds share: they plan splits, and their rows name them; in Spark, or in this process.

Spark pickles a reader for its workers, which only ask it to ``read``; what plans stays where it is. Limits come from
Spark and from the feed, and both hold. The number of tasks that share a batch follows the executors that are there.

Without Spark batches are planned by the calls that Spark makes: of what a source has now, or of all that comes. A
source is driven by its own reader, so limits, order and positions are those of a run in Spark, whatever the feed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from sparkhaven.ingest.feeds.base import Source
from sparkhaven.ingest.spec import Limit
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
from sparkhaven.store.batch_plan import leave_plan, noted_tasks
from sparkhaven.store.epochs.reading.stream_state import load_joint_positions
from sparkhaven.store.epochs.state.file_positions import FileWindow
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.epochs.state.offsets import Offsets
from sparkhaven.store.errors import SettingsError, SparkhavenError, carried_error, carrying
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import StreamPlace

RANGES = "topic string, partition int, start bigint, stop bigint, topic_id string, task int, waiting bigint"

Feed = TypeVar("Feed")
Offset = TypeVar("Offset", bound=Mapping[str, object])  # of a source, as Spark keeps it: JSON
LEAST_PAUSE_S, MOST_PAUSE_S = 0.002, 0.05  # between two looks at a source that has nothing new
PAUSE_SHARE = 16  # of the time that nothing was new: a busy source is looked at more often than a silent one


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


class SourcePlanner:
    """Batches of one source, a planner of ``writers.batch.stream_batches``. The source is opened by the first ``plan``.

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
