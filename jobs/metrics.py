"""Metrics of running streams, as Prometheus reads them: text over HTTP, on the loopback address unless told other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server
from prometheus_client.metrics import MetricWrapperBase

from ingest.bad_rows import reason_code
from ingest.delta_decode import DATA_BYTES
from ingest.route import NULL_DATE, OUT_OF_BOUNDS
from jobs import metric_catalogue as named
from jobs.metric_catalogue import CATALOGUE, PREFIX, SECONDS, STREAM, Metric
from jobs.places import ends_of
from store.epochs.log import StreamLog
from store.errors import SettingsError
from writers.stream import BatchProgress

LOOPBACK = "127.0.0.1"
OUTSIDE_REASONS = tuple(map(reason_code, (NULL_DATE, OUT_OF_BOUNDS)))


disable_created_metrics()  # type: ignore[no-untyped-call]  # when a series began: nothing that anybody asks for


class Metrics:
    """The metrics of one process. ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._made: dict[str, MetricWrapperBase] = {item.name: _made(item, self.registry) for item in CATALOGUE}

    def stream(self, table: str, log: StreamLog) -> StreamMetrics:
        """The metrics of a stream that was just opened."""
        return StreamMetrics(self._made, table, log, self._clock)


class StreamMetrics:
    """The metrics of one stream, which all have its labels. Values of the log are read when they are asked for."""

    def __init__(
        self, made: Mapping[str, MetricWrapperBase], table: str, log: StreamLog, clock: Callable[[], float]
    ) -> None:
        self._made, self._log, self._clock = made, log, clock
        self._labels = {"table": table, "stream": log.state.stream}
        self._committed = clock()
        self._ends: dict[str, int] = {}
        self._before = log.state.offsets.positions()
        for item in CATALOGUE:
            if item.labels == STREAM and item is not named.LAG_FILES:
                self._of(item)  # there from the start, at 0
        self._of(named.CUT).set(log.recovery.cut_bytes)
        self._of(named.EPOCH).set_function(lambda: log.state.epoch)
        self._of(named.FLOOR).set_function(lambda: log.state.floor)
        self._of(named.AGE).set_function(lambda: clock() - self._committed)
        self._of(named.RUNNING).set(1)
        self._place()

    def ended(self) -> None:
        """The query has ended, or failed."""
        self._of(named.RUNNING).set(0)

    def batch(self, done: BatchProgress) -> None:
        """A batch is through."""
        outcome = done.outcome
        self._of(named.REPLAYS).inc(outcome.replayed)
        if outcome.epoch is None:
            return
        self._committed = self._clock()
        self._of(named.ROWS).inc(outcome.rows)
        self._of(named.BYTES).inc(outcome.bytes + outcome.counts.get(DATA_BYTES, 0))
        self._of(named.BATCHES).inc()
        self._of(named.GAPS).inc(outcome.passed)
        self._of(named.LATE).inc(outcome.counts.get("rejected.late", 0))
        self._of(named.OUTSIDE).inc(sum(outcome.counts.get(f"rejected.{reason}", 0) for reason in OUTSIDE_REASONS))
        for name, rows in outcome.counts.items():
            kind, _, reason = name.partition(".")
            if kind == "rejected" and reason:
                self._of(named.REJECTED, reason=reason).inc(rows)
        self._of(named.COMMIT).observe(outcome.seconds.get("commit", 0.0))
        self._of(named.FSYNC).observe(outcome.seconds.get("sync", 0.0))
        self._place()

    def heard(self, said: Mapping[str, Any]) -> None:
        """What the source says of itself: the ends of partitions by ``topic/partition``, or how many files wait."""
        waiting = said.get("waiting_files")
        if waiting is not None:
            self._of(named.LAG_FILES).set(waiting)
        self._ends = ends_of(said)
        self._place()

    def _place(self) -> None:
        positions = self._log.state.offsets.positions()
        for place, position in positions.items():
            self._of(named.POSITION, source=place).set(position)
            if "/" in place:
                self._of(named.TAKEN, source=place).inc(max(0, position - self._before.get(place, position)))
        self._before = positions
        for place, end in self._ends.items():
            self._of(named.END, source=place).set(end)
            self._of(named.LAG, source=place).set(max(0, end - positions.get(place, end)))

    def _of(self, item: Metric, **labels: str) -> Any:
        return self._made[item.name].labels(**self._labels, **labels)


def _made(item: Metric, registry: CollectorRegistry) -> MetricWrapperBase:
    name = PREFIX + item.name
    if item.kind == "histogram":
        return Histogram(name, item.help, item.labels, registry=registry, buckets=SECONDS)
    return (Counter if item.kind == "counter" else Gauge)(name, item.help, item.labels, registry=registry)


@contextmanager
def served(metrics: Metrics, port: int, address: str = LOOPBACK) -> Iterator[str]:
    """Serves the metrics as long as it is open; the URL. ``port`` 0 is a free one. SettingsError for a port in use."""
    try:
        server, thread = start_http_server(port, addr=address, registry=metrics.registry)
    except OSError as error:
        raise SettingsError(
            "metrics cannot be served there",
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
