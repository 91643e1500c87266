"""Elements of the document, texts and numbers in them: texts become nodes, which escape them when they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, tostring

from defusedxml.ElementTree import fromstring

from sparkhaven.store.errors import counted

Content = Element | str
Row = Sequence[Content | float | None]
_TAGS = frozenset({"svg", "g", "path", "text", "line", "rect", "tspan"})
_ATTRIBUTES = frozenset(
    {"width", "height", "viewBox", "d", "transform", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "opacity"}
    | {"fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-miterlimit"}
    | {"stroke-linecap", "stroke-linejoin", "text-anchor", "font-family", "font-size", "font-weight", "font-style"}
)


def element(name: str, /, *content: Content, **attributes: str) -> Element:
    """An element; ``_`` in names of attributes is a dash, a last one is left out: ``class_``, ``aria_label``."""
    node = Element(name, {key.rstrip("_").replace("_", "-"): plain(text) for key, text in attributes.items()})
    for child in content:
        if isinstance(child, Element):
            node.append(child)
        elif len(node):
            node[-1].tail = (node[-1].tail or "") + plain(child)
        else:
            node.text = (node.text or "") + plain(child)
    return node


def command(line: str) -> Element:
    """A command to type, whose words stay whole on their line where it has room for them."""
    content: list[Content] = []
    for word in line.split(" "):
        content += [*([" "] if content else []), element("span", word)]
    return element("code", *content)


def raw(name: str, text: str, /, **attributes: str) -> Element:
    """A ``style`` or ``script`` element of the project's own text."""
    node = element(name, **attributes)
    node.text = text
    return node


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Content | float | None]]) -> Element:
    """A table in a region that scrolls, also by the keyboard; the first cell of a row is its header."""
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in header)))
    body = element("tbody", *(element("tr", *_cells(row)) for row in rows))
    grid = element("table", element("caption", caption), head, body)
    return element("div", grid, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cells(row: Sequence[Content | float | None]) -> list[Element]:
    cells = []
    for index, cell in enumerate(row):
        content = cell if isinstance(cell, Element | str) else number(cell)
        kind = {} if isinstance(cell, Element | str) else {"class_": "number"}
        cells.append(element("td", content, **kind) if index else element("th", content, scope="row", **kind))
    return cells


def picture(title: str, svg: str, numbers: Element, *, narrow: str | None = None) -> Element:
    """A figure: the picture, and below it the same as a table. ``narrow``: the picture for small windows."""
    drawings = [_image(title, svg)]
    if narrow is not None:
        drawings[0].set("class", "wide")
        drawings.append(_image(title, narrow))
        drawings[1].set("class", "narrow")
    shown = element("div", *drawings, class_="scroll", tabindex="0", role="region", aria_label=f"Picture: {title}")
    details = element("details", element("summary", f"Table: {title}"), numbers)
    return element("figure", element("figcaption", title), shown, details)


def _image(title: str, svg: str) -> Element:
    drawn = _drawn(fromstring(svg))
    drawn.set("role", "img")
    drawn.set("aria-label", plain(f"{title}. The table below has the same numbers"))
    return drawn


def _drawn(source: Element) -> Element:
    copy = Element(source.tag.rpartition("}")[2], {k: v for k, v in source.attrib.items() if k in _ATTRIBUTES})
    copy.text = source.text
    for child in source:
        if isinstance(child.tag, str) and child.tag.rpartition("}")[2] in _TAGS:
            copy.append(_drawn(child))
    return copy


def written(document: Element) -> bytes:
    text = tostring(document, encoding="unicode", method="html")
    return f"<!DOCTYPE html>\n{text}\n".encode()


MOST = 500  # characters of a text


def plain(text: object) -> str:
    """A text in one line without characters that a browser would not show, or would show as something else."""
    shown = "".join(c if c.isprintable() else " " if c in "\n\t" else _escaped(c) for c in str(text))
    return shown if len(shown) <= MOST else f"{shown[: MOST - 1]}…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def moment(time_ms: int) -> str:
    """A time as ISO text with seconds, UTC; one beyond the calendar as its number."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def number(amount: float | None) -> str:
    """A number with thousands separators, three digits of a fraction at most; a dash for none."""
    if amount is None:
        return "-"
    return f"{amount:,}" if isinstance(amount, int) else f"{amount:,.3f}".rstrip("0").rstrip(".")


def size(length: int) -> str:
    amount, units = float(length), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return counted(length, "byte") if units[0] == "bytes" else f"{amount:,.1f} {units[0]}"
