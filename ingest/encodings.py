"""Texts that are not in UTF-8: turned into it before lines are cut, and back where the bytes that came are to be kept.

Each encoding here gives the same bytes again. What is no text in it becomes a surrogate, which UTF-8 does not have: the
row is refused as not in its encoding, and its own bytes still come back.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sparkhaven.ingest.bad_rows import MAX_PAYLOAD, BadRow
from sparkhaven.ingest.spec import UTF8
from sparkhaven.ingest.values.typed_rows import Refusal
from sparkhaven.store.errors import FeedError
from sparkhaven.store.quarantine.rejected_rows import Reason

ENCODINGS = {
    UTF8: UTF8,
    "latin-1": "iso8859-1",
    "iso-8859-1": "iso8859-1",
    "iso-8859-15": "iso8859-15",
    "windows-1250": "cp1250",
    "windows-1251": "cp1251",
    "windows-1252": "cp1252",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}
_REFUSING = {
    "windows-1250": Reason.NOT_WINDOWS_1250,
    "windows-1251": Reason.NOT_WINDOWS_1251,
    "windows-1252": Reason.NOT_WINDOWS_1252,
    "utf-16": Reason.NOT_UTF16,
    "utf-16le": Reason.NOT_UTF16LE,
    "utf-16be": Reason.NOT_UTF16BE,
}
"""Encodings that lack some bytes; in the others all bytes are text."""
_HALF = "\ud800"  # before a byte that is half a character; two surrogates that are a pair never come apart otherwise
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def utf8_chunks(chunks: Iterable[bytes], encoding: str, where: str) -> Iterator[bytes]:
    """Chunks of a file in UTF-8. FeedError if ``utf-16`` was said and the file has no byte order mark."""
    if encoding == UTF8:
        yield from chunks
        return
    name, head, decoder = ENCODINGS[encoding], b"", None
    for chunk in chunks:
        piece = chunk
        if decoder is None:
            head += chunk
            if name == "utf-16" and len(head) < 2:
                continue
            if name == "utf-16":
                name = _marked(head, where)
            decoder, piece = codecs.getincrementaldecoder(name)(_errors(name)), head
        text = decoder.decode(piece)
        if text:
            yield _utf8(text)
    rest = head if decoder is None else decoder.getstate()[0]
    if rest:
        yield to_utf8(rest, next(label for label, codec in ENCODINGS.items() if codec == name))


def line_feed(encoding: str, head: bytes) -> bytes:
    """The line feed of a file that begins with ``head``, which tells the order of bytes where the encoding does not."""
    name = ENCODINGS[encoding]
    return "\n".encode(_MARKS.get(head[:2], "utf-16-le") if name == "utf-16" else name)


def to_utf8(payload: bytes, encoding: str) -> bytes:
    """One payload in UTF-8. What is none in its encoding is no UTF-8 either."""
    name = ENCODINGS[encoding]
    if name == UTF8:
        return payload
    if name == "utf-16":
        name = _MARKS.get(payload[:2], "")
        if not name:
            return b"\xff" + payload if payload else b""
        payload = payload[2:]
    odd = payload[len(payload) - len(payload) % 2 :] if name.startswith("utf-16") else b""
    text = payload[: len(payload) - len(odd)].decode(name, _errors(name))
    return _utf8(text + "".join(_HALF + chr(0xDC00 + byte) for byte in odd))


def from_utf8(payload: bytes, encoding: str) -> bytes:
    """The bytes that ``to_utf8`` was given; those of ``utf-16`` have a byte order mark, and the low byte first."""
    name = ENCODINGS[encoding]
    if name == UTF8 or not payload:
        return payload
    if name == "utf-16" and payload.startswith(b"\xff"):
        return payload[1:]
    text = _whole(payload).decode(UTF8, "surrogatepass")
    if name == "utf-16":
        return codecs.BOM_UTF16_LE + _encoded(text, "utf-16-le")
    return _encoded(text, name)


def in_own_bytes(encoding: str, row: BadRow) -> BadRow:
    """A rejected row with its payload as it came, and the reason in terms of its encoding."""
    payload = from_utf8(row.payload or b"", encoding)
    size = len(payload) if row.size == len(row.payload or b"") else row.size
    return replace(reencoded(encoding, row), payload=payload[:MAX_PAYLOAD], size=size)


def reencoded(encoding: str, row: BadRow) -> BadRow:
    """The row with a reason that names its encoding where it named UTF-8."""
    if encoding not in _REFUSING or row.refusal.reason is not Reason.NOT_UTF8:
        return row
    return replace(row, refusal=Refusal(_REFUSING[encoding], f"text in {encoding}"))


def _marked(head: bytes, where: str) -> str:
    name = _MARKS.get(head[:2])
    if name is None:
        raise FeedError(
            "feed file has no byte order mark",
            where=where,
            expected='FF FE or FE FF at its beginning, since its encoding is "utf-16"',
            found=head[:2].hex(" ").upper(),
            hint='say encoding = "utf-16le" or "utf-16be" in [feed]',
        )
    return name


def _errors(name: str) -> str:
    return "surrogatepass" if name.startswith("utf-16") else "surrogateescape"


def _utf8(text: str) -> bytes:
    return text.encode(UTF8, "surrogatepass")


def _encoded(text: str, name: str) -> bytes:
    if name.startswith("utf-16") and text[-2:-1] == _HALF and 0xDC00 <= ord(text[-1]) <= 0xDCFF:
        return text[:-2].encode(name, "surrogatepass") + bytes([ord(text[-1]) - 0xDC00])
    return text.encode(name, _errors(name))


def _whole(payload: bytes) -> bytes:
    """The payload without a character that was cut at its end."""
    for back in range(1, min(4, len(payload)) + 1):
        byte = payload[-back]
        if byte & 0xC0 != 0x80:
            need = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return payload if need == back else payload[:-back]
    return payload
