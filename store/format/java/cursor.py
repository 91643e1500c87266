"""A position in a Java object stream: numbers, texts and bytes, with errors that name the byte."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from sparkhaven.store.errors import CorruptFileError, UnsupportedVersionError
from sparkhaven.store.types.codings import modified_utf8

HINT = (
    "run `sparkhaven verify --deep`, which says what is affected. Restore the file from a copy, or rebuild the location"
)
FOREIGN = "run `sparkhaven verify`. Read the file with the program that wrote it, or with a newer release"
U2 = Struct(">H")


class StreamCursor:
    """Reads elements of ``data`` one after the other from ``pos``; ``where`` names the file in errors."""

    def __init__(self, data: bytes, where: object) -> None:
        self.data, self.where, self.pos = data, where, 0

    def fail(self, fault: str, offset: int, *, expected: object, found: object) -> CorruptFileError:
        return CorruptFileError(fault, where=f"{self.where}, byte {offset}", expected=expected, found=found, hint=HINT)

    def _cut(self, offset: int, needed: int) -> CorruptFileError:
        return self.fail(
            "Java stream ends inside an element",
            offset,
            expected=f"{needed} more bytes" if needed >= 0 else "a non-negative length",
            found=f"{max(0, len(self.data) - offset)} bytes left",
        )

    def _unknown(self, name: str, offset: int) -> UnsupportedVersionError:
        return UnsupportedVersionError(
            f"Java class {name!r} is not allowed in this file",
            where=f"{self.where}, byte {offset}",
            expected="a class of the format reference",
            found=name,
            hint=FOREIGN,
        )

    def _bytes(self, count: int) -> bytes:
        start = self.pos
        if count < 0 or count > len(self.data) - start:
            raise self._cut(start, count)
        self.pos = start + count
        return self.data[start : self.pos]

    def _number(self, layout: Struct) -> Any:
        try:
            value = layout.unpack_from(self.data, self.pos)[0]
        except StructError:
            raise self._cut(self.pos, layout.size) from None
        self.pos += layout.size
        return value

    def _tag(self) -> int:
        if self.pos >= len(self.data):
            raise self._cut(self.pos, 1)
        self.pos += 1
        return self.data[self.pos - 1]

    def _text(self, count: int) -> str:
        start = self.pos
        data = self._bytes(count)
        try:
            return modified_utf8.decode(data)
        except ValueError as error:
            raise self.fail("text is not modified UTF-8", start, expected="modified UTF-8", found=str(error)) from None

    def _utf(self) -> str:
        return self._text(self._number(U2))
