"""Files that are one record: header, and one frame to the end of the file, whose payload is a JSON object.

The number of the header is a field of the record too. A file is replaced as a whole, never appended to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkhaven.store.errors import CorruptFileError, InvalidNameError
from sparkhaven.store.framing.canonical import BROKEN, dump, load
from sparkhaven.store.framing.log_frames import HEADER, frame, header, read_header, scan

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordKind:
    """``title``: what it is called. ``number``: the attribute of a record that has the number of the header.

    ``todo``: what to do about a damaged one, with a place for its path.
    """

    magic: bytes
    title: str
    number: str
    todo: str

    def encode(self, number: int, content: Mapping[str, Any]) -> bytes:
        """The bytes of a file; the same content gives the same bytes."""
        return header(self.magic, number) + frame(dump(content))

    def decode(self, data: bytes, where: object, made_of: Callable[[Mapping[str, Any]], T]) -> T:
        """The record that ``made_of`` makes of the content of a file.

        CorruptFileError: it is damaged, or ``made_of`` finds other content. UnsupportedVersionError: a later release
        has written it.
        """
        number, scanned = read_header(data, self.magic, where), scan(data)
        if len(scanned.frames) != 1 or scanned.rest:
            expected = "one frame whose checksum holds, to the end of the file"
            there = f"{len(scanned.frames)} frames, then {scanned.rest} bytes"
            raise self.damaged("is cut short or damaged", where, expected, there)
        try:
            record = made_of(load(scanned.frames[0].payload, where))
        except (*BROKEN, InvalidNameError) as error:
            raise self.damaged("has other content", where, "its fields", repr(error)) from error
        own = getattr(record, self.number)
        if own != number:
            raise self.damaged("contradicts itself", where, number, own)
        return record

    def damaged(self, fault: str, where: object, expected: object, found: object) -> CorruptFileError:
        """The error of a damaged file."""
        return CorruptFileError(
            f"{self.title} {fault}",
            where=f"{where} at byte {HEADER.size}",
            expected=expected,
            found=found,
            hint=self.todo.format(where),
        )
