"""Collects what a page shows: the facts of each table, and the findings of ``doctor``. No column is read.

What a table's files say is kept until one of them changes, at most ``KEPT_S`` seconds; findings about data likewise, at
most ``CHECKED_S`` seconds, because ages are in them. A part of a table that cannot be read is an error among its facts,
and the other parts are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from sparkhaven.jobs.monitor.dates import DateStatus, cells, failed_rules
from sparkhaven.jobs.monitor.doctor.checks import of_data, of_machine
from sparkhaven.jobs.monitor.doctor.finding import CheckContext, DoctorFinding
from sparkhaven.jobs.monitor.page.summary import ErrorFacts, PageFacts, PageTable, PageWaiting
from sparkhaven.jobs.monitor.rejected import PendingRows, pending_rows
from sparkhaven.jobs.monitor.storage import DiskUse, disk_use
from sparkhaven.jobs.monitor.streams import StreamFacts, failures, stream_facts
from sparkhaven.jobs.monitor.symbols import symbol_growth
from sparkhaven.jobs.monitor.texts import headline
from sparkhaven.jobs.monitor.waiting import remarks_of
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.store.epochs.files.stream_notes import StreamFailure
from sparkhaven.store.epochs.reading.stream_state import EpochEntry, list_epochs, list_streams, load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger

KEPT_S, CHECKED_S = 600.0, 60.0
ASK_SECONDS = 5.0
MOST_ERRORS, MOST_DATES = 50, 20
Signature = tuple[object, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageLimits:
    """What a page looks at: tables, directories of a table, and bytes of a quarantine."""

    tables: int = 12
    directories: int = 2000
    quarantine_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class PageScope:
    """What a page is about. ``tables``: empty for those with the newest epochs; ``feeds``: streams to ask for lag."""

    tables: Sequence[TableName] = ()
    feeds: Sequence[StreamSettings] = ()
    hours: float = 24.0


@dataclass(slots=True)
class FactCollector:
    """Collects facts again and again. ``clock``: seconds since the epoch. For one thread at a time."""

    fs: Fs
    layout: Layout
    asked: PageScope
    clock: Callable[[], float]
    host: str
    environ: Mapping[str, str]
    limits: PageLimits = field(default_factory=PageLimits)
    _tables: dict[TableName, tuple[Signature, float, PageTable]] = field(default_factory=dict)
    _machine: tuple[float, list[DoctorFinding]] | None = None
    _data: tuple[list[Signature], float, list[DoctorFinding]] | None = None

    def collect(self) -> PageFacts:
        """The facts now. What cannot be read is itself a fact or a finding."""
        now_s = self.clock()
        only = [*self.asked.tables, *(feed.table for feed in self.asked.feeds)]
        context = CheckContext(
            self.fs, self.layout, now_s, self.host, self.environ, list(dict.fromkeys(only)), self.asked.feeds
        )
        try:
            names = [name for name in context.tables if only or name.namespace != INTERNAL_NAMESPACE]
        except (SparkhavenError, OSError):  # a finding of ``of_data``
            names = []
        shown = names if only else sorted(names, key=lambda name: (-self._changed_ns(name), name))[: self.limits.tables]
        signed = {name: self._signed(name, now_s) for name in sorted(shown)}
        return PageFacts(
            str(self.layout.root),
            context.command(),
            round(now_s * 1000),
            self.asked.hours,
            tuple(self._table(context, name, signature) for name, signature in signed.items()),
            tuple(str(name) for name in names if name not in signed),
            tuple(self._findings(context, list(signed.values()))),
        )

    def _table(self, context: CheckContext, name: TableName, signature: Signature) -> PageTable:
        cached, now_s = self._tables.get(name), context.now_s
        if cached is None or cached[0] != signature or now_s >= cached[1] + KEPT_S:
            cached = signature, now_s, page_table(context, name, self.limits)
            if all(feed.table != name for feed in context.feeds):  # their sources change without a file of ours
                self._tables[name] = cached
        return cached[2]

    def _findings(self, context: CheckContext, signatures: list[Signature]) -> list[DoctorFinding]:
        now_s = context.now_s
        if self._machine is None or now_s >= self._machine[0] + KEPT_S:
            self._machine = now_s, of_machine(context)
        cached = self._data
        if cached is None or cached[0] != signatures or now_s >= cached[1] + CHECKED_S or self.asked.feeds:
            cached = self._data = signatures, now_s, of_data(context)
        return [*self._machine[1], *cached[2]]

    def _signed(self, name: TableName, now_s: float) -> Signature:
        """The signature of a table; one that cannot be read differs each time, and its facts say why."""
        try:
            return tuple(self._signature(name))
        except (SparkhavenError, OSError):
            return (now_s,)

    def _signature(self, name: TableName) -> Iterator[object]:
        """What is different after any commit, merge, validation, removal, or write to the quarantine."""
        streams, merges = self.layout.streams(name), self.layout.merges(name)
        paths = [streams / file for file in self.fs.names(streams) if not file.endswith((".lock", ".head"))]
        paths += [merges / date for date in all_values(TablePlace(self.fs, self.layout, name))]
        paths += [self.layout.schema(name), *self._quarantines(name)]
        for path in paths:
            stat = self.fs.stat(path)
            yield str(path), stat and (stat.inode, stat.size, stat.mtime_ns)

    def _quarantines(self, name: TableName) -> Iterator[Path]:
        for stream in list_streams(TablePlace(self.fs, self.layout, name)):
            try:
                ledger = read_ledger(StreamPlace(self.fs, self.layout, name, stream))
            except (SparkhavenError, OSError):  # found by the facts too
                continue
            yield (Path(ledger.place) if ledger and ledger.place else self.layout.quarantine(stream)) / "_delta_log"

    def _changed_ns(self, name: TableName) -> int:
        """When a log of the table was last written to; 0 if that is not known."""
        try:
            logs = [
                self.layout.stream_log(name, stream) for stream in list_streams(TablePlace(self.fs, self.layout, name))
            ]
            return max((stat.mtime_ns for log in logs if (stat := self.fs.stat(log)) is not None), default=0)
        except OSError:  # its facts say it
            return 0


@dataclass(slots=True)
class _Parts:
    """The parts of a table that are read, and the errors of those that cannot be."""

    name: TableName
    now_ms: int
    errors: list[ErrorFacts] = field(default_factory=list)

    def read(self, subject: str, part: Callable[[], T]) -> T | None:
        try:
            return part()
        except (SparkhavenError, OSError) as error:
            self.errors.append(ErrorFacts(self.now_ms, f"{self.name}: {subject}", headline(error)))
            return None


def page_table(context: CheckContext, name: TableName, limits: PageLimits) -> PageTable:
    """All facts of a table."""
    place = TablePlace(context.fs, context.layout, name)
    parts = _Parts(name, round(context.now_s * 1000))
    streams: list[StreamFacts] = []
    waiting: dict[str, PageWaiting] = {}
    rejected: dict[str, PendingRows] = {}
    for stream in parts.read("streams", lambda: list_streams(place)) or ():
        one = place.of_stream(stream)
        state = parts.read(stream, partial(load_stream, one))
        if state is None:
            continue
        entries = parts.read(stream, partial(list_epochs, one)) or []
        streams.append(replace(stream_facts(one, state, entries), failure=None))  # which may have a value of a row
        parts.errors += _gaps(f"{name} {stream}", entries)
        feed = next((feed for feed in context.feeds if (feed.table, feed.spec.stream) == (name, stream)), None)
        if feed is not None and (waits := parts.read(stream, partial(_waiting, place.fs, state, feed))) is not None:
            waiting[stream] = waits
        read = partial(pending_rows, place, state, most_bytes=limits.quarantine_bytes, newest=MOST_ERRORS)
        pending = parts.read(f"quarantine of {stream}", read)
        if pending is not None:
            rejected[stream] = pending
            parts.errors += [_row(f"{name} {stream}", row) for row in pending.newest]
    for stream, failure in parts.read("streams", lambda: list(failures(place))) or ():
        if isinstance(failure, StreamFailure):  # without what was found: that may be a value of a row
            what = failure.what + (f" ({failure.where})" if failure.where else "")
            parts.errors.append(ErrorFacts(failure.time_ms, f"{name} {stream}", f"{failure.error}: {what}"))
        else:
            parts.errors.append(ErrorFacts(parts.now_ms, f"{name}: {stream}", headline(failure)))
    dates = parts.read("dates", partial(context.dates, name)) or []
    parts.errors += parts.read("validations", lambda: list(_validations(place, dates))) or []
    look = partial(disk_use, place, most=limits.directories)
    usage = parts.read("disk use", look) or DiskUse({})
    parts.errors += parts.read("disk use", lambda: list(_short(context, name, usage, look))) or []
    return PageTable(
        str(name),
        tuple(streams),
        waiting,
        tuple(cells(dates)),
        tuple(symbol_growth(usage.locations)),
        dict(sorted(usage.volumes.items())),
        usage.unlisted,
        rejected,
        tuple(parts.errors),
    )


def _short(context: CheckContext, name: TableName, usage: DiskUse, look: Callable[[], DiskUse]) -> Iterator[ErrorFacts]:
    """Locations whose files are not there as committed, in a second look too: a removal may be under way."""
    for directory in sorted(usage.short & look().short if usage.short else ())[:MOST_ERRORS]:
        message = f"committed files are missing or shorter than committed: run {context.command('verify', name)}"
        yield ErrorFacts(round(context.now_s * 1000), str(directory), message)


def _waiting(fs: Fs, state: StreamState, feed: StreamSettings) -> PageWaiting:
    waiting = feed.feed.waiting(fs, state, ASK_SECONDS)
    return PageWaiting(waiting.words, tuple(remarks_of(waiting.counts, feed.feed.resume.remember_s)))


def _gaps(where: str, entries: Sequence[EpochEntry]) -> list[ErrorFacts]:
    gaps = [(entry, gap) for entry in entries if entry.live for gap in entry.gaps][-MOST_ERRORS:]
    message = "missing offsets were skipped, as allow_gap permits"
    return [ErrorFacts(entry.time_ms, f"{where}, epoch {entry.epoch}", f"{message}: {gap.path}") for entry, gap in gaps]


def _validations(place: TablePlace, dates: Sequence[DateStatus]) -> Iterator[ErrorFacts]:
    for validation, rule in failed_rules(place, dates, MOST_DATES):
        subject = f"{rule.rule}{f' of {rule.column}' if rule.column else ''}"
        failed = "failed" if rule.passed is False else "was not evaluated"
        message = f"validation: {subject} {failed}{f': {rule.message}' if rule.message else ''}"
        yield ErrorFacts(validation.time_ms or None, f"{place.table} {validation.value}", message)


def _row(where: str, row: Mapping[str, object]) -> ErrorFacts:
    """A rejected row without its value and payload, which may be anything."""
    time = row["Time"]
    column = f" in column {row['Column']}" if row["Column"] is not None else ""
    expected = f", expected {row['Expected']}" if row["Expected"] is not None else ""
    message = f"row rejected: {row['Reason']}{column}{expected}"
    time_ms = round(time.timestamp() * 1000) if isinstance(time, datetime) else None
    return ErrorFacts(time_ms, f"{where}: {row['SourcePartition']} at {row['Position']}", message)
