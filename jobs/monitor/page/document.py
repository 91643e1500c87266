"""From facts to the text of a page. The same facts and drawings give the same bytes.

The style of the page, for light and dark, and the program that refreshes a served page.

The sections of the page that have pictures, each with its tables.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from xml.etree.ElementTree import Element

from sparkhaven.jobs.monitor.dates import TIERS
from sparkhaven.jobs.monitor.page import pictures
from sparkhaven.jobs.monitor.page.markup import (
    Content,
    Row,
    command,
    element,
    moment,
    number,
    picture,
    raw,
    size,
    table,
    written,
)
from sparkhaven.jobs.monitor.page.pictures import Draw
from sparkhaven.jobs.monitor.page.summary import (
    MOST_ROWS,
    MOST_SOURCES,
    ErrorFacts,
    Heat,
    PageFacts,
    PageTable,
    PageWaiting,
    Point,
    extent,
    growth,
    heat,
    newest,
    points,
    rejected,
    window,
)
from sparkhaven.jobs.monitor.storage import EXTENDED, INTRADAY
from sparkhaven.jobs.monitor.streams import StreamFacts
from sparkhaven.store.errors import counted

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --back: #ffffff; --soft: #57606a; --line: #d0d7de;
  --raised: #f6f8fa; --link: #0550ae; --wrong: #a40e26; --note: #7a4b00; --ok: #116329; --rows: #2a6fbb;
  --seconds: #8250df; --lag: #b35900; --intraday: #f8c777; --merged: #a9d0f7; --validated: #a6dbad;
  --truncated: #d3d8de; --letter: #111111; --used: #2a6fbb; --waste: #d1642b; --pending: #b3261e; --recent: #d98c2b;
  --line0: #0550ae; --line1: #b35900; --line2: #116329; --line3: #8250df; --line4: #a40e26; --line5: #57606a; }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --back: #0d1117; --soft: #9aa5b1; --line: #30363d;
  --raised: #161b22; --link: #79b8ff; --wrong: #ff8f87; --note: #e3b341; --ok: #6fdd8b; --rows: #5aa2ea;
  --seconds: #b392f0; --lag: #f0965a;
  --intraday: #7d5400; --merged: #1f5287; --validated: #22643a; --truncated: #454c55; --letter: #ffffff;
  --used: #5aa2ea; --waste: #f0965a; --pending: #ff8f87; --recent: #e3b341;
  --line0: #79b8ff; --line1: #f0965a; --line2: #6fdd8b; --line3: #b392f0; --line4: #ff8f87; --line5: #9aa5b1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem 1.5rem 4rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: .5rem 0; overflow-wrap: anywhere; } h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem;
  border-bottom: 1px solid var(--line); } h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }
a { color: var(--link); } p { margin: .4rem 0; max-width: 60rem; overflow-wrap: anywhere; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: .5rem 0; padding: 0; }
svg.narrow { display: none; }
figure { margin: .75rem 0 1.25rem; } figcaption { font-weight: 600; } svg { display: block; overflow: visible;
  max-width: 100%; height: auto; }
.scroll { overflow: auto; max-height: 34rem; padding: .25rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; vertical-align: top; }
thead th { background: var(--raised); } tbody th { font-weight: normal; } .number { text-align: right;
  font-variant-numeric: tabular-nums; }
code { font: .88rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; } code span { white-space: nowrap; }
p code span { display: inline-block; max-width: 100%; white-space: normal; }
summary { cursor: pointer; color: var(--link); }
.wrong { color: var(--wrong); font-weight: 600; } .note { color: var(--note); font-weight: 600; }
.soft { color: var(--soft); } label { color: var(--soft); }
@media (max-width: 52rem) { svg { max-width: none; } }
@media (max-width: 40rem) { body { padding: .5rem .75rem 2rem; } svg.wide { display: none; }
  svg.narrow { display: block; } th, td { padding: .25rem .35rem; } nav ul { gap: .5rem 1rem; } }
"""

REFRESH = """
"use strict";
let tag = null;
async function refresh() {
  const on = document.getElementById("refresh");
  if (document.hidden || !on.checked) return;
  const state = document.getElementById("state");
  try {
    const answer = await fetch("/", { cache: "no-cache" });
    if (!answer.ok) { state.textContent = "The page cannot be made now: " + (await answer.text()); return; }
    state.textContent = "";
    if (answer.headers.get("ETag") === tag) return;
    tag = answer.headers.get("ETag");
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-part]")) {
      const made = found.querySelector('[data-part="' + old.dataset.part + '"]');
      if (!made || old.contains(document.activeElement)) continue;
      const open = [...old.querySelectorAll("details")].map((each) => each.open);
      for (const each of old.querySelectorAll("details")) each.open = false;
      if (old.innerHTML !== made.innerHTML) old.replaceChildren(...made.childNodes);
      old.querySelectorAll("details").forEach((each, place) => { each.open = Boolean(open[place]); });
    }
  } catch (error) {
    state.textContent = "The server does not answer.";
  }
}
setInterval(refresh, 15000);
"""


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
            parts.append(element("h3", entry.name))
            shown = f"tiers, and rows per date, of {title}" if grid.has_runs else f"tiers and rows of {title}"
            parts.append(picture(shown, draw(pictures.date_map(grid)), _heat(shown, grid)))
            parts.append(_progress(entry, runs=grid.has_runs))
    return parts


