"""Instant[]: each value a Java stream of its own, in which an element is an object of ``java.time.Ser``.

The stream begins as those of ``codings.java_array``. The first element that is not null is ``73``, the description of
the class and 16 bytes: ``77 0D 02``, seconds since 1970 in eight bytes, nanoseconds in four, ``78``. Later ones are
``73 71 007E0002`` and such bytes; ``70`` is null; ``71 007E0003`` and up is an element that came before, by its number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.store.types.codings.byte_array import binary_parts
from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Ends,
    Mask,
    Octets,
    Unfit,
    UnfitError,
    large_binary,
    list_elements,
    lists_with,
    numbers_as,
    some,
    validity,
)

CLASS = b"[Ljava.time.Instant;"
HEAD = b"\xac\xed\x00\x05ur\x00\x14" + CLASS + struct.pack(">Q", 0x7B94DF453B29B54F) + b"\x02\x00\x00xp"
FIRST = b"sr\x00\x0djava.time.Ser" + struct.pack(">Q", 0x955D84BA1B2248B2) + b"\x0c\x00\x00xp"
LATER = b"sq\x00\x7e\x00\x02"
NULL, REFERENCE = 0x70, 0x71
FIRST_HANDLE = 0x7E0003  # before it: the class of the array, the array, the class of elements
VALUE = struct.Struct(">3sqi1s")
VALUE_START, VALUE_END = b"w\x0d\x02", b"x"
FRONT = len(HEAD) + 4
SECOND = 1_000_000_000
INSTANT_NULL = -(2**63)


def coding(codec: str, arguments: str, width: int | None) -> InstantArrays:
    """Without a codec; ValueError says so."""
    if codec or arguments or width is not None:
        raise ValueError("Instant[] without a codec")
    return InstantArrays()


@dataclass(frozen=True, slots=True)
class InstantArrays(BlobCoding):
    """Arrays of instants, null among them."""

    arrow = pa.list_(pa.timestamp("ns", "UTC"))
    domain = "an array of instants"
    sources = {"nested": "checked"}
    elements = "Instant"
    json = "array"

    def parse(self, text: str) -> Any:
        """No text writes an array."""
        raise UnfitError(Unfit.NO_VALUE, self.domain)

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Lists with an element equal to the null value of an Instant."""
        starts, elements, null = _elements(array)
        return lists_with(starts, (elements == INSTANT_NULL) & ~null)

    def encode(self, array: pa.Array) -> tuple[Ends, Octets, Mask | None]:
        """``array``: a list of instants."""
        starts, elements, null = _elements(array)
        ends, data = _encoded(starts, elements, null)
        none = np.asarray(array.is_null()) if array.null_count else None
        counts = large_binary(
            np.arange(len(starts), dtype=np.int64) * 4, np.diff(starts).astype(">i4").view(np.uint8), none
        )
        values = large_binary(ends[starts], data, None)
        head, between = (pa.scalar(part, pa.large_binary()) for part in (HEAD, b""))
        whole, out = binary_parts(pc.binary_join_element_wise(head, counts, values, between))
        return whole[1:], out[: whole[-1]], lists_with(starts, (elements == INSTANT_NULL) & ~null)

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """A list of instants; a stream of anything else, or an instant beyond the years 1677 to 2262, is bad."""
        octets = np.frombuffer(data, np.uint8) if data.size else np.empty(0, np.uint8)
        starts, sizes = ends[:-1], np.diff(ends)
        none, bad = sizes == 0, np.zeros(len(sizes), np.bool_)
        lengths = np.zeros(len(sizes), np.int64)
        taken = none.copy()
        likely = np.flatnonzero(sizes >= FRONT)
        heads = octets[starts[likely, None] + np.arange(FRONT)] if len(likely) else np.empty((0, FRONT), np.uint8)
        alike = (heads[:, : len(HEAD)] == np.frombuffer(HEAD, np.uint8)).all(axis=1)
        counts = np.ascontiguousarray(heads[:, len(HEAD) :]).view(">i4").reshape(-1).astype(np.int64)
        plain = alike & (counts >= 0) & (sizes[likely] == _size(counts))
        rows = likely[plain]
        lengths[rows] = counts[plain]
        values, odd = _plain_elements(octets, starts[rows], lengths[rows])
        taken[rows[~odd]] = True
        parsed: dict[int, list[int | None]] = {}
        for row in np.flatnonzero(~taken).tolist():
            try:
                parsed[row] = decoded_instants(octets[starts[row] : ends[row + 1]].tobytes())
            except (ValueError, IndexError, struct.error):
                parsed[row], bad[row] = [], True
            lengths[row] = len(parsed[row])
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        numbers, null = np.zeros(int(offsets[-1]), np.int64), np.zeros(int(offsets[-1]), np.bool_)
        whole = np.zeros(len(sizes), np.bool_)
        whole[rows[~odd]] = True
        numbers[np.repeat(whole, lengths)] = values
        for row, instants in parsed.items():
            part = slice(int(offsets[row]), int(offsets[row + 1]))
            numbers[part] = [instant or 0 for instant in instants]
            null[part] = [instant is None for instant in instants]
        bitmap, missing = validity(none)
        buffers = [bitmap, pa.py_buffer(offsets.astype(np.int32))]
        children = [numbers_as(numbers, self.arrow.value_type, some(null))]
        return pa.Array.from_buffers(self.arrow, len(sizes), buffers, missing, children=children), some(bad)


