"""From facts to the text of a page. The same facts and drawings give the same bytes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from xml.etree.ElementTree import Element

from sparkhaven.jobs.monitor.page.facts import ErrorFacts, PageFacts
from sparkhaven.jobs.monitor.page.markup import Content, command, element, moment, number, raw, table, written
from sparkhaven.jobs.monitor.page.pictures import Draw
from sparkhaven.jobs.monitor.page.sections import dates, disk, quarantine, streams, symbols
from sparkhaven.jobs.monitor.page.style import REFRESH, STYLE
from sparkhaven.jobs.monitor.page.summary import newest
from sparkhaven.jobs.monitor.texts import counted

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
    counts = f"{count:,} wrong, {len(findings) - count:,} notes"
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
