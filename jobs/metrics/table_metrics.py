"""Metrics of a table: its merges, symbol tables and files, and the pins and open files of this process.

All but the last come from files of the database. With many dates reading them is slow: it is done during a scrape, and
not again before ``SHARE`` times its duration has passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.registry import Collector

from sparkhaven.jobs.metrics import catalogue as named
from sparkhaven.jobs.metrics.catalogue import OF_TABLES, PREFIX
from sparkhaven.readers.checks.symbol_tables import SymbolTables
from sparkhaven.readers.table_stats import DiskUse, disk_use
from sparkhaven.store.epochs.files.failure_note import failed_streams, read_failure
from sparkhaven.store.epochs.pins import Pin, held
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.layout import without_generation
from sparkhaven.store.merges.history import load_history
from sparkhaven.store.merges.merge_records import MergeRecord, all_values
from sparkhaven.store.places import TablePlace

LEAST_S, SHARE = 10.0, 20
Labels = tuple[str, ...]  # those after the table's


@dataclass(slots=True)
class Merges:
    """Totals of merge records. By date ``written``: bytes of columns of all merges; ``used``: of history in use."""

    newest: MergeRecord | None = None
    results: dict[str, int] = field(default_factory=lambda: {"merged": 0, "unfinished": 0})
    phases: dict[str, str] = field(default_factory=dict)  # of unfinished dates
    written: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


class TableFigures:
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
                duplicates = self._symbols.duplicates(usage.symbol_files)
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
            named.FREE.name: {(volume,): free for volume, free in _free(self._place).items()},
            named.FAILED.name: _failed(self._place),
        }


class TableCollector(Collector):
    """Exports the metrics of tables."""

    def __init__(self) -> None:
        self._tables: dict[str, TableFigures] = {}

    def add(self, figures: TableFigures) -> None:
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


def read_merges(place: TablePlace) -> Merges:
    """Totals of the merge records of a table; raises the errors of reading one."""
    totals, newest_ms = Merges(), -1
    for date in all_values(place):
        history = load_history(place, date)
        if history.last is None:
            continue
        totals.results["merged" if history.last.complete else "unfinished"] += 1
        if not history.last.complete:
            totals.phases[date] = history.last.phase
        earlier: set[str] = set()
        for record in history.complete:
            totals.written[date] = totals.written.get(date, 0) + _bytes(record, earlier)
            earlier |= {output.internal for output in record.outputs}
            if (ended := record.published_ms) >= newest_ms:
                totals.newest, newest_ms = record, ended
        if history.current is not None:
            totals.used[date] = _bytes(history.current, set())
    return totals


def _bytes(record: MergeRecord, earlier: set[str]) -> int:
    outputs = (output for output in record.outputs if output.internal not in earlier)
    return sum(state.size for output in outputs for state in output.files.values())


def _of_merges(merges: Merges) -> dict[str, dict[Labels, float]]:
    values: dict[str, dict[Labels, float]] = {
        named.MERGE_DATES.name: {(outcome,): count for outcome, count in merges.results.items()}
    }
    values[named.MERGE_PHASE.name] = dict.fromkeys(merges.phases.items(), 1)
    record = merges.newest
    if record is not None:
        own = {destination.internal for destination in record.run.destinations} or {o.internal for o in record.outputs}
        mine = [output for output in record.outputs if output.internal in own]
        values[named.MERGE_ROWS.name] = {(record.value,): sum(output.rows for output in mine)}
        values[named.MERGE_BYTES.name] = {(): sum(state.size for output in mine for state in output.files.values())}
        values[named.MERGE_SECONDS.name] = {(record.value,): max(0, record.published_ms - record.time_ms) / 1000}
        values[named.MERGE_AT.name] = {(): record.published_ms / 1000}
        if in_use := merges.used.get(record.value):
            values[named.AMPLIFICATION.name] = {(record.value,): merges.written[record.value] / in_use}
    return values


def _of_disk(usage: DiskUse) -> dict[str, dict[Labels, float]]:
    return {
        named.DISK.name: {(volume,): used for volume, (used, _) in usage.volumes.items()},
        named.WASTE.name: {(volume,): wasted for volume, (_, wasted) in usage.volumes.items()},
        named.SYMBOLS.name: {(column,): entries.ids for column, entries in usage.symbols.items()},
        named.SYMBOL_HITS.name: {
            (column,): 1 - entries.ids / entries.rows for column, entries in usage.symbols.items() if entries.rows
        },
    }


def _free(place: TablePlace) -> dict[str, float]:
    """Free bytes by volume; NaN where a volume is away."""
    fs, partitions = place.fs, place.partitions
    paths = {"intraday": place.layout.root}
    paths |= {without_generation(name): partitions / name for name in fs.names(partitions)}
    free: dict[str, float] = {}
    for volume, path in paths.items():
        try:
            free[volume] = fs.free_bytes(path)
        except OSError:
            free[volume] = math.nan
    return free


def _failed(place: TablePlace) -> dict[Labels, float]:
    """When streams have failed last, by stream and class of the error; a damaged note tells nothing."""
    failed: dict[Labels, float] = {}
    for stream in failed_streams(place):
        with suppress(SparkhavenError, OSError):
            if (failure := read_failure(place.of_stream(stream))) is not None:
                failed[stream, failure.error] = failure.time_ms / 1000
    return failed


def _open_files(place: TablePlace) -> int:
    below = place.intraday, place.layout.system(place.table.namespace)
    own = Path("/proc/self/fd")
    opened = (place.fs.resolve(own / number) for number in place.fs.names(own))
    return sum(any(directory in path.parents for directory in below) for path in opened)
