"""``.tlmi``: the location index of one historical table.

Plain big-endian records: magic, version, count, entries. Version 1 has no format text. We write version 2, sorted by
value and internal partition, by atomic replace and only after the data are in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from sparkhaven.store import next_steps
from sparkhaven.store.errors import CorruptFileError, InvalidNameError, UnsupportedVersionError
from sparkhaven.store.format.java.object_writer import utf
from sparkhaven.store.layout import LocationKey, check_partition
from sparkhaven.store.types.codings import modified_utf8

MAGIC = 0xDB2BB2DB
VERSIONS = (1, 2)
DEEPHAVEN, PARQUET = "DEEPHAVEN", "PARQUET"
UNKNOWN_ROWS = -(2**63)

_HEAD = Struct(">Iii")
_TAIL = Struct(">qq")
_LENGTH = Struct(">H")
_SMALLEST = {1: 20, 2: 22}


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One location: ``rows``, or UNKNOWN_ROWS; ``modified_ms`` since the epoch."""

    key: LocationKey
    rows: int
    modified_ms: int
    format: str = DEEPHAVEN


def encode_tlmi(entries: Iterable[IndexEntry]) -> bytes:
    """The file's content, version 2; the same entries in any order give the same bytes."""
    ordered = sorted(entries, key=lambda entry: (entry.key.value, entry.key.internal))
    out = bytearray(_HEAD.pack(MAGIC, 2, len(ordered)))
    for entry in ordered:
        out += utf(entry.key.internal) + utf(entry.key.value) + utf(entry.format)
        out += _TAIL.pack(entry.rows, entry.modified_ms)
    return bytes(out)


class _Parser:
    def __init__(self, data: bytes, where: object) -> None:
        self.data = data
        self.where = where
        self.pos = 0

    def fail(self, fault: str, *, expected: object, found: object) -> CorruptFileError:
        return CorruptFileError(fault, where=f"{self.where}, byte {self.pos}", expected=expected, found=found)

    def take(self, count: int) -> bytes:
        part = self.data[self.pos : self.pos + count]
        if len(part) != count:
            raise self.fail("location index is cut short", expected=f"{count} more bytes", found=f"{len(part)} bytes")
        self.pos += count
        return part

    def text(self) -> str:
        length = _LENGTH.unpack(self.take(2))[0]
        try:
            return modified_utf8.decode(self.take(length))
        except ValueError as error:
            raise self.fail("text is not modified UTF-8", expected="modified UTF-8", found=str(error)) from None

    def entries(self, count: int, *, with_format: bool) -> list[IndexEntry]:
        entries: dict[LocationKey, IndexEntry] = {}
        for _ in range(count):
            internal, value = self.text(), self.text()
            try:
                key = LocationKey(
                    check_partition("internal partition", internal), check_partition("partition value", value)
                )
            except InvalidNameError as error:
                what = "name in the location index is not a valid directory name"
                raise self.fail(what, expected=error.expected, found=error.found) from None
            kind = self.text() if with_format else DEEPHAVEN
            if kind not in (DEEPHAVEN, PARQUET):
                raise UnsupportedVersionError(
                    "unknown format in the location index",
                    where=f"{self.where}, byte {self.pos}",
                    expected=f"{DEEPHAVEN} or {PARQUET}",
                    found=repr(kind),
                    hint=next_steps.damaged(self.where),
                )
            rows, modified = _TAIL.unpack(self.take(_TAIL.size))
            if rows < 0 and rows != UNKNOWN_ROWS:
                raise self.fail("negative row count", expected=f"0 or more, or {UNKNOWN_ROWS}", found=rows)
            if key in entries:
                raise self.fail(
                    "duplicate location in the location index", expected="each once", found=f"{internal}/{value}"
                )
            entries[key] = IndexEntry(key, rows, modified, kind)
        if self.pos != len(self.data):
            raise self.fail(
                "bytes after the last entry", expected="the end", found=f"{len(self.data) - self.pos} bytes"
            )
        return list(entries.values())


def decode_tlmi(data: bytes, where: object, *, keep_empty: bool = False) -> list[IndexEntry]:
    """The entries in file order; those without rows, or with an unknown number, only with ``keep_empty``.

    Damage is a CorruptFileError, another version or format text an UnsupportedVersionError.
    """
    parser = _Parser(data, where)
    magic, version, count = _HEAD.unpack(parser.take(_HEAD.size))
    if magic != MAGIC:
        parser.pos = 0
        raise parser.fail("file is not a location index", expected=f"{MAGIC:08X}", found=f"{magic:08X}")
    if version not in VERSIONS:
        raise UnsupportedVersionError(
            "location index has an unknown version",
            where=f"{where}, byte 4",
            expected="1 or 2",
            found=version,
            hint=next_steps.damaged(where),
        )
    room = len(data) - _HEAD.size
    if not 0 <= count <= room // _SMALLEST[version]:
        parser.pos = 8
        raise parser.fail("invalid entry count", expected=f"0 to {room // _SMALLEST[version]}", found=count)
    start = parser.pos
    try:
        entries = parser.entries(count, with_format=version == 2)
    except CorruptFileError:
        if version == 2:
            raise
        try:  # one public writer put the format text into version 1 too
            second = _Parser(data, where)
            second.pos = start
            entries = second.entries(count, with_format=True)
        except (CorruptFileError, UnsupportedVersionError):
            entries = []
        if not entries:
            raise
    return [entry for entry in entries if keep_empty or entry.rows > 0]
