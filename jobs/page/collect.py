"""Collects the facts of a page: from commit logs, merge and validation records, listings, and the checks of ``doctor``.

No column is read. What a table's files say is kept until one of them changes, at most ``KEPT_S`` seconds; findings
about data likewise, at most ``CHECKED_S`` seconds, because ages are in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparkhaven.jobs.doctor.checks import of_data, of_machine
from sparkhaven.jobs.doctor.finding import CheckContext, DoctorFinding
from sparkhaven.jobs.page.facts import PageFacts, TableFacts
from sparkhaven.jobs.page.table_facts import PageLimits, table_facts
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import read_ledger
from sparkhaven.store.types.frozen import frozen

KEPT_S, CHECKED_S = 600.0, 60.0
Signature = tuple[object, ...]


@frozen
class Asked:
    """What a page is about. ``tables``: empty for those with the newest epochs; ``feeds``: streams to ask for lag."""

    tables: Sequence[TableName] = ()
    feeds: Sequence[StreamSettings] = ()
    hours: float = 24.0


@dataclass(slots=True)
class FactCollector:
    """Collects facts again and again. ``clock``: seconds since the epoch. For one thread at a time."""

    fs: Fs
    layout: Layout
    asked: Asked
    clock: Callable[[], float]
    host: str
    environ: Mapping[str, str]
    limits: PageLimits = field(default_factory=PageLimits)
    _tables: dict[TableName, tuple[Signature, float, TableFacts]] = field(default_factory=dict)
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

    def _table(self, context: CheckContext, name: TableName, signature: Signature) -> TableFacts:
        cached, now_s = self._tables.get(name), context.now_s
        if cached is None or cached[0] != signature or now_s >= cached[1] + KEPT_S:
            cached = signature, now_s, table_facts(context, name, self.limits)
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
