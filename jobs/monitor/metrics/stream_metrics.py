"""Metrics of running streams, as Prometheus reads them: text over HTTP, default address: loopback."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from sparkhaven.ingest.decode_guard import FAILED_BLOCKS
from sparkhaven.ingest.feeds.base import DATA_BYTES
from sparkhaven.jobs.monitor.metrics import catalogue as named
from sparkhaven.jobs.monitor.metrics.catalogue import CATALOGUE, MODE, OF_LOGS, OF_TOPICS, PREFIX, STREAM, Metric
from sparkhaven.jobs.monitor.metrics.sink import MetricsSink, StreamSink
from sparkhaven.jobs.monitor.metrics.table_metrics import TableCollector, TableMetrics
from sparkhaven.jobs.monitor.source_watch import SourceWatch
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import ABSENT_FIELDS, UNKNOWN_FIELDS
from sparkhaven.store.errors import CorruptFileError, LockLostError, PositionGapError, SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.quarantine.reasons import Reason
from sparkhaven.writers.batch.stream_batches import BatchProgress

LOOPBACK = "127.0.0.1"
OF_REASONS = {named.LATE: (Reason.LATE,), named.OUTSIDE: (Reason.NULL_DATE, Reason.OUT_OF_BOUNDS)}
DECODER_ERRORS = (*(f"rejected.{part}{Reason.DECODER_FAILED}" for part in ("", "key-", "header-")), FAILED_BLOCKS)


disable_created_metrics()  # type: ignore[no-untyped-call]  # times at which series began


class Metrics(MetricsSink):
    """The metrics of one process. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._streams: dict[tuple[str, str], StreamMetrics] = {}
        self.registry.register(_Refresh(self._streams))  # first: it updates the values that the others return
        self._made: dict[str, MetricWrapperBase] = {
            item.name: _made(item, self.registry) for item in (*CATALOGUE, *OF_LOGS)
        }
        self._tables = TableCollector()
        self.registry.register(self._tables)

    def stream(self, table: str, log: StreamLog, watch: SourceWatch | None = None) -> StreamMetrics:
        metrics = StreamMetrics(self._made, table, log, self._clock, watch, self._tables)
        self._streams[table, log.state.stream] = metrics
        return metrics

    def failed(self, table: str, stream: str, error: BaseException) -> None:
        labels = {"table": table, "stream": stream}
        self._made[named.RUNNING.name].labels(**labels).set(0)  # type: ignore[attr-defined]
        kinds = {named.MISMATCHES: PositionGapError, named.LOCKS_LOST: LockLostError, named.DAMAGES: CorruptFileError}
        for item, kind in kinds.items():
            if isinstance(error, kind):
                self._made[item.name].labels(**labels).inc()  # type: ignore[attr-defined]
        self._made[named.FAILURES.name].labels(**labels, error=type(error).__name__).inc()  # type: ignore[attr-defined]

    def log_failed(self, log_table: str, lost: int) -> None:
        """A log table could not be written; ``lost`` rows of it are not tried again."""
        self._made[named.LOG_FAILURES.name].labels(table=log_table).inc()  # type: ignore[attr-defined]
        self._made[named.LOG_LOST.name].labels(table=log_table).inc(lost)  # type: ignore[attr-defined]

    def restarted(self, table: str, stream: str) -> None:
        self._made[named.RESTARTS.name].labels(table=table, stream=stream).inc()  # type: ignore[attr-defined]


class _Refresh(Collector):
    """Has no metric: asks all brokers in parallel when a scrape begins."""

    def __init__(self, streams: Mapping[tuple[str, str], StreamMetrics]) -> None:
        self._streams = streams

    def collect(self) -> list[MetricFamily]:
        streams = list(self._streams.values())
        if streams:
            with ThreadPoolExecutor(min(16, len(streams))) as pool:
                list(pool.map(StreamMetrics.refresh, streams))
        return []


