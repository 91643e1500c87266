"""Metrics of a table: its merges, symbol tables and files, and the pins and open files of this process.

All but the last come from files of the database. With many dates reading them is slow: it is done during a scrape, and
not again before ``SHARE`` times its duration has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from sparkhaven.jobs.monitor.merges import Merges, own_outputs, read_merges
from sparkhaven.jobs.monitor.metrics import catalogue as named
from sparkhaven.jobs.monitor.metrics.catalogue import OF_TABLES, PREFIX
from sparkhaven.jobs.monitor.storage import DiskUse, disk_use, free_bytes
from sparkhaven.jobs.monitor.streams import failures
from sparkhaven.jobs.monitor.symbols import SymbolTables, symbol_files, symbol_sizes
from sparkhaven.store.epochs.files.failure_note import StreamFailure
from sparkhaven.store.epochs.pins import Pin, held
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.places import TablePlace

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
