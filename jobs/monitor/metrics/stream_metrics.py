"""Metrics of running streams, as Prometheus reads them: text over HTTP, default address: loopback.

Metrics of a table: its merges, symbol tables and files, and the pins and open files of this process.

All but the last come from files of the database. With many dates reading them is slow: it is done during a scrape, and
not again before ``SHARE`` times its duration has passed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from sparkhaven.ingest.bad_rows import FAILED_BLOCKS
from sparkhaven.ingest.feeds.base import DATA_BYTES
from sparkhaven.jobs.monitor.epochs import Merges, own_outputs, read_merges
from sparkhaven.jobs.monitor.metrics import catalogue as named
from sparkhaven.jobs.monitor.metrics.catalogue import (
    CATALOGUE,
    MODE,
    OF_LOGS,
    OF_TABLES,
    OF_TOPICS,
    PREFIX,
    STREAM,
    Metric,
    MetricsSink,
    StreamSink,
)
from sparkhaven.jobs.monitor.storage import DiskUse, disk_use, free_bytes
from sparkhaven.jobs.monitor.streams import failures
from sparkhaven.jobs.monitor.symbols import SymbolTables, symbol_files, symbol_sizes
from sparkhaven.jobs.monitor.waiting import SourceWatch
from sparkhaven.store.epochs.files.stream_notes import StreamFailure
from sparkhaven.store.epochs.log import StreamLog
from sparkhaven.store.epochs.pins import Pin, held
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import ABSENT_FIELDS, UNKNOWN_FIELDS
from sparkhaven.store.errors import CorruptFileError, LockLostError, PositionGapError, SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.writers.batch.stream_batches import BatchProgress

LEAST_S, SHARE = 10.0, 20
Labels = tuple[str, ...]  # those after the table's


class TableMetrics:
    """The figures of one table. ``clock`` is monotonic, in seconds. For one thread at a time."""

    def __init__(self, place: TablePlace, clock: Callable[[], float]) -> None:
        self._place, self.table, self._clock = place, place.table, clock
        self._values: dict[str, dict[Labels, float]] = {}
        self._symbols = SymbolTables(place.fs)
        self._pins: WeakKeyDictionary[Pin, float] = WeakKeyDictionary()  # and when they were first seen
        self._read_at: float | None = None
        self._due = 0.0

    def values(self) -> Mapping[str, Mapping[Labels, float]]:
        """Values by the name of the metric and further labels. After an error of reading the old values stay, with
        their age."""
        now = self._clock()
        if self._read_at is None or now >= self._due:
            with suppress(SparkhavenError, OSError):  # their age shows it, and `verify` reports the damage
                merges = read_merges(self._place)
                usage = disk_use(self._place)
                duplicates = self._symbols.duplicates(symbol_files(usage.locations))
                self._values = _of_merges(merges) | _of_disk(usage) | {named.DUPLICATES.name: duplicates}
                self._read_at = now
            began, now = now, self._clock()
            self._due = now + max(LEAST_S, SHARE * (now - began))
        return self._values | self._of_process(now)

    def _of_process(self, now: float) -> dict[str, dict[Labels, float]]:
        pins = held(self._place)
        ages = [now - self._pins.setdefault(pin, now) for pin in pins]
        return {
            named.PINS.name: {(): len(pins)},
            named.OLDEST_PIN.name: {(): max(ages, default=0.0)},
            named.OPEN_FILES.name: {(): _open_files(self._place)},
            named.FIGURES_AGE.name: {(): float("inf") if self._read_at is None else now - self._read_at},
            named.FREE.name: {(volume,): free for volume, free in free_bytes(self._place).items()},
            named.FAILED.name: _failed(self._place),
        }


class TableCollector(Collector):
    """Exports the metrics of tables."""

    def __init__(self) -> None:
        self._tables: dict[str, TableMetrics] = {}

    def add(self, figures: TableMetrics) -> None:
        """A table that a stream of this process writes to; a second stream of it adds nothing."""
        self._tables.setdefault(str(figures.table), figures)

    def describe(self) -> list[MetricFamily]:
        return [GaugeMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels) for metric in OF_TABLES]

    def collect(self) -> Iterator[MetricFamily]:
        values_by_table = {table: figures.values() for table, figures in list(self._tables.items())}
        for metric in OF_TABLES:
            family = GaugeMetricFamily(PREFIX + metric.name, metric.help, labels=metric.labels)
            for table, values in values_by_table.items():
                for labels, figure in values.get(metric.name, {}).items():
                    family.add_metric([table, *labels], figure)
            yield family


def _of_merges(merges: Merges) -> dict[str, dict[Labels, float]]:
    values: dict[str, dict[Labels, float]] = {
        named.MERGE_DATES.name: {(outcome,): count for outcome, count in merges.results.items()}
    }
    values[named.MERGE_PHASE.name] = dict.fromkeys(merges.phases.items(), 1)
    record = merges.newest
    if record is not None:
        mine = own_outputs(record)
        values[named.MERGE_ROWS.name] = {(record.value,): sum(output.rows for output in mine)}
        values[named.MERGE_BYTES.name] = {(): sum(state.size for output in mine for state in output.files.values())}
        values[named.MERGE_SECONDS.name] = {(record.value,): max(0, record.published_ms - record.time_ms) / 1000}
        values[named.MERGE_AT.name] = {(): record.published_ms / 1000}
        if in_use := merges.used.get(record.value):
            values[named.AMPLIFICATION.name] = {(record.value,): merges.written[record.value] / in_use}
    return values


def _of_disk(usage: DiskUse) -> dict[str, dict[Labels, float]]:
    symbols = symbol_sizes(usage.locations)
    return {
        named.DISK.name: {(volume,): use.bytes for volume, use in usage.volumes.items()},
        named.WASTE.name: {(volume,): use.waste for volume, use in usage.volumes.items()},
        named.SYMBOLS.name: {(sizes.column,): sizes.ids for sizes in symbols},
        named.SYMBOL_HITS.name: {(sizes.column,): 1 - sizes.ids / sizes.rows for sizes in symbols if sizes.rows},
    }


def _failed(place: TablePlace) -> dict[Labels, float]:
    """When streams have failed last, by stream and class of the error; a damaged note tells nothing."""
    last = ((stream, failure) for stream, failure in failures(place) if isinstance(failure, StreamFailure))
    return {(stream, failure.error): failure.time_ms / 1000 for stream, failure in last}


def _open_files(place: TablePlace) -> int:
    below = place.intraday, place.layout.system(place.table.namespace)
    own = Path("/proc/self/fd")
    opened = (place.fs.resolve(own / number) for number in place.fs.names(own))
    return sum(any(directory in path.parents for directory in below) for path in opened)


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
