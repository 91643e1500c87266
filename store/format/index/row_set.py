"""Row sets as bytes, as Deephaven's data indexes store them (class ``RowSetCodec`` of deephaven-core).

A set of row positions is a list of ranges in ascending order. Each range gives the distance of its first row from the
last position before it (from 0 at the beginning) and, if it has more than one row, the negated distance of its last
row from its first. A command is one byte, command and size of numbers combined, and a big-endian number of that size:

===========  =====================================    ====  =====================
command      content after the number                  size  number
===========  =====================================    ====  =====================
``08``       none: the number is one distance          1     2 bytes, ``i2``
``10``       that many distances of 2 bytes            2     4 bytes, ``i4``
``18``       that many distances of 1 byte             3     8 bytes, ``i8``
``20``       end of the set; a bare byte               4     1 byte, ``i1``
===========  =====================================    ====  =====================
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import CorruptFileError

Positions = npt.NDArray[np.int64]
OFFSET, SHORTS, BYTES, END = 0x08, 0x10, 0x18, 0x20
_NUMBERS = {1: struct.Struct(">h"), 2: struct.Struct(">i"), 3: struct.Struct(">q"), 4: struct.Struct(">b")}
ALONE = 32767  # a distance from here on is a command of its own


def encode_range(start: int, stop: int) -> bytes:
    if not 0 <= start < stop:
        raise ValueError(f"[{start}, {stop}) is not a range of rows")
    span = start + 1 - stop
    if span >= -128 and start <= 127 and span:
        return bytes((BYTES | 4, 2, start, span & 0xFF, END))
    if span and start < ALONE and -span < ALONE:
        return struct.pack(">BBhhB", SHORTS | 4, 2, start, span, END)
    return encode_command(OFFSET, start) + (encode_command(OFFSET, span) if span else b"") + bytes((END,))


def encode_command(command: int, number: int) -> bytes:
    kinds = ((4, 7), (1, 15), (2, 31), (3, 63))  # the narrowest first, each with the bits behind its sign
    kind = next(kind for kind, bits in kinds if -(1 << bits) <= number < 1 << bits)
    return bytes((command | kind,)) + _NUMBERS[kind].pack(number)


def decode_rows(data: bytes, where: object = "row set", rows: int | None = None) -> tuple[Positions, Positions]:
    """First rows, and rows after the last, of the ranges of any valid list of commands.

    ``rows`` of the location bounds the positions. CorruptFileError: an unknown command, no end, bytes after the end,
    distances that are no ranges, or a position beyond the location.
    """
    distances = _numbers(data, where)
    if not len(distances):
        return distances, distances
    if distances[0] < 0 or bool((distances[1:] == 0).any()) or bool(((distances[1:] < 0) & (distances[:-1] < 0)).any()):
        raise _wrong(
            "distances of a row set are not those of ranges",
            where,
            "first rows, each with one last row at most",
            "others",
        )
    positions = np.cumsum(np.abs(distances))
    ends = distances < 0
    starts = positions[~ends]
    stops = starts + 1
    stops[np.cumsum(~ends)[ends] - 1] = positions[ends] + 1
    if bool((positions < 0).any()) or (rows is not None and int(positions[-1]) >= rows):
        limit = "positions below 2^63" if rows is None else f"positions below {rows}"
        raise _wrong("a position of a row set is beyond the location", where, limit, int(positions.max()))
    return starts, stops


def _numbers(data: bytes, where: object) -> Positions:
    """All distances; raises for commands that are none."""
    parts: list[npt.NDArray[Any]] = []
    start = 0
    while True:
        if start >= len(data):
            raise _wrong("row set has no end", f"{where}, byte {start}", "command 20", "end of the bytes")
        byte = data[start]
        if byte == END:
            if start + 1 != len(data):
                raise _wrong(
                    "bytes follow the end of a row set", f"{where}, byte {start + 1}", "nothing", len(data) - start - 1
                )
            return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
        command, kind = byte & ~0x07, byte & 0x07
        if command not in (OFFSET, SHORTS, BYTES) or kind not in _NUMBERS:
            raise _wrong(
                "unknown command of a row set", f"{where}, byte {start}", "08, 10, 18 or 20, and a size", f"{byte:02x}"
            )
        number = _NUMBERS[kind]
        end = start + 1 + number.size
        count = int(number.unpack_from(data, start + 1)[0]) if end <= len(data) else -1
        if command == OFFSET and end <= len(data):
            parts.append(np.array([count], np.int64))
        else:
            width = 2 if command == SHORTS else 1
            if count < 0 or end + count * width > len(data):
                raise _wrong(
                    "row set is cut short",
                    f"{where}, byte {start}",
                    "the numbers of the command",
                    f"{len(data) - start} bytes",
                )
            parts.append(np.frombuffer(data, f">i{width}", count, end))
            end += count * width
        start = end


def _wrong(problem: str, where: object, expected: object, found: object) -> CorruptFileError:
    hint = "merge the date again with --rewrite, which writes its indexes again"
    return CorruptFileError(problem, where=where, expected=expected, found=found, hint=hint)