class StreamMetrics(StreamSink):
    """The metrics of one stream, with its labels. Values of the log are read when they are scraped."""

    def __init__(
        self,
        wrappers: Mapping[str, MetricWrapperBase],
        table: str,
        log: StreamLog,
        clock: Callable[[], float],
        watch: SourceWatch | None,
        tables: TableCollector,
    ) -> None:
        self._tables = tables
        self._made, self._log, self._clock, self._watch = wrappers, log, clock, watch
        self._labels = {"table": table, "stream": log.state.stream}
        self._committed = clock()
        self._files_since: float | None = None
        self._before = log.state.offsets.positions()
        for item in CATALOGUE:
            if (
                item.labels in (STREAM, MODE)
                and item is not named.LAG_FILES
                and (watch is not None or item not in OF_TOPICS)
            ):
                self._of(item)  # exported from the start, with 0: else the first rows are no increase
        for item, reasons in {named.REJECTED: tuple(Reason), **OF_REASONS}.items():
            for reason in reasons:
                self._of(item, reason=reason)
        self._of(named.CUT).set(log.recovery.cut_bytes)
        self._of(named.EPOCH).set_function(lambda: log.state.epoch)
        self._of(named.FLOOR).set_function(lambda: log.state.floor)
        self._of(named.AGE).set_function(lambda: clock() - self._committed)
        self._of(named.DATES).set_function(lambda: len({key.value for key in list(log.state.locations)}))
        self._of(named.RUNNING).set(1)
        self._positions()

    def on_disk(self, fs: Fs, layout: Layout, policy: CommitPolicy, recovery_s: float) -> None:
        """Sets the loss window of a power failure, and the duration of the opening; adds the table."""
        self._of(named.LOSS_WINDOW).set(policy.loss_window_s)
        self._of(named.RECOVERY).set(recovery_s)
        table = TableName.parse(self._labels["table"])
        self._tables.add(TableMetrics(TablePlace(fs, Layout(fs.resolve(layout.root)), table), self._clock))

    def ended(self) -> None:
        self._of(named.RUNNING).set(0)

    def batch(self, done: BatchProgress) -> None:
        outcome = done.outcome
        self._of(named.REPLAYS).inc(outcome.replayed)
        if outcome.epoch is None:
            return
        self._committed = self._clock()
        self._of(named.ROWS).inc(outcome.rows)
        self._of(named.BYTES).inc(outcome.bytes + outcome.counts.get(DATA_BYTES, 0))
        self._of(named.BATCHES).inc()
        self._of(named.GAPS).inc(outcome.passed)
        self._of(named.UNKNOWN).inc(outcome.counts.get(UNKNOWN_FIELDS, 0))
        self._of(named.ABSENT).inc(outcome.counts.get(ABSENT_FIELDS, 0))
        for item, reasons in OF_REASONS.items():
            for reason in reasons:
                self._of(item, reason=reason).inc(outcome.counts.get(f"rejected.{reason}", 0))
        self._of(named.DECODERS).inc(sum(outcome.counts.get(name, 0) for name in DECODER_ERRORS))
        for name, rows in outcome.counts.items():
            kind, _, code = name.partition(".")
            if kind == "rejected" and code:
                self._of(named.REJECTED, reason=code).inc(rows)
        self._of(named.COMMIT).observe(outcome.seconds.get("commit", 0.0))
        self._of(named.FSYNC).observe(outcome.seconds.get("sync", 0.0))
        self._of(named.SYNC_BYTES).observe(outcome.written)
        self._of(named.BATCH).observe(done.seconds)
        self._positions()

    def reported(self, said: Mapping[str, Any]) -> None:
        """Sets the number of waiting files from a report of the source."""
        waiting = said.get("waiting_files")
        if waiting is not None:
            self._of(named.LAG_FILES).set(waiting)
            self._files_since = None if not waiting else self._files_since or self._clock()
            self._files_lag()

    def refresh(self) -> None:
        """Updates the ends of topic partitions and waiting times, before a scrape."""
        self._files_lag()
        watch = self._watch
        if watch is None:
            return
        positions = self._log.state.offsets.positions()  # read before the ends, which are then never smaller
        seen, now = watch.fresh(), self._clock()
        self._of(named.REACHABLE).set(seen.reachable)
        self._of(named.END_AGE).set(math.inf if seen.at is None else max(0.0, now - seen.at))
        for source, end in seen.ends.items():
            offset = positions.get(source, end)
            self._of(named.POSITION, source=source).set(offset)
            self._of(named.END, source=source).set(end)
            self._of(named.LAG, source=source).set(max(0, end - offset))
            waiting_s = watch.waiting_seconds(source, offset, now) if offset < end else 0.0
            self._of(named.LAG_SECONDS, source=source).set(waiting_s)

    def _files_lag(self) -> None:
        if self._watch is None:
            waits = 0.0 if self._files_since is None else self._clock() - self._files_since
            self._of(named.LAG_SECONDS, source="files").set(waits)

    def _positions(self) -> None:
        positions = self._log.state.offsets.positions()
        for source, position in positions.items():
            self._of(named.POSITION, source=source).set(position)
            if "/" in source:
                self._of(named.TAKEN, source=source).inc(max(0, position - self._before.get(source, position)))
        self._before = positions

    def _of(self, item: Metric, **labels: str) -> Any:
        if item.labels == MODE:
            labels["mode"] = self._log.state.durability
        return self._made[item.name].labels(**self._labels, **labels)


def _made(item: Metric, registry: CollectorRegistry) -> MetricWrapperBase:
    name = PREFIX + item.name
    if item.kind == "histogram":
        return Histogram(name, item.help, item.labels, registry=registry, buckets=item.buckets)
    return (Counter if item.kind == "counter" else Gauge)(name, item.help, item.labels, registry=registry)


@contextmanager
def served(metrics: Metrics, port: int, address: str = LOOPBACK) -> Iterator[str]:
    """Serves the metrics while it is open; yields the URL. ``port`` 0: any free one. SettingsError for a used port."""
    try:
        server, thread = start_http_server(port, addr=address, registry=metrics.registry)
    except OSError as error:
        raise SettingsError(
            "metrics cannot be served at this address",
            where=f"{address}:{port}",
            found=error.strerror or error,
            hint="choose another --metrics-port (0 = a free one), or another --metrics-address",
        ) from error
    try:
        host = f"[{address}]" if ":" in address else address
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
