"""The facts of one table. A part that cannot be read is an error among the facts, and the other parts are there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sparkhaven.jobs.doctor.finding import CheckContext, headline
from sparkhaven.jobs.operations.quarantined_stream import rejected_rows
from sparkhaven.jobs.page.facts import (
    Cell,
    EpochFacts,
    ErrorFacts,
    QuarantineFacts,
    StreamFacts,
    SymbolFacts,
    TableFacts,
    VolumeFacts,
)
from sparkhaven.jobs.settings.stream_file import StreamSettings
from sparkhaven.jobs.streams.feeds import remarks_of
from sparkhaven.readers.table_stats import DiskUse, disk_use
from sparkhaven.store.epochs.files.failure_note import failed_streams, read_failure
from sparkhaven.store.epochs.reading.stream_state import EpochEntry, list_epochs, list_streams, load_stream
from sparkhaven.store.epochs.state.log_values import REJECTED
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import load_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen
from sparkhaven.writers.merge.unfinished_work import DateStatus, DateValidation, SourceRows

MOST_ERRORS, MOST_DATES = 50, 20
ASK_SECONDS = 5.0
T = TypeVar("T")


@dataclass(slots=True)
class _Parts:
    """The parts of a table that are read, and the errors of those that cannot be."""

    name: TableName
    now_s: float
    errors: list[ErrorFacts] = field(default_factory=list)

    def read(self, subject: str, part: Callable[[], T]) -> T | None:
        try:
            return part()
        except (SparkhavenError, OSError) as error:
            self.errors.append(ErrorFacts(round(self.now_s * 1000), f"{self.name}: {subject}", headline(error)))
            return None


@frozen
class PageLimits:
    """What a page looks at: tables, directories of a table, and bytes of a quarantine."""

    tables: int = 12
    directories: int = 2000
    quarantine_bytes: int = 64 << 20


def table_facts(context: CheckContext, name: TableName, limits: PageLimits) -> TableFacts:
    """All facts of a table."""
    place = TablePlace(context.fs, context.layout, name)
    parts = _Parts(name, context.now_s)
    streams: list[StreamFacts] = []
    quarantines: list[QuarantineFacts] = []
    for stream in parts.read("streams", lambda: list_streams(place)) or ():
        state = parts.read(stream, partial(load_stream, place.of_stream(stream)))
        if state is None:
            continue
        feed = next((feed for feed in context.feeds if (feed.table, feed.spec.stream) == (name, stream)), None)
        entries = parts.read(stream, partial(list_epochs, place.of_stream(stream))) or []
        waiting, remarks = parts.read(stream, partial(_waiting, place.fs, state, feed)) or (None, ())
        numbers = state.epoch, state.floor, state.durability
        streams.append(StreamFacts(stream, *numbers, _epochs(entries), waiting, remarks))
        parts.errors += _gaps(f"{name} {stream}", entries)
        quarantine = parts.read(f"quarantine of {stream}", partial(_quarantine, place, state, limits))
        if quarantine is not None:
            quarantines.append(quarantine[0])
            parts.errors += quarantine[1]
    for stream in parts.read("streams", lambda: failed_streams(place)) or ():
        failure = parts.read(stream, partial(read_failure, place.of_stream(stream)))
        if failure is not None:  # without what was found: that may be a value of a row
            what = failure.what + (f" ({failure.where})" if failure.where else "")
            parts.errors.append(ErrorFacts(failure.time_ms, f"{name} {stream}", f"{failure.error}: {what}"))
    dates = parts.read("dates", partial(context.dates, name)) or []
    parts.errors += parts.read("validations", lambda: list(_validations(place, dates))) or []
    look = partial(disk_use, place, most=limits.directories)
    usage = parts.read("disk use", look) or DiskUse({}, {}, {})
    parts.errors += parts.read("disk use", lambda: list(_short(context, name, usage, look))) or []
    return TableFacts(
        str(name),
        tuple(streams),
        tuple(_cells(dates)),
        _symbols(usage),
        _volumes(usage),
        usage.unlisted,
        tuple(quarantines),
        tuple(parts.errors),
    )


def _short(context: CheckContext, name: TableName, usage: DiskUse, look: Callable[[], DiskUse]) -> Iterator[ErrorFacts]:
    """Locations whose files are not there as committed, in a second look too: a removal may be under way."""
    for directory in sorted(usage.short & look().short if usage.short else ())[:MOST_ERRORS]:
        message = f"committed files are missing or shorter than committed: run {context.command('verify', name)}"
        yield ErrorFacts(round(context.now_s * 1000), str(directory), message)


def _waiting(fs: Fs, state: StreamState, feed: StreamSettings | None) -> tuple[str, tuple[str, ...]] | None:
    """Input at the source of a stream in words, and remarks on it; None: its stream file was not named."""
    if feed is None:
        return None
    waiting = feed.feed.waiting(fs, state, ASK_SECONDS)
    return waiting.words, tuple(remarks_of(waiting.counts, feed.feed.resume.remember_s))


def _epochs(entries: Sequence[EpochEntry]) -> tuple[EpochFacts, ...]:
    facts: list[EpochFacts] = []
    before: int | None = None
    for entry in entries:
        seconds = None if before is None or not entry.live else max(0, entry.time_ms - before) / 1000
        files = entry.oldest_ns if entry.oldest_ns is not None and entry.oldest_ns > 0 else None
        lag = None if files is None else round(max(0.0, entry.time_ms / 1000 - files / 1e9), 3)
        commit = entry.kind == "commit"
        facts.append(
            EpochFacts(
                entry.epoch,
                entry.kind,
                entry.live,
                entry.time_ms,
                entry.rows,
                seconds if commit else None,
                lag,
                _rejected(entry),
            )
        )
        if entry.live and commit:
            before = entry.time_ms
    return tuple(facts)


def _rejected(entry: EpochEntry) -> dict[str, int]:
    prefix = f"{REJECTED}."
    return {name.removeprefix(prefix): rows for name, rows in entry.counts.items() if name.startswith(prefix)}


def _gaps(where: str, entries: Sequence[EpochEntry]) -> list[ErrorFacts]:
    gaps = [(entry, gap) for entry in entries if entry.live for gap in entry.gaps][-MOST_ERRORS:]
    message = "missing offsets were skipped, as allow_gap permits"
    return [ErrorFacts(entry.time_ms, f"{where}, epoch {entry.epoch}", f"{message}: {gap.path}") for entry, gap in gaps]


def _cells(dates: Sequence[DateStatus]) -> Iterator[Cell]:
    for date in dates:
        for source, rows in sorted(date.sources.items()):
            if rows.merged or rows.unmerged:
                yield Cell(date.value, source, rows.merged + rows.unmerged, _tier(date, rows))


def _tier(date: DateStatus, rows: SourceRows) -> str:
    if rows.unmerged:
        return "intraday"
    if not rows.untruncated:
        return "truncated"
    return "validated" if date.validation is DateValidation.PASSED else "merged"


def _validations(place: TablePlace, dates: Sequence[DateStatus]) -> Iterator[ErrorFacts]:
    for date in [status for status in dates if status.validation is DateValidation.FAILED][-MOST_DATES:]:
        record = newest(place, date.value)
        validation = load_validation(place, record) if record else None
        if validation is None:
            continue
        for rule in (*validation.failed, *(() if validation.tolerant else validation.unevaluated)):
            subject = f"{rule.rule}{f' of {rule.column}' if rule.column else ''}"
            failed = "failed" if rule.passed is False else "was not evaluated"
            message = f"validation: {subject} {failed}{f': {rule.message}' if rule.message else ''}"
            yield ErrorFacts(validation.time_ms or None, f"{place.table} {date.value}", message)


def _volumes(usage: DiskUse) -> tuple[VolumeFacts, ...]:
    return tuple(
        VolumeFacts(name if name == "intraday" else f"storage partition {name}", used, waste)
        for name, (used, waste) in sorted(usage.volumes.items())
    )


def _symbols(usage: DiskUse) -> tuple[SymbolFacts, ...]:
    return tuple(
        SymbolFacts(column, tuple((date, sizes.ids, sizes.rows) for date, sizes in sorted(dates.items())))
        for column, dates in sorted(usage.growth.items())
    )


def _quarantine(place: TablePlace, state: StreamState, limits: PageLimits) -> tuple[QuarantineFacts, list[ErrorFacts]]:
    rows = rejected_rows(place, state)
    if rows is None:
        return QuarantineFacts(state.stream), []
    size = rows.size()
    if size > limits.quarantine_bytes:
        return QuarantineFacts(state.stream, unread=f"its files have {size >> 20:,} MiB"), []
    pending, last = rows.pending(MOST_ERRORS)
    return QuarantineFacts(state.stream, pending), [_row(f"{place.table} {state.stream}", row) for row in last]


def _row(where: str, row: dict[str, Any]) -> ErrorFacts:
    """A rejected row without its value and payload, which may be anything."""
    time: datetime | None = row["Time"]
    column = f" in column {row['Column']}" if row["Column"] is not None else ""
    expected = f", expected {row['Expected']}" if row["Expected"] is not None else ""
    message = f"row rejected: {row['Reason']}{column}{expected}"
    time_ms = None if time is None else round(time.timestamp() * 1000)
    return ErrorFacts(time_ms, f"{where}: {row['SourcePartition']} at {row['Position']}", message)
