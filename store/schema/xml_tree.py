"""An XML document as a tree with source positions, for messages and for edits in place.

The text is parsed by defusedxml (no DOCTYPE, no entities of its own, nothing fetched). An edit replaces only the
characters that it must, so comments, order, quotes and unknown parts of the rest stay as they are.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.saxutils import escape

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

MAX_BYTES = 1 << 20
_ENCODINGS = ("utf-8", "iso8859-1", "ascii", "cp1252", "utf-16")
_DECLARED = re.compile(rb"""\A<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_ATTRIBUTE = re.compile(r"""\s+([^\s=/>"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_NAME = re.compile(r"<([^\s/>]+)")
_LINE_END = re.compile(r"\r\n|\r|\n")
_REFERENCES = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


class DocumentError(Exception):
    """The document cannot be read; ``line`` and ``column`` count from 1. Translated to E101 by the caller."""

    def __init__(self, line: int, column: int, expected: str, found: str, hint: str) -> None:
        super().__init__(found)
        self.line, self.column, self.expected, self.found, self.hint = line, column, expected, found, hint


@dataclass(frozen=True, slots=True)
class Element:
    """One element. ``start``/``stop`` bound it in the text, ``tag_stop`` ends its start tag, ``spans`` its values."""

    name: str
    attributes: dict[str, str]
    children: tuple[Element, ...]
    line: int
    column: int
    start: int
    tag_stop: int
    stop: int
    spans: dict[str, tuple[int, int]]  # attribute -> where its text between the quotes stands

    @property
    def label(self) -> str:
        """Tag and name, as messages show it."""
        name = self.attributes.get("name")
        return self.name if name is None else f'{self.name} "{name}"'

    def all(self, name: str) -> list[Element]:
        """Children of that name in document order."""
        return [child for child in self.children if child.name == name]

    def first(self, name: str) -> Element | None:
        """The first child of that name, or None."""
        return next((child for child in self.children if child.name == name), None)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document: the bytes as given, their text, and the tree."""

    data: bytes
    text: str
    encoding: str
    root: Element

    def with_text(self, text: str) -> bytes:
        """Bytes of a changed text in the encoding of the document."""
        mark = codecs.BOM_UTF8 if self.data.startswith(codecs.BOM_UTF8) else b""
        return mark + text.encode(self.encoding, "xmlcharrefreplace")

    def set_attribute(self, element: Element, name: str, value: str) -> bytes:
        """The document with one attribute set: replaced in place, or added as the last of its tag."""
        quoted = escape(value, _REFERENCES)
        if name in element.spans:
            start, stop = element.spans[name]
            old = self.text[start - 1]
            new = quoted if old == '"' else escape(value, {**_REFERENCES, "'": "&apos;"})
            return self.with_text(self.text[:start] + new + self.text[stop:])
        tag = self.text[element.start : element.tag_stop]
        body = tag[: -2 if tag.endswith("/>") else -1].rstrip()
        end = element.start + len(body)
        return self.with_text(f'{self.text[:end]} {name}="{quoted}"{self.text[end:]}')


class _Builder(ContentHandler):
    """Collects events with their positions; the tree is made bottom up, so elements are frozen."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.lines = [0, *(m.end() for m in _LINE_END.finditer(text))]
        self.locator: Any = None
        self.open: list[tuple[str, dict[str, str], int, int, int, list[Element]]] = []
        self.root: Element | None = None

    def position(self) -> tuple[int, int, int]:
        """Line and column from 1, and the offset in the text."""
        line, column = int(self.locator.getLineNumber()), int(self.locator.getColumnNumber())
        return line, column + 1, self.lines[line - 1] + column

    def before(self, mark: str) -> tuple[int, int]:
        """Line and column of the last ``mark`` before the current position."""
        offset = max(self.text.rfind(mark, 0, self.position()[2] + len(mark)), 0)
        line = bisect_right(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1

    def startElement(self, name: str, attrs: Any) -> None:
        line, column, offset = self.position()
        self.open.append((name, dict(attrs.items()), line, column, offset, []))

    def endElement(self, name: str) -> None:
        offset = self.position()[2]
        _, attributes, line, column, start, children = self.open.pop()
        spans, tag_stop = _spans(self.text, start)
        closed = self.text.startswith("/>", tag_stop - 2)
        stop = tag_stop if closed else self.text.index(">", offset) + 1
        element = Element(name, attributes, tuple(children), line, column, start, tag_stop, stop, spans)
        if self.open:
            self.open[-1][5].append(element)
        else:
            self.root = element


def _spans(text: str, start: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Positions of the values of a start tag, and of its end; the tag is known to be well-formed."""
    name = _NAME.match(text, start)
    offset = name.end() if name else start
    spans: dict[str, tuple[int, int]] = {}
    while match := _ATTRIBUTE.match(text, offset):
        spans[match[1]] = match.span(2) if match[2] is not None else match.span(3)
        offset = match.end()
    return spans, text.index(">", offset) + 1


def _decode(data: bytes) -> tuple[str, str]:
    """Text without a byte order mark, and the name of its encoding."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    else:
        declared = _DECLARED.match(data.removeprefix(codecs.BOM_UTF8))
        encoding = declared[1].decode("ascii") if declared else "utf-8"
    try:
        codec = codecs.lookup(encoding).name
    except LookupError:
        codec = ""
    if codec not in _ENCODINGS:
        raise DocumentError(1, 1, "encoding UTF-8, ISO-8859-1 or US-ASCII", encoding, "save the file as UTF-8")
    try:
        return data.decode("utf-8-sig" if codec == "utf-8" else codec), codec
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        bad = f"byte 0x{data[error.start]:02X}"
        raise DocumentError(line, column, f"text in {codec}", bad, "save the file as UTF-8") from None


def parse_document(data: bytes) -> Document:
    """Parses a document; anything that is refused is a DocumentError with a position."""
    if len(data) > MAX_BYTES:
        raise DocumentError(1, 1, f"at most {MAX_BYTES} bytes", f"{len(data)} bytes", "this is not a schema file")
    text, encoding = _decode(data)
    builder = _Builder(text)
    parser = DefusedExpatParser(forbid_dtd=True, forbid_entities=True, forbid_external=True)
    parser.setContentHandler(builder)
    builder.locator = parser
    try:
        parser.feed(text)
        parser.close()
    except SAXParseException as error:
        line, column = int(error.getLineNumber() or 1), int(error.getColumnNumber() or 0) + 1
        hint = "correct the XML at this position. An editor with XML support shows it"
        raise DocumentError(line, column, "well-formed XML", str(error.getMessage()), hint) from None
    except DefusedXmlException as error:
        line, column = builder.before("<!DOCTYPE")
        kind = type(error).__name__.replace("Forbidden", "").replace("DTD", "DOCTYPE")
        raise DocumentError(
            line, column, "a file without DOCTYPE and entities", kind, "remove it, with its entities"
        ) from None
    if builder.root is None:
        raise DocumentError(1, 1, "well-formed XML", "no element", "write a Table element")
    return Document(data, text, encoding, builder.root)
