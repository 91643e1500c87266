"""String[]: each value a Java stream of its own, with the texts in modified UTF-8.

The stream begins as those of ``codings.java_array``. A text is ``74`` with its length in two bytes, or ``7C`` with it
in eight, above 65,535; ``70`` is null; ``71 007E0002`` and up is a text that came before in the value, by its number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkhaven.store.types.codings import modified_utf8
from sparkhaven.store.types.codings.coding import BlobCoding, Unfit, UnfitError

HEAD = b"\xac\xed\x00\x05ur\x00\x13[Ljava.lang.String;" + struct.pack(">Q", 0xADD256E7E91D7B47) + b"\x02\x00\x00xp"
NULL, REFERENCE, STRING, LONG_STRING = 0x70, 0x71, 0x74, 0x7C
FIRST_TEXT = 0x7E0002  # handles before it: the class, the array
SHORT = 0xFFFF


def coding(codec: str, arguments: str, width: int | None) -> StringArrays:
    """Without a codec; ValueError says so."""
    if codec or arguments or width is not None:
        raise ValueError("String[] without a codec")
    return StringArrays()


@dataclass(frozen=True, slots=True)
class StringArrays(BlobCoding):
    """Arrays of texts, null among them."""

    arrow = pa.list_(pa.string())
    domain = "an array of texts"
    sources = {"nested": "checked"}
    json = "array"

    def parse(self, text: str) -> Any:
        """No text writes an array."""
        raise UnfitError(Unfit.NO_VALUE, self.domain)

    def from_json(self, value: Any) -> Any:
        """Of a list of texts and null."""
        if not isinstance(value, list) or not all(item is None or isinstance(item, str) for item in value):
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        try:
            for item in value:
                (item or "").encode()
        except UnicodeEncodeError:
            raise UnfitError(Unfit.NO_VALUE, "an array of texts without lone surrogates") from None
        return value

    def unstorable(self, array: pa.Array) -> None:
        """Every array of texts can be stored."""

    def encode_one(self, value: list[str | None]) -> bytes:
        """Of texts."""
        return encoded_texts(value)

    def decode_one(self, value: bytes) -> list[str | None]:
        """Texts; a stream of anything else is bad."""
        return decoded_texts(value)


def encoded_texts(texts: list[str | None]) -> bytes:
    """The stream of one array; each text in full, as Java writes texts that are not one object."""
    out = bytearray(HEAD + struct.pack(">i", len(texts)))
    for text in texts:
        if text is None:
            out.append(NULL)
            continue
        data = modified_utf8.encode(text)
        out += (
            struct.pack(">BH", STRING, len(data)) if len(data) <= SHORT else struct.pack(">BQ", LONG_STRING, len(data))
        )
        out += data
    return bytes(out)


def decoded_texts(stream: bytes) -> list[str | None]:
    """The texts of a stream; ValueError, IndexError or struct.error where it is none of an array of texts."""
    if not stream.startswith(HEAD):
        raise ValueError("not a stream of String[]")
    (count,), position = struct.unpack_from(">i", stream, len(HEAD)), len(HEAD) + 4
    if not 0 <= count <= len(stream) - position:
        raise ValueError("length beyond the value")
    texts: list[str | None] = []
    known: list[str] = []
    for _ in range(count):
        tag = stream[position]
        position += 1
        if tag == NULL:
            texts.append(None)
        elif tag == REFERENCE:
            (handle,) = struct.unpack_from(">i", stream, position)
            if handle < FIRST_TEXT:
                raise ValueError("reference to no text")
            texts.append(known[handle - FIRST_TEXT])
            position += 4
        elif tag in (STRING, LONG_STRING):
            form = ">H" if tag == STRING else ">Q"
            (length,), position = struct.unpack_from(form, stream, position), position + struct.calcsize(form)
            if length > len(stream) - position:
                raise ValueError("text beyond the value")
            text = modified_utf8.decode(stream[position : position + length])
            text.encode()  # ValueError: a lone surrogate, which Arrow does not hold
            known.append(text)
            texts.append(text)
            position += length
        else:
            raise ValueError(f"tag {tag:02x}")
    if position != len(stream):
        raise ValueError("bytes after the array")
    return texts
