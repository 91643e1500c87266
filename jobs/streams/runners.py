"""Where the streams of a process run: in a Spark session, or in this process."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sparkhaven.jobs.session.spark_session import is_alive
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.streams.feeds import SPLIT_OF, open_feed
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.batch.local_stream import run_local
from sparkhaven.writers.batch.stream_batches import StreamPlan, StreamTotals
from sparkhaven.writers.spark.spark_tasks import jvm_gone
from sparkhaven.writers.spark.stream_query import run_stream
from sparkhaven.writers.task.target import StreamTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@frozen
class StreamWork:
    """An opened stream, where its rows go, and how it runs; ``stop``: end after the batch."""

    fs: Fs
    settings: StreamSettings
    log: StreamLog
    target: StreamTarget
    plan: StreamPlan
    stop: threading.Event


class Runner(Protocol):
    """Runs streams, each in a thread of its own."""

    def enter(self, stream: str) -> None:
        """Called in a stream's thread before it runs."""

    def can_restart(self) -> bool:
        """Whether a stream that failed could be run again."""

    def run(self, work: StreamWork) -> StreamTotals:
        """Runs a stream to its end, or until it is stopped; raises what stops it."""

    def cause(self, error: Exception) -> Exception:
        """The error to report for one that was raised while a stream ran."""


class SparkRunner:
    """A running session; its jobs share the workers."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def enter(self, stream: str) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", stream)  # its query's threads inherit it

    def can_restart(self) -> bool:
        """Not without a JVM."""
        return is_alive(self.spark)

    def run(self, work: StreamWork) -> StreamTotals:
        feed = open_feed(self.spark, work.target.layout, work.settings, once=work.plan.ends)
        plan = replace(work.plan, split_of=feed.split_of, allow_gap=feed.allow_gap)
        return run_stream(self.spark, feed.source, work.fs, work.log, work.target, plan, stop=work.stop)

    def cause(self, error: Exception) -> Exception:
        """The end of the JVM shows as many errors."""
        return jvm_gone(error) or error


class LocalRunner:
    """This process, without Spark."""

    def enter(self, stream: str) -> None:
        """Nothing to prepare."""

    def can_restart(self) -> bool:
        """A run of what is available now is not repeated."""
        return False

    def run(self, work: StreamWork) -> StreamTotals:
        """One batch after the other, each as one task."""
        from sparkhaven.ingest.feeds.local_trigger import AvailableNow  # PySpark's classes of sources take their time

        feed = work.settings.feed
        plan = replace(work.plan, split_of=SPLIT_OF[feed.options.traits.split], allow_gap=feed.resume.allow_gap)
        planner = AvailableNow(feed.source(work.target.layout.root, 1))
        return run_local(planner, work.fs, work.log, work.target, plan, stop=work.stop)

    def cause(self, error: Exception) -> Exception:
        return error