def _heat(title: str, grid: Heat) -> Element:
    def row(number: int) -> Row:
        cells = (grid.cells.get((number, source)) for source in range(len(grid.sources)))
        return [grid.spans[number].words, *(cell and f"{cell[0]:,} {cell[1]}" for cell in cells)]

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


Section = Callable[[PageFacts, Draw], list[Element]]
STATES = ("wrong", "note")


def policy(*, live: bool) -> str:
    """The content security policy: the page's own style, ``live`` also its own program, and nothing from elsewhere."""
    style = _hash(STYLE)
    rest = f"; script-src {_hash(REFRESH)}; connect-src 'self'" if live else ""
    return f"default-src 'none'; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'{rest}"


def page(facts: PageFacts, draw: Draw, *, live: bool = False) -> bytes:
    """The whole document as UTF-8. ``live``: served, so that it refreshes by itself."""
    names = [(key, title) for key, title, _ in SECTIONS]
    links = [element("li", element("a", title, href=f"#{key}")) for key, title in names]
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        element("header", element("h1", f"sparkhaven: {facts.root}"), _as_of(facts), *(_switch() if live else ())),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", *(_section(facts, draw, *section) for section in SECTIONS), id="content", tabindex="-1"),
        *([raw("script", REFRESH)] if live else ()),
    )
    meta = [element("meta", charset="utf-8")]
    if not live:  # a served page has it as a header
        meta.append(element("meta", http_equiv="Content-Security-Policy", content=policy(live=False)))
    meta.append(element("meta", name="viewport", content="width=device-width, initial-scale=1"))
    meta.append(element("link", rel="icon", href="data:,"))
    head = element("head", *meta, element("title", f"sparkhaven: {facts.root}"), raw("style", STYLE))
    return written(element("html", head, body, lang="en"))


def _section(facts: PageFacts, draw: Draw, key: str, title: str, content: Section) -> Element:
    heading = element("h2", title, id=f"{key}-title")
    parts = content(facts, draw) or [element("p", "Nothing yet.")]
    return element("section", heading, element("div", *parts, data_part=key), id=key, aria_labelledby=f"{key}-title")


def _as_of(facts: PageFacts) -> Element:
    time = element("time", f"{moment(facts.now_ms)} UTC", datetime=moment(facts.now_ms).replace(" ", "T") + "Z")
    scope = f". Epochs of the last {number(facts.hours)} hours. {counted(len(facts.tables), 'table')}."
    content: list[Content] = ["As of ", time, scope]
    if facts.others:
        examples = " ".join(facts.others[:3])
        content.append(f" Left out: {counted(len(facts.others), 'table')} with older epochs. To see them: ")
        content.append(command(f"{facts.command} page {examples}"))
    return element("p", *content, data_part="as-of")


def _switch() -> list[Element]:
    box = element("input", type="checkbox", id="refresh", checked="checked")
    label = element("label", box, " refresh every 15 seconds")
    return [element("p", label), element("p", id="state", role="status", class_="wrong")]


def _next(facts: PageFacts, draw: Draw) -> list[Element]:
    findings = [finding for state in STATES for finding in facts.findings if finding.state == state]
    if not findings:
        return [element("p", "Nothing: no check has found anything.")]
    rows: list[list[Content]] = []
    for finding in findings:
        next_ = finding.next or "-"
        step: Content = command(next_) if next_.startswith("sparkhaven ") else next_
        rows.append([element("span", finding.state, class_=finding.state), finding.check, finding.what, step])
    count = sum(finding.state == "wrong" for finding in findings)
    counts = f"{count:,} wrong, {counted(len(findings) - count, 'note')}"
    return [table(f"Findings of `sparkhaven doctor`: {counts}", ["state", "check", "finding", "next"], rows)]


def _errors(facts: PageFacts, draw: Draw) -> list[Element]:
    errors: list[ErrorFacts] = [error for entry in facts.tables for error in entry.errors]
    if not errors:
        return [element("p", "None.")]
    shown = newest(errors)
    rows = [["-" if error.time_ms is None else moment(error.time_ms), error.where, error.what] for error in shown]
    more = f" of {len(errors):,}" if len(shown) < len(errors) else ""
    return [table(f"{len(shown):,}{more} errors, the newest first (UTC)", ["time", "where", "what"], rows)]


SECTIONS: tuple[tuple[str, str, Section], ...] = (
    ("next", "What to do next", _next),
    ("streams", "Streams and epochs", streams),
    ("dates", "Dates and sources", dates),
    ("symbols", "Symbol tables", symbols),
    ("disk", "Bytes and waste", disk),
    ("quarantine", "Quarantine by reason", quarantine),
    ("errors", "Newest errors", _errors),
)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
