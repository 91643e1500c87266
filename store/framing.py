"""Framed records: canonical JSON in frames with checksums, one after another in a log, or one a file.

Canonical JSON: the same object is the same bytes, always. Standard JSON has no NaN and no infinities: they become
texts. A frame, little-endian:

=======  =====  ===========================================================================
offset   bytes  meaning
=======  =====  ===========================================================================
0        8      magic; its last digit before the line feed is the version
8        8      u8, a number that the kind of file defines (log: base epoch)
16       4      u4, length of the payload, at least 2
20       4      u4, CRC-32 (zlib) of the payload
24       n      payload: one JSON object in canonical form (ASCII, keys sorted, no white space);
                behind a line feed there may be packed bytes
24 + n   ...    the next frame
=======  =====  ===========================================================================

*Writer.* A frame is written by one positioned write at the committed end of the file, then synced. *Reader.* Frames
are read up to the first one that is cut short, has length below 2 or a wrong checksum. If no sound frame follows, it is
a torn tail, which was never acknowledged. If one follows, the file is damaged: every payload starts with ``{"``, so a
reader searches for these bytes and tries the eight bytes before as a frame header.

A file that is one record (``RecordKind``) has a header, and one frame to the end of the file. The number of the header
is a field of the record too. Such a file is replaced as a whole, never appended to.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sparkhaven.store.errors import CorruptFileError, InvalidNameError, UnsupportedVersionError

T = TypeVar("T")
BEHIND = b"\n"  # canonical JSON has none
# what decoding raises for JSON of another form, an infinite number for a whole one included
BROKEN = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, struct.error)

HEADER = struct.Struct("<8sQ")
FRAME = struct.Struct("<II")
LOG_MAGIC = b"SHVLOG2\n"
CHECKPOINT_MAGIC = b"SHVCKP3\n"
REMOVALS_MAGIC = b"SHVREM2\n"
HEAD_MAGIC = b"SHVHED3\n"
PIECE = 1 << 20
_OPENING = b'{"'
Crc32 = Callable[[bytes | memoryview, int], int]
"""Of bytes behind others, whose CRC-32 is given."""


def finite(value: object) -> object:
    """The value with texts for numbers that are not finite, also within dicts and lists."""
    if isinstance(value, dict):
        return {key: finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [finite(child) for child in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def load(payload: bytes, where: object) -> dict[str, Any]:
    """The JSON object of a payload; anything else is a CorruptFileError."""
    try:
        value = json.loads(written(payload))
    except ValueError as error:
        raise CorruptFileError("record is not JSON", where=where, expected="JSON", found=error) from error
    if not isinstance(value, dict):
        raise CorruptFileError("record is not a JSON object", where=where, expected="{...}", found=type(value).__name__)
    return value


def written(payload: bytes) -> bytes:
    """The JSON of a payload, without what is packed behind it."""
    end = payload.find(BEHIND)
    return payload if end < 0 else payload[:end]


@dataclass(frozen=True, slots=True)
class Frame:
    """A payload with the offset of its frame and of the byte after it."""

    offset: int
    end: int
    payload: bytes


class ByteSource(Protocol):
    """A source of bytes; ``read`` returns fewer at the end."""

    @property
    def size(self) -> int: ...
    def read(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of a file from an offset on: where sound frames ``end``, the number of bytes after them, and sound
    frames among those, each up to its line feed. ``last``: offset of the last sound frame, and its length and checksum
    (empty if there is none).
    """

    end: int
    rest: int
    beyond: tuple[Frame, ...]
    last: tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Scan:
    """Sound frames from the start, the offset where they ``end``, bytes after that, sound frames among those."""

    frames: tuple[Frame, ...]
    end: int
    rest: int
    beyond: tuple[Frame, ...]


def header(magic: bytes, number: int) -> bytes:
    return HEADER.pack(magic, number)


def frame(payload: bytes) -> bytes:
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def read_header(data: bytes | memoryview, magic: bytes, where: object) -> int:
    """The number in the header; CorruptFileError: another kind of file, UnsupportedVersionError: another version."""
    if len(data) < HEADER.size:
        raise CorruptFileError(
            "file ends inside its header", where=where, expected=f"{HEADER.size} bytes", found=f"{len(data)} bytes"
        )
    stored_magic, number = HEADER.unpack_from(data)
    if stored_magic != magic:
        same = stored_magic[:6] == magic[:6] and stored_magic[7:] == magic[7:]
        kind = UnsupportedVersionError if same else CorruptFileError
        raise kind("file starts with other bytes", where=f"{where} at byte 0", expected=magic, found=stored_magic)
    return int(number)


