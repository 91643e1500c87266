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
from sparkhaven.jobs.monitor.page.summary import BANDS, DateSpan, Growth, Heat, Point, bands
from sparkhaven.store.errors import SettingsError

Spec = dict[str, Any]
WIDTH, NARROW = 1100, 300  # pixels of a picture with its labels: as wide as the page, and for small screens
STEP, CELL, PANEL = 16, 48, 90  # pixels: a line of cells, the widest cell, a panel of a stream
AXIS, AROUND = 44, 76  # pixels: labels of a panel; these with title and padding
DAY_MS, MINUTES_MS = 86_400_000, 20 * 60_000
PADDING = {"left": 4, "right": 28, "top": 4, "bottom": 8}
FAINTEST = 0.3  # of a cell with few rows
COUNT_AXIS: Spec = {  # whole numbers only; Vega's own labels would be parts of the largest unit: 0.2k
    "tickMinStep": 1,
    "labelExpr": "format(datum.value, datum.value < 1e4 ? ',' : '~s')",
}
FIT = {"type": "fit-x", "contains": "padding"}  # the width is that of all with labels
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
        "layout": {"top": {"anchor": "start", "direction": "vertical", "margin": 8}},
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
    axis = {"tickCount": 4, "minExtent": AXIS, **(COUNT_AXIS if field == "rows" else {"format": "~s"})}
    return {
        "width": width - AROUND,
        "height": PANEL,
        "transform": [{"filter": f"isValid(datum.{field})"}],
        "mark": {"type": "bar", "color": f"var(--{field})"},
        "encoding": {
            "x": {"field": "from", "type": "temporal", **time},
            "x2": {"field": "to"},
            "y": {"field": field, "type": "quantitative", "title": title, "axis": axis},
            "y2": {"datum": 0},
        },
    }


def date_map(heat: Heat) -> Spec:
    """Dates by sources: coloured and lettered by how far they have come, the stronger the more rows."""
    starts = [first for first, _ in bands(rows for rows, _ in heat.cells.values())]
    values = [
        _cell(heat, key) | {"tier": f"{LETTERS[tier]} {tier}", "letter": LETTERS[tier], "rows": rows}
        for key, (rows, tier) in sorted(heat.cells.items())
    ]
    tiers = {"domain": [f"{LETTERS[tier]} {tier}" for tier in TIERS], "range": [f"var(--{tier})" for tier in TIERS]}
    steps = max(1, len(starts) - 1)
    shades = [1 - (1 - FAINTEST) * (steps - step) / steps for step in range(len(starts))]
    columns = 2 if len(heat.spans) * CELL < WIDTH else BANDS
    rows_legend = {
        "columns": columns,
        "title": "rows per date" if heat.has_runs else "rows",
        "format": ",",
        "symbolFillColor": "var(--soft)",
        "symbolStrokeWidth": 0,
    }
    strength = {"type": "threshold", "domain": starts[1:], "range": shades}
    encoding = {
        **_axes(heat),
        "color": {"field": "tier", "type": "nominal", "scale": tiers, "legend": {"title": "tier", "columns": columns}},
        "opacity": {"field": "rows", "type": "quantitative", "scale": strength, "legend": rows_legend},
    }
    mark = {"type": "text", "color": "var(--letter)", "fontSize": 9}
    text = {"mark": mark, "encoding": {**_axes(heat), "text": {"field": "letter", "type": "nominal"}}}
    layers = {"layer": [{"mark": "rect", "encoding": encoding}, text]}
    return _whole({**_wide(len(heat.spans)), "height": {"step": STEP}, **layers}, values)


def _wide(dates: int) -> Spec:
    """As wide as the page; of few dates less, so that a cell is not a bar."""
    return {"width": WIDTH, "autosize": FIT} if dates * CELL > WIDTH else {"width": {"step": CELL}}


def _cell(heat: Heat, key: tuple[int, int]) -> Spec:
    return {"date": plain(heat.spans[key[0]].label), "source": plain(heat.sources[key[1]])}


def _axes(heat: Heat) -> Spec:
    dates, sources = [plain(span.label) for span in heat.spans], [plain(name) for name in heat.sources]
    date = {"field": "date", "type": "ordinal", "scale": {"domain": dates}, "title": None}
    source = {"field": "source", "type": "ordinal", "scale": {"domain": sources}, "title": None}
    return {"x": {**date, "axis": {"labelAngle": -60}}, "y": source}


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
    y = {"field": "entries", "type": "quantitative", "title": "entries per date", "axis": COUNT_AXIS}
    encoding = {
        "x": x,
        "y": y,
        "color": {"field": "column", "type": "nominal", "title": None, "scale": color},
        "strokeDash": {"field": "column", "type": "nominal", "title": None, "scale": dash},
    }
    line = {"mark": {"type": "line", "point": True}, "encoding": encoding}
    return _whole({**_wide(len(spans)), "height": 160, **line}, values)


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
            "axis": {"labelOverlap": True, **COUNT_AXIS},
        },
        "color": {"field": "kind", "type": "nominal", "title": None, "scale": scale},
    }
    size = {"width": width, "autosize": FIT, "height": {"step": STEP + 4}}
    return _whole({**size, "mark": "bar", "encoding": encoding}, listed)


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
