"""The sections of the page that have pictures, each with its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from xml.etree.ElementTree import Element

from sparkhaven.jobs.monitor.dates import TIERS
from sparkhaven.jobs.monitor.page import pictures
from sparkhaven.jobs.monitor.page.facts import PageFacts, PageTable, PageWaiting
from sparkhaven.jobs.monitor.page.markup import Row, command, element, moment, number, picture, size, table
from sparkhaven.jobs.monitor.page.pictures import Draw
from sparkhaven.jobs.monitor.page.summary import (
    MOST_ROWS,
    MOST_SOURCES,
    Heat,
    Point,
    extent,
    growth,
    heat,
    points,
    rejected,
    window,
)
from sparkhaven.jobs.monitor.storage import EXTENDED, INTRADAY
from sparkhaven.jobs.monitor.streams import StreamFacts
from sparkhaven.jobs.monitor.texts import counted

MOST_BARS = 30


def streams(facts: PageFacts, draw: Draw) -> list[Element]:
    """By stream the epochs of the last hours."""
    return [
        node
        for entry in facts.tables
        for stream in entry.streams
        for node in (
            element("h3", f"{entry.name} {stream.stream}"),
            *_stream(facts, stream, entry.waiting.get(stream.stream), draw),
        )
    ]


def _stream(facts: PageFacts, stream: StreamFacts, waiting: PageWaiting | None, draw: Draw) -> list[Element]:
    start_ms, stop_ms = window(facts)
    extent_ms = extent(stream.history, start_ms, stop_ms)
    shown = points(stream.history, *extent_ms)
    rolled_back = [epoch for epoch in stream.history if not epoch.live and start_ms <= epoch.time_ms < stop_ms]
    texts = [f"Epoch {stream.epoch:,}, rollback possible to epoch {stream.floor:,}. Durability {stream.durability}"]
    if waiting is not None:
        texts.append(f"{waiting.words} wait")
    if rolled_back:
        texts.append(f"rolled back in these hours: {counted(len(rolled_back), 'epoch')}")
    remarks = () if waiting is None else waiting.remarks
    parts = [element("p", "; ".join(texts) + "."), *(element("p", f"{remark}.") for remark in remarks)]
    if not shown:
        last = max((epoch.time_ms for epoch in stream.history), default=None)
        when = "the log keeps none" if last is None else f"the newest is of {moment(last)} UTC"
        return [*parts, element("p", f"No epoch in the last {number(facts.hours)} hours: {when}.")]
    total = sum(point.rows for point in shown)
    title = f"{counted(sum(point.epochs for point in shown), 'epoch')}, {counted(total, 'row')}"
    return [*parts, _responsive(title, draw, partial(pictures.epochs, shown, *extent_ms), _epochs(title, shown))]


def _responsive(title: str, draw: Draw, spec: Callable[..., pictures.Spec], numbers: Element) -> Element:
    return picture(title, draw(spec()), numbers, narrow=draw(spec(width=pictures.NARROW)))


def _epochs(title: str, shown: list[Point]) -> Element:
    header = ["time (UTC)", "epochs", "rows", "rejected rows", "seconds since the last", "lag in seconds"]
    rows: list[Row] = [
        [
            moment(point.start_ms),
            f"{point.first:,}" if point.epochs == 1 else f"{point.first:,} to {point.last:,} ({point.epochs:,})",
            point.rows,
            point.rejected,
            point.seconds,
            point.lag,
        ]
        for point in reversed(shown)
    ]
    return table(title, header, rows)


def dates(facts: PageFacts, draw: Draw) -> list[Element]:
    """By table dates and sources: rows, and how far they have come."""
    parts: list[Element] = []
    for entry in facts.tables:
        if entry.cells:
            grid = heat(entry.cells)
            count, names = len({cell.date for cell in entry.cells}), len({cell.source for cell in entry.cells})
            title = f"{entry.name}, {counted(count, 'date')} and {counted(names, 'source')}"
            rows, tiers = pictures.rows_heat(grid), pictures.tier_heat(grid)
            parts.append(element("h3", entry.name))
            shown = f"rows per date of {title}" if grid.has_runs else f"rows of {title}"
            parts.append(picture(shown, draw(rows), _heat(shown, grid, 0)))
            parts.append(picture(f"tiers of {title}", draw(tiers), _heat(f"tiers of {title}", grid, 1)))
            parts.append(_progress(entry, runs=grid.has_runs))
    return parts


def _heat(title: str, grid: Heat, part: int) -> Element:
    def row(number: int) -> Row:
        cells = (grid.cells.get((number, source)) for source in range(len(grid.sources)))
        return [grid.spans[number].words, *(cell and cell[part] for cell in cells)]

    return table(title, ["date", *grid.sources], map(row, reversed(range(len(grid.spans)))))


def _progress(entry: PageTable, *, runs: bool) -> Element:
    rows: Counter[str] = Counter()
    for cell in entry.cells:
        rows[cell.tier] += cell.rows
    counts = ", ".join(f"{rows[tier]:,} {tier}" for tier in TIERS if rows[tier])
    rule = " A run of dates shows the mean of its dates, and the tier of the least advanced one." if runs else ""
    return element("p", f"Rows by tier: {counts}.{rule}")


def symbols(facts: PageFacts, draw: Draw) -> list[Element]:
    """By table the growth of symbol tables, with advice."""
    parts: list[Element] = []
    for entry in facts.tables:
        if entry.symbols:
            shown, lines = growth(entry.symbols)
            title = f"symbol table entries of {entry.name}"
            header = ["date", *(line.column for line in lines)]
            rows: list[Row] = [
                [span.words, *(_rounded(line.entries[index]) for line in lines)] for index, span in enumerate(shown)
            ]
            parts.append(element("h3", entry.name))
            numbers = table(title, header, reversed(rows))
            parts.append(picture(title, draw(pictures.symbols(shown, lines)), numbers))
            parts.append(_advice(entry))
    return parts


def _rounded(entries: float | None) -> float | None:
    return None if entries is None else round(entries, 1)


def _advice(entry: PageTable) -> Element:
    ordered = sorted(entry.symbols, key=lambda tables: (-tables.ids, tables.column))[:MOST_ROWS]
    rows: list[Row] = [[tables.column, tables.ids, tables.rows, tables.advice] for tables in ordered]
    return table(f"Advice for columns of {entry.name}", ["column", "entries", "rows", "advice"], rows)


def disk(facts: PageFacts, draw: Draw) -> list[Element]:
    """Bytes and waste by table and volume."""
    volumes = [
        (f"{entry.name} {_volume_words(name)}", use) for entry in facts.tables for name, use in entry.volumes.items()
    ]
    if not volumes:
        return []
    volumes.sort(key=lambda pair: (-pair[1].bytes, pair[0]))
    shown, rest = volumes[:MOST_BARS], volumes[MOST_BARS:]
    values = [
        (name, kind, number)
        for name, volume in shown
        for kind, number in (("in use", max(0, volume.bytes - volume.waste)), ("waste", volume.waste))
    ]
    rows: list[Row] = []
    for name, volume in volumes[:MOST_ROWS]:
        share = f"{100 * volume.waste / volume.bytes:.1f} %" if volume.bytes else "-"
        rows.append([name, size(volume.bytes), size(volume.waste), share])
    title = f"bytes of {counted(len(shown), 'volume')}" + (f", {len(rest):,} smaller ones are left out" if rest else "")
    spec = partial(pictures.bars, values, (("in use", "used"), ("waste", "waste")), "bytes")
    parts = [_responsive(title, draw, spec, table(title, ["volume", "bytes", "waste", "share"], rows))]
    unlisted = [f"{entry.unlisted:,} of {entry.name}" for entry in facts.tables if entry.unlisted]
    if unlisted:
        counts = ", ".join(unlisted[:MOST_SOURCES])
        parts.append(
            element("p", f"Directories of older dates, and leaves of trees, whose waste was not measured: {counts}.")
        )
    parts.append(element("p", "Waste: replaced history, and files that no snapshot has. Readers never need it."))
    return parts


def _volume_words(name: str) -> str:
    return {INTRADAY: INTRADAY, EXTENDED: "tree beside history"}.get(name, f"storage partition {name}")


def quarantine(facts: PageFacts, draw: Draw) -> list[Element]:
    start_ms, stop_ms = window(facts)
    bars: list[tuple[str, str, int]] = []
    rows: list[Row] = []
    unread: list[Element] = []
    for entry in facts.tables:
        for stream in entry.streams:
            recent = rejected(stream.history, start_ms, stop_ms)
            status = entry.rejected.get(stream.stream)
            counts = dict(status.pending) if status is not None else {}
            name = f"{entry.name} {stream.stream}"
            for reason in sorted({*counts, *recent}):
                numbers = counts.get(reason, 0), recent.get(reason, 0)
                bars += [
                    (f"{name}: {reason}", kind, n) for kind, n in zip(("pending", "last hours"), numbers, strict=True)
                ]
                list_ = command(f"{facts.command} quarantine list {name} --reason {reason}")
                rows.append([name, reason, *numbers, list_])
            if status is not None and status.unread:
                unread.append(element("p", f"{name}: pending rows are not counted ({status.unread})"))
    if not rows:
        return unread or [element("p", "No row was rejected.")]
    title = f"rejected rows by reason, pending and of the last {number(facts.hours)} hours"
    largest = sorted({name for name, _, _ in bars}, key=lambda name: -sum(n for label, _, n in bars if label == name))
    shown = [bar for bar in bars if bar[0] in largest[:MOST_BARS]]
    spec = partial(pictures.bars, shown, (("pending", "pending"), ("last hours", "recent")), "rows")
    header = ["stream", "reason", "pending", "last hours", "lists them"]
    return [_responsive(title, draw, spec, table(title, header, rows[:MOST_ROWS])), *unread]