def frame_at(data: bytes | memoryview, offset: int, size: int | None = None) -> Frame | None:
    """The frame that begins there, of ``size`` bytes where that is known; None where its checksum does not hold."""
    sound = _frame_at(data, offset) if offset >= 0 else None
    return None if sound is None or size not in (None, sound.end - sound.offset) else sound


def scan(data: bytes, start: int = HEADER.size) -> Scan:
    """Every frame from ``start``; never raises, the caller checks ``rest`` and ``beyond``."""
    frames: list[Frame] = []
    offset = start
    while (sound := _frame_at(data, offset)) is not None:
        frames.append(sound)
        offset = sound.end
    return Scan(tuple(frames), offset, len(data) - offset, _beyond(data, offset))


def walk(source: ByteSource, start: int = HEADER.size) -> Iterator[Frame]:
    """Sound frames from ``start`` to the first damage or the end; holds one of them, and ``PIECE`` bytes, at a time."""
    for offset, end, payload in _bounds(source, start, zlib.crc32):
        yield Frame(offset, end, payload or source.read(offset + FRAME.size, end - offset - FRAME.size))


def survey(source: ByteSource, start: int = HEADER.size, crc32: Crc32 = zlib.crc32) -> Survey:
    """Reads every frame from ``start``; never raises, the caller checks the result. ``crc32``: as that of zlib."""
    end, last = start, None
    for offset, stop, _ in _bounds(source, start, crc32):
        end, last = stop, offset
    return _ending(source, end, last)


def _bounds(source: ByteSource, start: int, crc32: Crc32) -> Iterator[tuple[int, int, bytes]]:
    """Where sound frames begin and end, and the payload of one that is held as a whole; of a longer one nothing.

    Holds ``PIECE`` bytes at a time, however long a frame is.
    """
    piece, base, offset = b"", start, start
    while True:
        if offset + FRAME.size > base + len(piece):
            piece, base = source.read(offset, PIECE), offset
            if len(piece) < FRAME.size:
                return
        length, expected = FRAME.unpack_from(piece, offset - base)
        position, computed = offset + FRAME.size, 0
        end = position + length
        if length < len(_OPENING) or end > source.size:
            return
        while position < end:
            if position >= base + len(piece):
                piece, base = source.read(position, PIECE), position
                if not piece:
                    return
            stop = min(end, base + len(piece))
            computed = crc32(memoryview(piece)[position - base : stop - base], computed)
            position = stop
        if computed != expected:
            return
        held = offset + FRAME.size - base
        yield offset, end, bytes(piece[held : end - base]) if held >= 0 else b""
        offset = end


def ending(source: ByteSource, end: int, last: Frame | None) -> Survey:
    """What comes after the last sound frame."""
    return _ending(source, end, last.offset if last else None)


def _ending(source: ByteSource, end: int, last: int | None) -> Survey:
    mark = (HEADER.size, b"") if last is None else (last, bytes(source.read(last, FRAME.size)))
    rest = source.size - end
    beyond = () if rest <= FRAME.size else _beyond(source.read(end, rest), 0)
    sound = (Frame(f.offset + end, f.end + end, f.payload.partition(b"\n")[0]) for f in beyond)
    return Survey(end, rest, tuple(sound), mark)


def refuse_damage(survey: Scan | Survey, where: object) -> None:
    """CorruptFileError: sound frames follow the damaged one."""
    if survey.beyond:
        raise CorruptFileError(
            "a record before the last one is damaged",
            where=f"{where} at byte {survey.end}",
            expected="a frame whose checksum holds",
            found=f"damage, then {len(survey.beyond)} sound records from byte {survey.beyond[0].offset}",
            hint="restore the file from a copy. Nothing was changed or deleted",
        )


def _frame_at(data: bytes | memoryview, offset: int) -> Frame | None:
    end = _end_of(data, offset)
    return None if end is None else Frame(offset, end, bytes(data[offset + FRAME.size : end]))


def _end_of(data: bytes | memoryview, offset: int) -> int | None:
    """The end of the sound frame that begins there."""
    if offset + FRAME.size > len(data):
        return None
    length, crc = FRAME.unpack_from(data, offset)
    start = offset + FRAME.size
    end: int = start + length
    if length < len(_OPENING) or end > len(data) or zlib.crc32(memoryview(data)[start:end]) != crc:
        return None
    return end


def _beyond(data: bytes, start: int) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    position = data.find(_OPENING, start + FRAME.size)
    while position >= 0:
        sound = _frame_at(data, position - FRAME.size)
        if sound is not None:
            frames.append(sound)
            position = sound.end
        else:
            position += 1
        position = data.find(_OPENING, position)
    return tuple(frames)


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
