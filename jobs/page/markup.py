"""Elements of the document: texts become nodes of a tree, which escapes all of them when it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, tostring

from defusedxml.ElementTree import fromstring

from sparkhaven.jobs.page.number_texts import number, plain

Content = Element | str
_TAGS = frozenset({"svg", "g", "path", "text", "line", "rect", "tspan"})
_ATTRIBUTES = frozenset(
    {"width", "height", "viewBox", "d", "transform", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "opacity"}
    | {"fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-miterlimit"}
    | {"stroke-linecap", "stroke-linejoin", "text-anchor", "font-family", "font-size", "font-weight", "font-style"}
)


def element(name: str, /, *content: Content, **attributes: str) -> Element:
    """An element; ``_`` in names of attributes is a dash, a last one is left out: ``class_``, ``aria_label``."""
    made = Element(name, {key.rstrip("_").replace("_", "-"): plain(text) for key, text in attributes.items()})
    for each in content:
        if isinstance(each, Element):
            made.append(each)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + plain(each)
        else:
            made.text = (made.text or "") + plain(each)
    return made


def raw(name: str, text: str, /, **attributes: str) -> Element:
    """A ``style`` or ``script`` element of the project's own text."""
    made = element(name, **attributes)
    made.text = text
    return made


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Content | float | None]]) -> Element:
    """A table in a region that scrolls, also by the keyboard; the first cell of a row is its header."""
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in header)))
    body = element("tbody", *(element("tr", *_cells(row)) for row in rows))
    made = element("table", element("caption", caption), head, body)
    return element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cells(row: Sequence[Content | float | None]) -> list[Element]:
    cells = []
    for place, value in enumerate(row):
        what = value if isinstance(value, Element | str) else number(value)
        kind = {} if isinstance(value, Element | str) else {"class_": "number"}
        cells.append(element("td", what, **kind) if place else element("th", what, scope="row", **kind))
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


def _drawn(found: Element) -> Element:
    """A drawing with shapes and texts only: without styles, scripts, links and namespaces."""
    made = Element(found.tag.rpartition("}")[2], {k: v for k, v in found.attrib.items() if k in _ATTRIBUTES})
    made.text = found.text
    for child in found:
        if isinstance(child.tag, str) and child.tag.rpartition("}")[2] in _TAGS:
            made.append(_drawn(child))
    return made


def written(document: Element) -> bytes:
    """The document as UTF-8."""
    text = tostring(document, encoding="unicode", method="html")
    return f"<!DOCTYPE html>\n{text}\n".encode()
