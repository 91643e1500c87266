"""What streams report to their metrics. These classes keep nothing: they stand for metrics that nobody asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkhaven.jobs.monitor.source_watch import SourceWatch
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.writers.batch.stream_batches import BatchProgress


class StreamSink:
    """Receives the reports of one stream."""

    def on_disk(self, fs: Fs, layout: Layout, policy: CommitPolicy, recovery_s: float) -> None:
        """Where the stream writes, what a power failure may lose, and how long the opening took."""

    def batch(self, done: BatchProgress) -> None:
        """A batch has ended."""

    def reported(self, said: Mapping[str, Any]) -> None:
        """The source has reported."""

    def ended(self) -> None:
        """The query has ended, or failed."""


class MetricsSink:
    """Receives the reports of all streams of a process."""

    def stream(self, table: str, log: StreamLog, watch: SourceWatch | None = None) -> StreamSink:
        """What receives the reports of a stream that was just opened. ``watch`` asks its broker, if it has one."""
        return StreamSink()

    def failed(self, table: str, stream: str, error: BaseException) -> None:
        """A stream has failed, or cannot be opened."""

    def restarted(self, table: str, stream: str) -> None:
        """A stream that had failed is started again."""


NO_METRICS = MetricsSink()
