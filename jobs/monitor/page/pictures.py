"""Pictures: Vega-Lite specifications, with colours that are variables of the page's style, and their drawing.

Every picture stands beside a table of the same numbers, so it needs no text for screen readers by itself. They are
drawn by ``vl-convert-python``, an optional extra, which needs no network.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from sparkhaven.jobs.monitor.dates import TIERS
from sparkhaven.jobs.monitor.page.markup import moment, plain
from sparkhaven.jobs.monitor.page.summary import DateSpan, Growth, Heat, Point, bands
from sparkhaven.store.errors import SettingsError

Spec = dict[str, Any]
STEP, WIDTH, PANEL = 16, 860, 90  # pixels
NARROW, LABELS = 260, 120  # the width for small screens; what the names of bars take of it
DAY_MS, MINUTES_MS = 86_400_000, 20 * 60_000
PADDING = {"left": 28, "right": 48, "top": 4, "bottom": 8}
LEAST_BAR = 400  # a bar is at least the width / LEAST_BAR wide
LETTERS = dict(zip(TIERS, "IMVT", strict=True))
DASHES: tuple[list[int], ...] = ([], [6, 3], [2, 2], [8, 2, 2, 2], [12, 4], [1, 3])
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # names the language; nothing is fetched
CONFIG: Spec = {
    "aria": False,
    "font": "system-ui, sans-serif",
    "view": {"stroke": "var(--line)"},
    "axis": {
        "labelColor": "var(--text)",
        "titleColor": "var(--text)",
        "gridColor": "var(--line)",
        "domainColor": "var(--soft)",
        "tickColor": "var(--soft)",
        "labelLimit": 170,
        "titleFontWeight": "normal",
    },
    "legend": {
        "labelColor": "var(--text)",
        "titleColor": "var(--text)",
        "labelLimit": 220,
        "orient": "top",
        "columnPadding": 32,  # the browser's font may be wider than the one with which Vega has measured
    },
}


def epochs(shown: Sequence[Point], start_ms: int, stop_ms: int, width: int = WIDTH) -> Spec:
    """Rows, seconds between epochs, and lag over time, one above the other on one axis of time."""
    least = (stop_ms - start_ms) // LEAST_BAR
    values = [
        {
            "from": point.start_ms,
            "to": max(point.stop_ms, point.start_ms + least),
            "rows": point.rows,
            "seconds": point.seconds,
            "lag": point.lag,
        }
        for point in shown
    ]
    fields = [("rows", "rows")]
    if any(point.seconds is not None for point in shown):
        fields.append(("seconds", "s since the last"))
    if any(point.lag is not None for point in shown):
        fields.append(("lag", "lag in s"))
    time = {"type": "utc", "domain": [start_ms, stop_ms]}
    hidden = {"labels": False, "title": None}
    axes = [hidden] * (len(fields) - 1) + [_time_axis(start_ms, stop_ms)]
    panels = [_panel(*field, {"scale": time, "axis": axis}, width) for field, axis in zip(fields, axes, strict=True)]
    return _whole({"vconcat": panels, "spacing": 8}, values)


def _time_axis(start_ms: int, stop_ms: int) -> Spec:
    clock = "%H:%M:%S" if stop_ms - start_ms < MINUTES_MS else "%H:%M"
    one_day = start_ms // DAY_MS == stop_ms // DAY_MS
    title = f"{moment(start_ms)[:10]}, UTC" if one_day else "UTC"
    return {"format": clock if one_day else f"%m-%d {clock}", "labelOverlap": True, "title": title}


def _panel(field: str, title: str, time: Spec, width: int) -> Spec:
    return {
        "width": width,
        "height": PANEL,
        "transform": [{"filter": f"isValid(datum.{field})"}],
        "mark": {"type": "bar", "color": f"var(--{field})"},
        "encoding": {
            "x": {"field": "from", "type": "temporal", **time},
            "x2": {"field": "to"},
            "y": {"field": field, "type": "quantitative", "title": title, "axis": {"format": "~s", "tickCount": 4}},
            "y2": {"datum": 0},
        },
    }


def rows_heat(heat: Heat) -> Spec:
    """Dates by sources, coloured by their number of rows."""
    title = "rows per date" if heat.has_runs else "rows"
    ranges = bands(rows for rows, _ in heat.cells.values())
    names = [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in ranges]

    def band(rows: int) -> str:
        return next(name for name, (low, high) in zip(names, ranges, strict=True) if low <= rows <= high)

    values = [_cell(heat, key) | {"band": band(rows)} for key, (rows, _) in sorted(heat.cells.items())]
    shades = [f"var(--rows{1 + number * 4 // max(1, len(names) - 1)})" for number in range(len(names))]
    color = {"scale": {"domain": names, "range": shades}, "legend": {"title": title, "columns": 2}}
    rect = {"mark": "rect", "encoding": {**_axes(heat), "color": {"field": "band", "type": "nominal", **color}}}
    return _whole({**_steps(), **rect}, values)


def tier_heat(heat: Heat) -> Spec:
    """Dates by sources, coloured and lettered by how far they have come."""
    values = [
        _cell(heat, key) | {"tier": f"{LETTERS[tier]} {tier}", "letter": LETTERS[tier]}
        for key, (_, tier) in sorted(heat.cells.items())
    ]
    names = [f"{LETTERS[tier]} {tier}" for tier in TIERS]
    color = {
        "scale": {"domain": names, "range": [f"var(--{tier})" for tier in TIERS]},
        "legend": {"title": "tier", "columns": 2},
    }
    rect = {"mark": "rect", "encoding": {**_axes(heat), "color": {"field": "tier", "type": "nominal", **color}}}
    mark = {"type": "text", "color": "var(--letter)", "fontSize": 9}
    text = {"mark": mark, "encoding": {**_axes(heat), "text": {"field": "letter", "type": "nominal"}}}
    return _whole({**_steps(), "layer": [rect, text]}, values)


def _cell(heat: Heat, key: tuple[int, int]) -> Spec:
    return {"date": plain(heat.spans[key[0]].label), "source": plain(heat.sources[key[1]])}


def _axes(heat: Heat) -> Spec:
    dates, sources = [plain(span.label) for span in heat.spans], [plain(name) for name in heat.sources]
    date = {"field": "date", "type": "ordinal", "scale": {"domain": dates}, "title": None}
    source = {"field": "source", "type": "ordinal", "scale": {"domain": sources}, "title": None}
    return {"x": {**date, "axis": {"labelAngle": -60}}, "y": source}


def _steps() -> Spec:
    return {"width": {"step": STEP}, "height": {"step": STEP}}


def symbols(spans: Sequence[DateSpan], lines: Sequence[Growth]) -> Spec:
    """Entries per date of the symbol tables of each column."""
    values = [
        {"date": plain(span.label), "column": plain(line.column), "entries": entries}
        for line in lines
        for span, entries in zip(spans, line.entries, strict=True)
        if entries is not None
    ]
    names = [plain(line.column) for line in lines]
    color = {"domain": names, "range": [f"var(--line{number})" for number in range(len(names))]}
    dash = {"domain": names, "range": list(DASHES[: len(names)])}
    dates = {"domain": [plain(span.label) for span in spans]}
    x = {"field": "date", "type": "ordinal", "title": None, "axis": {"labelAngle": -60}, "scale": dates}
    y = {"field": "entries", "type": "quantitative", "title": "entries per date", "axis": {"format": "~s"}}
    encoding = {
        "x": x,
        "y": y,
        "color": {"field": "column", "type": "nominal", "title": None, "scale": color},
        "strokeDash": {"field": "column", "type": "nominal", "title": None, "scale": dash},
    }
    line = {"mark": {"type": "line", "point": True}, "encoding": encoding}
    return _whole({"width": {"step": STEP}, "height": 160, **line}, values)


def bars(
    values: Sequence[tuple[str, str, int]], colors: Sequence[tuple[str, str]], title: str, width: int = WIDTH
) -> Spec:
    """Horizontal bars: (label, kind, number), stacked by kind. ``colors``: the kinds with the variable of each."""
    labels = list(dict.fromkeys(plain(label) for label, _, _ in values))
    listed = [{"label": plain(label), "kind": kind, "number": number} for label, kind, number in values]
    scale = {"domain": [kind for kind, _ in colors], "range": [f"var(--{name})" for _, name in colors]}
    encoding = {
        "y": {"field": "label", "type": "ordinal", "title": None, "scale": {"domain": labels}},
        "x": {
            "field": "number",
            "type": "quantitative",
            "title": title,
            "axis": {"format": "~s", "labelOverlap": True},
        },
        "color": {"field": "kind", "type": "nominal", "title": None, "scale": scale},
    }
    return _whole({"width": width - LABELS, "height": {"step": STEP + 4}, "mark": "bar", "encoding": encoding}, listed)


def _whole(spec: Spec, values: Sequence[Spec]) -> Spec:
    return {
        "$schema": SCHEMA,
        "background": None,
        "padding": PADDING,
        "config": CONFIG,
        "data": {"values": list(values)},
        **spec,
    }


Draw = Callable[[dict[str, Any]], str]
"""A picture as SVG text."""

KEPT = 256  # pictures


def require_library() -> None:
    """SettingsError: the library is not installed."""
    if find_spec("vl_convert") is None:
        raise SettingsError(
            "the library that draws the pictures of the page is not installed",
            expected="the package vl-convert-python",
            found="no such package",
            hint="pip install 'sparkhaven[page]'",
        )


class Drawings:
    """Draws pictures and keeps the newest: one that has not changed is not drawn again. For one thread at a time."""

    def __init__(self, draw: Draw | None = None) -> None:
        self._draw = draw or _vega
        self._kept: OrderedDict[str, str] = OrderedDict()

    def __call__(self, spec: dict[str, Any]) -> str:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._kept:
            self._kept[key] = self._draw(spec)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def _vega(spec: dict[str, Any]) -> str:
    import vl_convert  # an optional extra

    svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return svg