def _elements(array: pa.Array) -> tuple[Ends, npt.NDArray[np.int64], Mask]:
    """Where lists start in their elements, the elements as nanoseconds, and which are null."""
    starts, values = list_elements(array)
    return starts, np.asarray(values.view(pa.int64()).fill_null(0)), np.asarray(values.is_null())


def _encoded(starts: Ends, elements: npt.NDArray[np.int64], null: Mask) -> tuple[Ends, Octets]:
    """The bytes of all elements, and where they end, from 0; the first of a list that is not null names its class."""
    first = np.zeros(len(elements), np.bool_)
    there = np.zeros(len(elements) + 1, np.int64)
    np.cumsum(~null, out=there[1:])
    before = there[starts]
    first[np.flatnonzero(~null)[before[:-1][np.diff(before) > 0]]] = True
    sizes = np.where(null, 1, np.where(first, len(FIRST), len(LATER)) + VALUE.size)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    data = np.full(int(ends[-1]), NULL, np.uint8)
    for chosen, front in ((first, FIRST), (~null & ~first, LATER)):
        begins = ends[:-1][chosen]
        data[begins[:, None] + np.arange(len(front))] = np.frombuffer(front, np.uint8)
    seconds, below = np.divmod(elements[~null], SECOND)
    value = np.zeros((len(seconds), VALUE.size), np.uint8)
    value[:, :3], value[:, -1] = np.frombuffer(VALUE_START, np.uint8), VALUE_END[0]
    value[:, 3:11] = seconds.astype(">i8").view(np.uint8).reshape(-1, 8)
    value[:, 11:15] = below.astype(">i4").view(np.uint8).reshape(-1, 4)
    data[(ends[1:][~null] - VALUE.size)[:, None] + np.arange(VALUE.size)] = value
    return ends, data


def _size(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Bytes of streams with so many elements, none of them null or a reference."""
    first = len(FIRST) - len(LATER)
    return FRONT + counts * (len(LATER) + VALUE.size) + np.where(counts > 0, first, 0)


def _plain_elements(octets: Octets, starts: Ends, lengths: npt.NDArray[np.int64]) -> tuple[Any, Mask]:
    """Elements of streams of such sizes as nanoseconds, and the streams that are not of that form or out of range.

    The elements of those are left out.
    """
    owner = np.repeat(np.arange(len(starts)), lengths)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    later = number > 0
    step = len(LATER) + VALUE.size
    offsets = starts[owner] + FRONT + number * step + np.where(later, len(FIRST) - len(LATER), 0)
    sound = np.zeros(len(owner), np.bool_)
    for chosen, front in ((~later, FIRST), (later, LATER)):
        shown = octets[offsets[chosen, None] + np.arange(len(front))] if chosen.any() else np.empty((0, len(front)))
        sound[chosen] = (shown == np.frombuffer(front, np.uint8)).all(axis=1)
    offsets += np.where(later, len(LATER), len(FIRST))
    value = octets[offsets[:, None] + np.arange(VALUE.size)] if len(offsets) else np.empty((0, VALUE.size), np.uint8)
    sound &= (value[:, :3] == np.frombuffer(VALUE_START, np.uint8)).all(axis=1) & (value[:, -1] == VALUE_END[0])
    seconds = np.ascontiguousarray(value[:, 3:11]).view(">i8").reshape(-1).astype(np.int64)
    below = np.ascontiguousarray(value[:, 11:15]).view(">i4").reshape(-1).astype(np.int64)
    most = 2**63 // SECOND - 1  # the last second of the range is for ``decoded_instants``
    sound &= (seconds > -most) & (seconds < most) & (below >= 0) & (below < SECOND)
    odd = np.zeros(len(starts), np.bool_)
    odd[owner[~sound]] = True
    kept = ~odd[owner]
    return seconds[kept] * SECOND + below[kept], odd


def decoded_instants(stream: bytes) -> list[int | None]:
    """The instants of a stream; ValueError, IndexError or struct.error where it is none of an array of them."""
    if not stream.startswith(HEAD):
        raise ValueError("not a stream of Instant[]")
    (count,), position = struct.unpack_from(">i", stream, len(HEAD)), FRONT
    if not 0 <= count <= len(stream) - position:
        raise ValueError("length beyond the value")
    instants: list[int | None] = []
    known: list[int] = []
    for _ in range(count):
        if stream[position] == NULL:
            instants.append(None)
            position += 1
        elif stream[position] == REFERENCE:
            (handle,) = struct.unpack_from(">i", stream, position + 1)
            if handle < FIRST_HANDLE:
                raise ValueError("reference to no instant")
            instants.append(known[handle - FIRST_HANDLE])
            position += 5
        else:
            front = LATER if known else FIRST
            start, seconds, below, end = VALUE.unpack_from(stream, position + len(front))
            instant = seconds * SECOND + below
            if not stream.startswith(front, position) or (start, end) != (VALUE_START, VALUE_END):
                raise ValueError("not an object of java.time.Ser")
            if not 0 <= below < SECOND or not INSTANT_NULL < instant < 2**63:
                raise ValueError("an instant beyond the range")
            known.append(instant)
            instants.append(instant)
            position += len(front) + VALUE.size
    if position != len(stream):
        raise ValueError("bytes after the array")
    return instants
