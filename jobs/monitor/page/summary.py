"""Bounds what a page shows: however many epochs, dates and sources there are, pictures and tables stay small.

What a page shows, as frozen values. Times are milliseconds since the epoch, lengths of time seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkhaven.jobs.monitor.dates import TIERS, Cell
from sparkhaven.jobs.monitor.doctor.finding import DoctorFinding
from sparkhaven.jobs.monitor.rejected import PendingRows
from sparkhaven.jobs.monitor.storage import VolumeUse
from sparkhaven.jobs.monitor.streams import StreamFacts
from sparkhaven.jobs.monitor.symbols import SymbolSizes
from sparkhaven.store.epochs.reading.stream_state import EpochEntry
from sparkhaven.store.errors import counted


@dataclass(frozen=True, slots=True)
class PageWaiting:
    """Input at the source of a stream in words, and what of it a person should look at."""

    words: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """Something that went wrong; ``time_ms`` is None where it is not known. Never has values or payloads of rows."""

    time_ms: int | None
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class PageTable:
    """One table. ``waiting``: by stream, of those whose stream file was named. ``unlisted``: directories and leaves
    whose waste was not measured. ``rejected``: pending rows by stream.
    """

    name: str
    streams: tuple[StreamFacts, ...] = ()
    waiting: Mapping[str, PageWaiting] = field(default_factory=dict)
    cells: tuple[Cell, ...] = ()
    symbols: tuple[SymbolSizes, ...] = ()
    volumes: Mapping[str, VolumeUse] = field(default_factory=dict)
    unlisted: int = 0
    rejected: Mapping[str, PendingRows] = field(default_factory=dict)
    errors: tuple[ErrorFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class PageFacts:
    """All of a page. ``commands`` start with ``command``, the program with its root.

    ``others``: tables that were left out because the page has so many already.
    """

    root: str
    command: str
    now_ms: int
    hours: float
    tables: tuple[PageTable, ...] = ()
    others: tuple[str, ...] = ()
    findings: tuple[DoctorFinding, ...] = ()


MOST_POINTS, BINS = 200, 96
ROOM, LEAST_ROOM_MS = 40, 5000  # beside the first and the last epoch: a part of the time between them
MOST_SPANS, SINGLE_DATES = 60, 30
MOST_SOURCES, MOST_LINES, MOST_ROWS = 20, 6, 100
BANDS = 5


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch, or those of a span of time. ``seconds`` and ``lag`` are the largest of them."""

    start_ms: int
    stop_ms: int
    first: int
    last: int
    epochs: int
    rows: int
    rejected: int
    seconds: float | None
    lag: float | None


@dataclass(frozen=True, slots=True)
class DateSpan:
    """One date, or a run of dates that have rows."""

    first: str
    last: str
    count: int

    @property
    def label(self) -> str:
        """The first date, and how many more."""
        return self.first if self.count == 1 else f"{self.first} +{self.count - 1}"

    @property
    def words(self) -> str:
        return self.first if self.count == 1 else f"{self.first} to {self.last} ({counted(self.count, 'date')})"


@dataclass(frozen=True, slots=True)
class Heat:
    """Dates by sources: rows and tier of each cell that has rows, by the places of its span and its source.

    Rows of a run of dates are the mean of its dates, at least 1.
    """

    spans: tuple[DateSpan, ...]
    sources: tuple[str, ...]
    cells: dict[tuple[int, int], tuple[int, str]]

    @property
    def has_runs(self) -> bool:
        """Whether a span has more dates than one."""
        return any(span.count > 1 for span in self.spans)


@dataclass(frozen=True, slots=True)
class Growth:
    """Entries per date of the symbol tables of a column, by span; None where it has none."""

    column: str
    entries: tuple[float | None, ...]


