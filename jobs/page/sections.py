"""The sections of the page that have pictures, each with its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from xml.etree.ElementTree import Element

from sparkhaven.jobs.page import pictures
from sparkhaven.jobs.page.drawing import Draw
from sparkhaven.jobs.page.facts import TIERS, PageFacts, StreamFacts, TableFacts
from sparkhaven.jobs.page.markup import Content, element, picture, table
from sparkhaven.jobs.page.number_texts import counted, moment, number, size
from sparkhaven.jobs.page.summary import (
    MOST_ROWS,
    MOST_SOURCES,
    Heat,
    Point,
    advice,
    extent,
    growth,
    heat,
    points,
    rejected,
    window,
)

MOST_BARS = 30


def streams(facts: PageFacts, draw: Draw) -> list[Element]:
    """By stream the epochs of the last hours."""
    return [
        part
        for each in facts.tables
        for stream in each.streams
        for part in (element("h3", f"{each.name} {stream.name}"), *_stream(facts, stream, draw))
    ]


def _stream(facts: PageFacts, stream: StreamFacts, draw: Draw) -> list[Element]:
    start_ms, stop_ms = window(facts)
    extent_ms = extent(stream.epochs, start_ms, stop_ms)
    found = points(stream.epochs, *extent_ms)
    undone = [one for one in stream.epochs if not one.live and start_ms <= one.time_ms < stop_ms]
    said = [f"Epoch {stream.epoch:,}, rollback possible to epoch {stream.floor:,}. Durability {stream.durability}"]
    if stream.waiting is not None:
        said.append(f"{stream.waiting} wait")
    if undone:
        said.append(f"rolled back in these hours: {counted(len(undone), 'epoch')}")
    parts = [element("p", "; ".join(said) + "."), *(element("p", f"{remark}.") for remark in stream.remarks)]
    if not found:
        last = max((one.time_ms for one in stream.epochs), default=None)
        when = "the log keeps none" if last is None else f"the newest is of {moment(last)} UTC"
        return [*parts, element("p", f"No epoch in the last {number(facts.hours)} hours: {when}.")]
    total = sum(one.rows for one in found)
    title = f"{counted(sum(one.epochs for one in found), 'epoch')}, {counted(total, 'row')}"
    return [*parts, _responsive(title, draw, partial(pictures.epochs, found, *extent_ms), _epochs(title, found))]


def _responsive(title: str, draw: Draw, spec: Callable[..., pictures.Spec], numbers: Element) -> Element:
    """A picture in two widths, of which the window chooses."""
    return picture(title, draw(spec()), numbers, narrow=draw(spec(width=pictures.NARROW)))


def _epochs(title: str, found: list[Point]) -> Element:
    header = ["time (UTC)", "epochs", "rows", "rejected rows", "seconds since the last", "lag in seconds"]
    rows: list[list[Content | float | None]] = [
        [
            moment(one.start_ms),
            f"{one.first:,}" if one.epochs == 1 else f"{one.first:,} to {one.last:,} ({one.epochs:,})",
            one.rows,
            one.rejected,
            one.seconds,
            one.lag,
        ]
        for one in reversed(found)
    ]
    return table(title, header, rows)


def dates(facts: PageFacts, draw: Draw) -> list[Element]:
    """By table dates and sources: rows, and how far they have come."""
    parts: list[Element] = []
    for each in facts.tables:
        if each.cells:
            found = heat(each.cells)
            count, names = len({cell.date for cell in each.cells}), len({cell.source for cell in each.cells})
            title = f"{each.name}, {counted(count, 'date')} and {counted(names, 'source')}"
            rows, tiers = pictures.rows_heat(found), pictures.tier_heat(found)
            parts.append(element("h3", each.name))
            shown = f"rows per date of {title}" if found.has_runs else f"rows of {title}"
            parts.append(picture(shown, draw(rows), _heat(shown, found, 0)))
            parts.append(picture(f"tiers of {title}", draw(tiers), _heat(f"tiers of {title}", found, 1)))
            parts.append(_progress(each, runs=found.has_runs))
    return parts


def _heat(title: str, found: Heat, place: int) -> Element:
    def row(number: int) -> list[Content | float | None]:
        cells = (found.cells.get((number, source)) for source in range(len(found.sources)))
        return [found.spans[number].words, *(cell and cell[place] for cell in cells)]

    return table(title, ["date", *found.sources], map(row, reversed(range(len(found.spans)))))


def _progress(each: TableFacts, *, runs: bool) -> Element:
    rows: Counter[str] = Counter()
    for cell in each.cells:
        rows[cell.tier] += cell.rows
    said = ", ".join(f"{rows[tier]:,} {tier}" for tier in TIERS if rows[tier])
    rule = " A run of dates shows the mean of its dates, and the tier of the least advanced one." if runs else ""
    return element("p", f"Rows by tier: {said}.{rule}")


def symbols(facts: PageFacts, draw: Draw) -> list[Element]:
    """By table the growth of symbol tables, with advice."""
    parts: list[Element] = []
    for each in facts.tables:
        if each.symbols:
            found, lines = growth(each.symbols)
            title = f"symbol table entries of {each.name}"
            header = ["date", *(one.column for one in lines)]
            rows: list[list[Content | float | None]] = [
                [span.words, *(_rounded(one.entries[place]) for one in lines)] for place, span in enumerate(found)
            ]
            parts.append(element("h3", each.name))
            numbers = table(title, header, reversed(rows))
            parts.append(picture(title, draw(pictures.symbols(found, lines)), numbers))
            parts.append(_advice(each))
    return parts


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _advice(each: TableFacts) -> Element:
    ordered = sorted(each.symbols, key=lambda one: (-one.ids, one.column))[:MOST_ROWS]
    rows: list[list[Content | float | None]] = [[one.column, one.ids, one.rows, advice(one)] for one in ordered]
    return table(f"Advice for columns of {each.name}", ["column", "entries", "rows", "advice"], rows)


def disk(facts: PageFacts, draw: Draw) -> list[Element]:
    """Bytes and waste by table and volume."""
    found = [(f"{each.name} {volume.name}", volume) for each in facts.tables for volume in each.volumes]
    if not found:
        return []
    found.sort(key=lambda one: (-one[1].used, one[0]))
    shown, rest = found[:MOST_BARS], found[MOST_BARS:]
    values = [
        (name, kind, number)
        for name, volume in shown
        for kind, number in (("in use", max(0, volume.used - volume.waste)), ("waste", volume.waste))
    ]
    rows: list[list[Content | float | None]] = [
        [name, size(one.used), size(one.waste), f"{100 * one.waste / one.used:.1f} %" if one.used else "-"]
        for name, one in found[:MOST_ROWS]
    ]
    title = f"bytes of {counted(len(shown), 'volume')}" + (f", {len(rest):,} smaller ones are left out" if rest else "")
    spec = partial(pictures.bars, values, (("in use", "used"), ("waste", "waste")), "bytes")
    parts = [_responsive(title, draw, spec, table(title, ["volume", "bytes", "waste", "share"], rows))]
    unlisted = [f"{each.unlisted:,} of {each.name}" for each in facts.tables if each.unlisted]
    if unlisted:
        said = ", ".join(unlisted[:MOST_SOURCES])
        parts.append(
            element("p", f"Directories of older dates, and leaves of trees, whose waste was not measured: {said}.")
        )
    parts.append(element("p", "Waste: replaced history, and files that no snapshot has. Readers never need it."))
    return parts


def quarantine(facts: PageFacts, draw: Draw) -> list[Element]:
    """Rejected rows by reason: pending ones, and those of the last hours."""
    start_ms, stop_ms = window(facts)
    values: list[tuple[str, str, int]] = []
    rows: list[list[Content | float | None]] = []
    unread: list[Element] = []
    for each in facts.tables:
        pending = {one.stream: one for one in each.quarantine}
        for stream in each.streams:
            recent = rejected(stream.epochs, start_ms, stop_ms)
            known = pending.get(stream.name)
            counts = dict(known.pending) if known is not None else {}
            for reason in sorted({*counts, *recent}):
                name = f"{each.name} {stream.name}: {reason}"
                values += [(name, "pending", counts.get(reason, 0)), (name, "last hours", recent.get(reason, 0))]
                list_ = element("code", f"{facts.command} quarantine list {each.name} {stream.name} --reason {reason}")
                rows.append([f"{each.name} {stream.name}", reason, counts.get(reason, 0), recent.get(reason, 0), list_])
            if known is not None and known.unread:
                unread.append(element("p", f"{each.name} {stream.name}: pending rows are not counted ({known.unread})"))
    if not rows:
        return unread or [element("p", "No row was rejected.")]
    title = f"rejected rows by reason, pending and of the last {number(facts.hours)} hours"
    largest = sorted({name for name, _, _ in values}, key=lambda name: -sum(n for at, _, n in values if at == name))
    shown = [value for value in values if value[0] in largest[:MOST_BARS]]
    spec = partial(pictures.bars, shown, (("pending", "pending"), ("last hours", "recent")), "rows")
    header = ["stream", "reason", "pending", "last hours", "lists them"]
    return [_responsive(title, draw, spec, table(title, header, rows[:MOST_ROWS])), *unread]
