"""Where the streams of a process run: in a Spark session, or in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from jobs.session.delta_session import require_delta
from jobs.session.spark_session import end_session, is_alive
from jobs.settings.stream_file import StreamSettings
from jobs.streams.feeds import SPLIT_OF, open_feed
from store.epochs.log import StreamLog
from store.io.fs import Fs
from writers.batch.local import run_local
from writers.batch.stream import StreamPlan, StreamTotals
from writers.spark.stream import run_stream
from writers.spark.tasks import jvm_gone
from writers.target import StreamTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Runner(Protocol):
    """Runs streams, each in a thread of its own."""

    def session(self) -> SparkSession:
        """A Spark session with Delta, for the quarantine. SettingsError: there is none to be had."""

    def enter(self, stream: str) -> None:
        """Called in a stream's thread before it runs."""

    def can_restart(self) -> bool:
        """Whether a stream that failed could be run again."""

    def run(
        self,
        fs: Fs,
        settings: StreamSettings,
        log: StreamLog,
        target: StreamTarget,
        plan: StreamPlan,
        stop: threading.Event,
    ) -> StreamTotals:
        """Runs an opened stream to its end, or until ``stop`` is set; raises what stops it."""

    def cause(self, error: Exception) -> Exception:
        """The error to report for one that was raised while a stream ran."""


class SparkRunner:
    """A running session; its jobs share the workers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def session(self) -> SparkSession:
        """The session."""
        return self._spark

    def enter(self, stream: str) -> None:
        """A scheduler pool for the stream."""
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", stream)  # its query's threads inherit it

    def can_restart(self) -> bool:
        """Not without a JVM."""
        return is_alive(self._spark)

    def run(
        self,
        fs: Fs,
        settings: StreamSettings,
        log: StreamLog,
        target: StreamTarget,
        plan: StreamPlan,
        stop: threading.Event,
    ) -> StreamTotals:
        """As a streaming query."""
        feed = open_feed(self._spark, target.layout, settings)
        plan = replace(plan, split_of=feed.split_of, allow_gap=feed.allow_gap)
        return run_stream(self._spark, feed.source, fs, log, target, plan, stop=stop)

    def cause(self, error: Exception) -> Exception:
        """The end of the JVM shows as many errors."""
        return jvm_gone(error) or error


class LocalRunner:
    """This process. ``start`` makes a session for the quarantine, when the first bad row comes."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._spark: SparkSession | None = None
        self._starting = threading.Lock()

    def session(self) -> SparkSession:
        """The session, started by the first call."""
        with self._starting:
            if self._spark is None:
                self._spark = self._start()
            require_delta(self._spark)
            return self._spark

    def enter(self, stream: str) -> None:
        """Nothing to prepare."""

    def can_restart(self) -> bool:
        """A run of what is available now is not repeated."""
        return False

    def run(
        self,
        fs: Fs,
        settings: StreamSettings,
        log: StreamLog,
        target: StreamTarget,
        plan: StreamPlan,
        stop: threading.Event,
    ) -> StreamTotals:
        """One batch after the other, each as one task."""
        from ingest.feeds.available import AvailableNow  # PySpark's classes of sources take their time

        feed = settings.feed
        plan = replace(plan, split_of=SPLIT_OF[feed.options.traits.split], allow_gap=feed.resume.allow_gap)
        planner = AvailableNow(feed.source(target.layout.root, 1))
        return run_local(planner, fs, log, target, plan, stop=stop)

    def cause(self, error: Exception) -> Exception:
        """A JVM can only be missed where one was started."""
        return error if self._spark is None else jvm_gone(error) or error

    def close(self) -> None:
        """Ends the session, if there is one."""
        if self._spark is not None:
            end_session(self._spark)
