"""RowSet: rows of an index, by ``RowSetCodec`` of deephaven-core, as Deephaven's data indexes store them.

Arrow has no type for a set of rows. So values are their bytes, and bytes that are no row set are refused.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.types.codings.byte_array import ByteArrays
from sparkhaven.store.types.codings.coding import Ends, Mask, some

Positions = npt.NDArray[np.int64]
OFFSET, SHORTS, BYTES, END = 0x08, 0x10, 0x18, 0x20
_NUMBERS = {1: struct.Struct(">h"), 2: struct.Struct(">i"), 3: struct.Struct(">q"), 4: struct.Struct(">b")}
_WIDTHS = {  # size of the number of a command, and of those that it counts; 0: the number is all there is
    command | kind: (number.size, width)
    for command, width in ((OFFSET, 0), (SHORTS, 2), (BYTES, 1))
    for kind, number in _NUMBERS.items()
}
_ALONE = {OFFSET | kind: number.size + 2 for kind, number in _NUMBERS.items()}  # bytes of a set of one row
ALONE = 32767  # a distance from here on is a command of its own
BYTE_RUN = 4  # distances of one byte in a row that are worth a command of their own
FEW = 64  # distances that plain Python writes sooner than numpy


def encode_rows(starts: Positions, stops: Positions) -> bytes:
    """The bytes of the set of rows ``[starts[i], stops[i])``, ranges that ascend and neither touch nor are empty.

    The narrowest numbers are used. Raises ValueError for other ranges.
    """
    return encode_sets(starts, stops, np.array([0, len(starts)], np.int64))[0]


def encode_sets(starts: Positions, stops: Positions, bounds: Positions) -> list[bytes]:
    """The bytes of several sets: set ``i`` has the ranges from ``bounds[i]`` up to ``bounds[i + 1]``."""
    firsts = bounds[:-1][bounds[:-1] < len(stops)]
    before = np.concatenate((np.zeros(min(1, len(stops)), np.int64), stops[:-1]))
    before[firsts] = -1
    if bool((starts <= before).any() or (stops <= starts).any()):
        raise ValueError("ranges of a row set do not ascend, or are not ranges of rows")
    before -= 1
    before[firsts] = 0
    pairs = np.stack((starts - before, starts - (stops - 1)), axis=1)
    kept = np.ones_like(pairs, np.bool_)
    kept[:, 1] = pairs[:, 1] != 0
    distances = pairs[kept]
    edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept.sum(axis=1))))[bounds]
    return [_encoded(distances[low:high]) for low, high in pairwise(edges.tolist())]


def _encoded(distances: Positions) -> bytes:
    parts: list[bytes] = []
    first = 0
    for alone in np.flatnonzero(np.abs(distances) >= ALONE).tolist():
        _queue(distances[first:alone], parts)
        parts.append(encode_command(OFFSET, int(distances[alone])))
        first = alone + 1
    _queue(distances[first:], parts)
    return b"".join([*parts, bytes((END,))])


def _queue(distances: Positions, parts: list[bytes]) -> None:
    """Commands for distances below ``ALONE``: long runs of small ones as bytes, others as shorts."""
    if len(distances) < 2:
        _array(SHORTS, distances, parts)
        return
    first = 0
    for start, stop in _narrow_runs(distances):
        last = stop == len(distances)
        if stop - start >= BYTE_RUN or (last and (stop - start >= 2 or start == first)):
            _array(SHORTS, distances[first:start], parts)
            _array(BYTES, distances[start:stop], parts)
            first = stop
    _array(SHORTS, distances[first:], parts)


def _narrow_runs(distances: Positions) -> Sequence[tuple[int, int]]:
    """Runs of distances that one byte holds."""
    if len(distances) > FEW:
        narrow = (distances >= -(2**7)) & (distances < 2**7)
        edges = np.flatnonzero(np.diff(narrow.astype(np.int8), prepend=0, append=0))
        return [(start, stop) for start, stop in edges.reshape(-1, 2).tolist()]
    runs, start = [], -1
    for index, distance in enumerate(distances.tolist()):
        if -128 <= distance < 128:
            start = index if start < 0 else start
        elif start >= 0:
            runs.append((start, index))
            start = -1
    return runs if start < 0 else [*runs, (start, len(distances))]


def _array(command: int, numbers: Positions, parts: list[bytes]) -> None:
    if len(numbers) == 1:
        parts.append(encode_command(OFFSET, int(numbers[0])))
    elif len(numbers):
        parts.append(
            encode_command(command, len(numbers)) + numbers.astype(">i2" if command == SHORTS else ">i1").tobytes()
        )


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


def decode_sets(
    sets: Sequence[bytes], locate: Callable[[int], object], rows: int
) -> tuple[Positions, Positions, Positions]:
    """The ranges of several sets, one behind the other, and how many each has; raises as ``decode_rows``.

    ``locate(index)``: what errors name as the place of a set. Sets of one row, as keys that are unique have, are read
    without numpy.
    """
    pairs: list[tuple[Positions, Positions]] = []
    counts = np.ones(len(sets), np.int64)
    single: list[int] = []  # rows of the sets since the last other one

    def flush() -> None:
        if single:
            starts = np.array(single, np.int64)
            pairs.append((starts, starts + 1))
            single.clear()

    for index, data in enumerate(sets):
        if len(data) > 2 and _ALONE.get(data[0]) == len(data) and data[-1] == END:
            row = int.from_bytes(data[1:-1], "big", signed=True)
            if 0 <= row < rows:
                single.append(row)
                continue
        flush()
        pairs.append(decode_rows(data, locate(index), rows))
        counts[index] = len(pairs[-1][0])
    flush()
    starts, stops = ([pair[side] for pair in pairs] or [np.empty(0, np.int64)] for side in (0, 1))
    return np.concatenate(starts), np.concatenate(stops), counts


def _numbers(data: bytes, where: object) -> Positions:
    """All distances; raises for commands that are none. Commands are read one by one, their numbers all at once."""
    firsts: list[int] = []  # where the numbers of a command begin
    counts: list[int] = []
    widths: list[int] = []
    start, size = 0, len(data)
    while True:
        if start >= size:
            raise _wrong("row set has no end", f"{where}, byte {start}", "command 20", "end of the bytes")
        byte = data[start]
        if byte == END:
            if start + 1 != size:
                raise _wrong(
                    "bytes follow the end of a row set", f"{where}, byte {start + 1}", "nothing", size - start - 1
                )
            return _gathered(data, firsts, counts, widths)
        form = _WIDTHS.get(byte)
        if form is None:
            raise _wrong(
                "unknown command of a row set", f"{where}, byte {start}", "08, 10, 18 or 20, and a size", f"{byte:02x}"
            )
        number_size, width = form
        end = start + 1 + number_size
        if width == 0:  # the number itself
            firsts.append(start + 1)
            counts.append(1)
            widths.append(number_size)
            count = 0 if end <= size else -1
        else:
            count = int.from_bytes(data[start + 1 : end], "big", signed=True) if end <= size else -1
            firsts.append(end)
            counts.append(count)
            widths.append(width)
            end += count * width
        if count < 0 or end > size:
            raise _wrong(
                "row set is cut short",
                f"{where}, byte {start}",
                "the numbers of the command",
                f"{size - start} bytes",
            )
        start = end


def _gathered(data: bytes, firsts: list[int], counts: list[int], widths: list[int]) -> Positions:
    """Big-endian numbers: of each command ``count`` of a width from ``first`` on."""
    octets, signed = np.frombuffer(data, np.uint8), np.frombuffer(data, np.int8)
    lengths, sizes = np.array(counts, np.int64), np.array(widths, np.int64)
    before = np.cumsum(lengths) - lengths
    width = np.repeat(sizes, lengths)
    offsets = np.repeat(np.array(firsts, np.int64), lengths)
    offsets += (np.arange(len(offsets)) - np.repeat(before, lengths)) * width
    numbers: Positions = signed[offsets].astype(np.int64)
    for step in range(1, int(sizes.max(initial=0))):
        longer = np.flatnonzero(width > step)
        numbers[longer] = numbers[longer] << 8 | octets[offsets[longer] + step]
    return numbers


def _wrong(problem: str, where: object, expected: object, found: object) -> CorruptFileError:
    return CorruptFileError(problem, where=where, expected=expected, found=found)


def coding(codec: str, arguments: str, width: int | None) -> RowSets:
    """By the codec's simple name; ValueError says what is expected instead."""
    if codec != "RowSetCodec" or arguments or width is not None:
        raise ValueError("RowSetCodec without arguments")
    return RowSets()


@dataclass(frozen=True, slots=True)
class RowSets(ByteArrays):
    """The bytes of row sets."""

    domain = "the bytes of a row set, which texts write in base64"

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Bytes that are no row set."""
        return _no_row_sets(array)

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """binary; bytes that are no row set are bad."""
        array, _ = ByteArrays.decode(self, ends, data)
        return array, _no_row_sets(array)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of bytes of any kind."""
        values, _ = ByteArrays.convert(self, array)
        return values, _no_row_sets(values)


def _is_row_set(data: bytes) -> bool:
    try:
        decode_rows(data)
    except CorruptFileError:
        return False
    return True


def _no_row_sets(array: pa.Array) -> Mask | None:
    return some(np.array([data is not None and not _is_row_set(data) for data in array.to_pylist()], np.bool_))
