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

from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Ends,
    Mask,
    Unfit,
    UnfitError,
    list_elements,
    lists_with,
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
_COUNTS = pa.list_(pa.int64())


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

    def encode_one(self, value: list[int | None]) -> bytes:
        """Of nanoseconds. The first element that is not null names the class."""
        parts, front = [HEAD, struct.pack(">i", len(value))], FIRST
        for instant in value:
            if instant is None:
                parts.append(bytes((NULL,)))
                continue
            parts += front, VALUE.pack(VALUE_START, *divmod(instant, SECOND), VALUE_END)
            front = LATER
        return b"".join(parts)

    def decode_one(self, value: bytes) -> list[int | None]:
        """Nanoseconds; a stream of anything else, or an instant beyond the years 1677 to 2262, is bad."""
        return decoded_instants(value)

    def plain(self, array: pa.Array) -> list[Any]:
        """Instants as nanoseconds, of which Python's own have fewer digits."""
        values: list[Any] = array.cast(_COUNTS).to_pylist()
        return values

    def stored(self, values: list[Any]) -> pa.Array:
        """Of nanoseconds."""
        return pa.array(values, _COUNTS).cast(self.arrow)


def _elements(array: pa.Array) -> tuple[Ends, npt.NDArray[np.int64], Mask]:
    """Where lists start in their elements, the elements as nanoseconds, and which are null."""
    starts, values = list_elements(array)
    return starts, np.asarray(values.view(pa.int64()).fill_null(0)), np.asarray(values.is_null())


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
