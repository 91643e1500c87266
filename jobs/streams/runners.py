"""Where the streams of a process run: in a Spark session, or in this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from sparkhaven.jobs.session.interpreter import require_program
from sparkhaven.jobs.session.spark_session import is_alive
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import SPLIT_OF, FeedTables, SplitOf, StreamTotals, run_local_tables
from sparkhaven.writers.spark.spark_tasks import jvm_gone
from sparkhaven.writers.spark.stream_query import run_stream_of_tables
from sparkhaven.writers.spark.workers import ExecutorWatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class OpenedFeed:
    """A source whose rows are splits, how to parse them, and whether missing offsets are allowed."""

    source: DataFrame
    split_of: SplitOf
    allow_gap: bool = False


def open_feed(spark: SparkSession, layout: Layout, settings: StreamSettings, *, once: bool) -> OpenedFeed:
    """The Spark source of a stream, which starts from the stream's commit log; ``once``: up to what is there now.

    SettingsError: the driver cannot start its planner.
    """
    from sparkhaven.readers.spark.batch import planned_source
    from sparkhaven.readers.spark.source_api import HAS_LIMITS  # imports PySpark

    require_program(spark.sparkContext)
    feed = settings.feed
    source = feed.source(layout.root, spark.sparkContext.defaultParallelism)
    kind = source.kind if HAS_LIMITS else planned_source(source.kind, once=once)
    spark.dataSource.register(kind)
    frame = spark.readStream.format(kind.name()).options(**source.options).load()
    return OpenedFeed(frame, SPLIT_OF[feed.options.traits.split], feed.resume.allow_gap)


@dataclass(frozen=True, slots=True)
class StreamWork:
    """The opened streams of a stream file, one for each of its tables; ``stop``: end after the batch."""

    fs: Fs
    settings: StreamSettings
    fed: FeedTables
    stop: threading.Event

    def planned(self, split_of: SplitOf, *, allow_gap: bool) -> FeedTables:
        """The tables, with what the source tells of its splits."""
        tables = (
            replace(table, plan=replace(table.plan, split_of=split_of, allow_gap=allow_gap))
            for table in self.fed.tables
        )
        return replace(self.fed, tables=tuple(tables))


class Runner(Protocol):
    """Runs streams, each in a thread of its own."""

    def enter(self, stream: str) -> None:
        """Called in a stream's thread before it runs."""

    def can_restart(self) -> bool:
        """Whether a stream that failed could be run again."""

    def run(self, work: StreamWork) -> list[StreamTotals]:
        """Runs a stream to its end, or until it is stopped; the totals of each table. Raises what stops it."""

    def cause(self, error: Exception) -> Exception:
        """The error to report for one that was raised while a stream ran."""

    def look(self, *, stopping: bool) -> str | None:
        """Called again and again while streams run; a remark for them, or None.

        ``stopping``: they were asked to stop. Then what has no end is ended.
        """


class SparkRunner:
    """A running session; its jobs share the workers."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @cached_property
    def _watch(self) -> ExecutorWatch | None:
        return ExecutorWatch.of(self.spark.sparkContext)

    def enter(self, stream: str) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", stream)  # its query's threads inherit it

    def can_restart(self) -> bool:
        """Not without a JVM."""
        return is_alive(self.spark)

    def run(self, work: StreamWork) -> list[StreamTotals]:
        first = work.fed.first
        feed = open_feed(self.spark, first.target.layout, work.settings, once=first.plan.ends)
        fed = work.planned(feed.split_of, allow_gap=feed.allow_gap)
        return run_stream_of_tables(self.spark, feed.source, work.fs, fed, stop=work.stop)

    def cause(self, error: Exception) -> Exception:
        """The end of the JVM shows as many errors."""
        return jvm_gone(error) or error

    def look(self, *, stopping: bool) -> str | None:
        """Batches of a cluster may wait for an executor without end."""
        return self._watch.look(stopping=stopping) if self._watch is not None else None


class LocalRunner:
    """This process, without Spark. ``once``: streams end with what is there now."""

    def __init__(self, *, once: bool) -> None:
        self._once = once

    def enter(self, stream: str) -> None:
        """Nothing to prepare."""

    def can_restart(self) -> bool:
        """A run of what is available now is not repeated."""
        return not self._once

    def run(self, work: StreamWork) -> list[StreamTotals]:
        """One batch after the other, each as one task."""
        # PySpark's classes of sources take their time
        from sparkhaven.ingest.feeds.spark_planning import AvailableNow, Following

        feed = work.settings.feed
        fed = work.planned(SPLIT_OF[feed.options.traits.split], allow_gap=feed.resume.allow_gap)
        source = feed.source(fed.first.target.layout.root, 1)
        planner = AvailableNow(source) if self._once else Following(source, work.settings.trigger_s)
        return run_local_tables(planner, work.fs, fed, stop=work.stop)

    def cause(self, error: Exception) -> Exception:
        return error

    def look(self, *, stopping: bool) -> str | None:
        """This process runs each task at once."""
        return None