def window(facts: PageFacts) -> tuple[int, int]:
    """The first and last moment of the epochs that are shown, in ms; the end is rounded up to a bin."""
    length = max(1, round(facts.hours * 3_600_000))
    step = max(1, length // BINS)
    stop = -(-facts.now_ms // step) * step
    return stop - length, stop


def extent(epochs: Iterable[EpochEntry], start_ms: int, stop_ms: int) -> tuple[int, int]:
    """The part of a span of time in which there are live commits, with some room around; all of it without any."""
    times = [epoch.time_ms for epoch in epochs if _is_inside(epoch, start_ms, stop_ms)]
    if not times:
        return start_ms, stop_ms
    room = max((max(times) - min(times)) // ROOM, LEAST_ROOM_MS)
    return max(start_ms, min(times) - room), min(stop_ms, max(times) + room)


def _is_inside(epoch: EpochEntry, start_ms: int, stop_ms: int) -> bool:
    return epoch.is_commit and start_ms <= epoch.time_ms < stop_ms


def points(epochs: Iterable[EpochEntry], start_ms: int, stop_ms: int) -> list[Point]:
    """The live commits in a span of time: each by itself, or if they are many in equal parts of it."""
    inside = [epoch for epoch in epochs if _is_inside(epoch, start_ms, stop_ms)]
    if len(inside) <= MOST_POINTS:
        return [_point([epoch], epoch.time_ms, epoch.time_ms) for epoch in inside]
    step = (stop_ms - start_ms) / BINS
    parts: dict[int, list[EpochEntry]] = {}
    for epoch in inside:
        parts.setdefault(int((epoch.time_ms - start_ms) / step), []).append(epoch)
    return [
        _point(bin_epochs, round(start_ms + number * step), round(start_ms + (number + 1) * step))
        for number, bin_epochs in sorted(parts.items())
    ]


def _point(epochs: Sequence[EpochEntry], start_ms: int, stop_ms: int) -> Point:
    return Point(
        start_ms,
        stop_ms,
        epochs[0].epoch,
        epochs[-1].epoch,
        len(epochs),
        sum(epoch.rows for epoch in epochs),
        sum(sum(epoch.rejected.values()) for epoch in epochs),
        max((epoch.seconds for epoch in epochs if epoch.seconds is not None), default=None),
        max((epoch.lag for epoch in epochs if epoch.lag is not None), default=None),
    )


def rejected(epochs: Iterable[EpochEntry], start_ms: int, stop_ms: int) -> dict[str, int]:
    """Rejected rows of the live epochs in a span of time, by reason."""
    counts: Counter[str] = Counter()
    for epoch in epochs:
        if epoch.live and start_ms <= epoch.time_ms < stop_ms:
            counts.update(epoch.rejected)
    return dict(sorted(counts.items()))


def spans(dates: Iterable[str]) -> tuple[DateSpan, ...]:
    """Dates in order, each by itself; of very many the newest by themselves and the others in equal runs."""
    ordered = sorted(set(dates))
    if len(ordered) <= MOST_SPANS:
        return tuple(DateSpan(date, date, 1) for date in ordered)
    old, new = ordered[:-SINGLE_DATES], ordered[-SINGLE_DATES:]
    size = -(-len(old) // (MOST_SPANS - SINGLE_DATES))
    runs = [old[first : first + size] for first in range(0, len(old), size)]
    return (*(DateSpan(run[0], run[-1], len(run)) for run in runs), *(DateSpan(date, date, 1) for date in new))


def heat(cells: Sequence[Cell]) -> Heat:
    """Dates by sources. A run of dates, and sources that share a line, have the tier of the least advanced one."""
    runs = spans(cell.date for cell in cells)
    span_numbers = _places(runs, {cell.date for cell in cells})
    totals: Counter[str] = Counter()
    for cell in cells:
        totals[cell.source] += cell.rows
    names = sorted(totals, key=lambda name: (-totals[name], name))
    many = len(names) > MOST_SOURCES
    shown = sorted(names[: MOST_SOURCES - 1] if many else names)
    rank = {name: number for number, name in enumerate(shown)}
    sums: dict[tuple[int, int], tuple[int, str]] = {}
    for cell in cells:
        key = span_numbers[cell.date], rank.get(cell.source, len(shown))
        rows, tier = sums.get(key, (0, cell.tier))
        sums[key] = rows + cell.rows, min(tier, cell.tier, key=TIERS.index)
    labels = (*shown, f"{len(names) - len(shown):,} other sources") if many else tuple(shown)
    means = {key: (max(1, round(rows / runs[key[0]].count)), tier) for key, (rows, tier) in sums.items()}
    return Heat(runs, labels, means)


def _places(runs: Sequence[DateSpan], dates: Iterable[str]) -> dict[str, int]:
    numbers, number = {}, 0
    for date in sorted(dates):
        while date > runs[number].last:
            number += 1
        numbers[date] = number
    return numbers


def bands(values: Iterable[int]) -> list[tuple[int, int]]:
    """At most ``BANDS`` ranges of about as many values each, both ends included."""
    ordered = sorted(values)
    if not ordered:
        return []
    edges = [ordered[min(len(ordered) - 1, len(ordered) * part // BANDS)] for part in range(BANDS)]
    starts = sorted(set(edges))
    stops = [*(start - 1 for start in starts[1:]), ordered[-1]]
    return list(zip(starts, stops, strict=True))


def growth(symbols: Sequence[SymbolSizes]) -> tuple[tuple[DateSpan, ...], list[Growth]]:
    """The columns with the largest symbol tables: entries per date over the dates of all columns."""
    largest = sorted(symbols, key=lambda tables: (-tables.ids, tables.column))[:MOST_LINES]
    dates = {date for tables in largest for date, _, _ in tables.dates}
    runs = spans(dates)
    span_numbers = _places(runs, dates)
    lines = []
    for tables in sorted(largest, key=lambda tables: tables.column):
        sums: list[list[int]] = [[] for _ in runs]
        for date, ids, _ in tables.dates:
            sums[span_numbers[date]].append(ids)
        lines.append(Growth(tables.column, tuple(sum(ids) / len(ids) if ids else None for ids in sums)))
    return runs, lines


def newest(errors: Iterable[ErrorFacts]) -> list[ErrorFacts]:
    """The newest errors first, those without a time before all others."""

    def order(error: ErrorFacts) -> tuple[float, str, str]:
        return -math.inf if error.time_ms is None else -error.time_ms, error.where, error.what

    return sorted(errors, key=order)[:MOST_ROWS]
