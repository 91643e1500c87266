"""byte[] by ``ByteArrayCodec`` and ``SimpleByteArrayCodec``, and objects whose class is not known: bytes as they are.

=====================  =========  =====  ================================================
codec                  arguments  bytes  content
=====================  =========  =====  ================================================
SimpleByteArrayCodec   none       blob   the bytes
ByteArrayCodec         none       blob   the bytes
ByteArrayCodec         n          n + 1  00, then the bytes; FF, then zeros is null
ByteArrayCodec         n,notNull  n      the bytes; there is no null
=====================  =========  =====  ================================================

No bytes are null, so an empty array cannot be stored in a blob.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkhaven.store.types.codings.coding import (
    BlobCoding,
    Coding,
    Ends,
    FixedCoding,
    Mask,
    Octets,
    Unfit,
    UnfitError,
    some,
    validity,
)

MOST_BYTES = 1 << 20  # of a value of one width


def coding(codec: str, arguments: str, width: int | None) -> ByteArrays | FixedBytes:
    """By the codec's simple name and arguments; ValueError says what is expected instead."""
    if codec == "SimpleByteArrayCodec":
        if arguments:
            raise ValueError("SimpleByteArrayCodec without arguments")
        return ByteArrays()
    parts = re.fullmatch(r"(?:([1-9]\d{0,6})(,notNull)?)?", arguments)
    if codec != "ByteArrayCodec" or parts is None:
        raise ValueError("SimpleByteArrayCodec, or ByteArrayCodec with length[,notNull] or nothing")
    if not arguments:
        return ByteArrays()
    if int(parts[1]) > MOST_BYTES:
        raise ValueError(f"ByteArrayCodec with a length of at most {MOST_BYTES}")
    return FixedBytes(int(parts[1]), nullable=parts[2] is None)


def opaque(codec: str, arguments: str, width: int | None) -> ByteArrays | FixedBytes:
    """Of a class that is not known: bytes that nobody looks into, of ``width`` if the schema says one."""
    return ByteArrays() if width is None else FixedBytes(width, nullable=False)


def from_base64(text: str, expected: str) -> bytes:
    """The bytes of a text; UnfitError if it is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnfitError(Unfit.NO_VALUE, expected) from None


@dataclass(frozen=True, slots=True)
class ByteArrays(BlobCoding):
    """Bytes of any length above 0."""

    arrow = pa.binary()
    domain = "bytes, at least one, which texts write in base64"
    sources = {"bytes": "checked", "text": "checked"}

    def parse(self, text: str) -> bytes:
        """Of base64."""
        value = from_base64(text, self.domain)
        if not value:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        return value

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Empty values, which would read as null."""
        empty = np.diff(binary_parts(array)[0]) == 0
        return some(empty & ~np.asarray(array.is_null()) if array.null_count else empty)

    def encode(self, array: pa.Array) -> tuple[Ends, Octets, Mask | None]:
        """``array``: binary."""
        starts, data = binary_parts(array)
        if array.null_count:
            starts, data = without_nulls(starts, data, np.asarray(array.is_null()))
        return starts[1:] - starts[0], data[starts[0] : starts[-1]], self.unstorable(array)

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """binary, or large_binary from 2 GiB on; not copied."""
        null = np.diff(ends) == 0
        bitmap, missing = validity(null)
        wide = int(ends[-1]) > 2**31 - 1
        offsets = pa.py_buffer(ends if wide else ends.astype(np.int32))
        kind = pa.large_binary() if wide else pa.binary()
        return pa.Array.from_buffers(kind, len(null), [bitmap, offsets, data], missing), None

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of bytes of any kind; empty ones are bad."""
        if not is_bytes(array.type):
            return Coding.convert(self, array)
        values = array.cast(pa.binary())
        empty = np.diff(binary_parts(values)[0]) == 0
        if array.null_count:
            empty &= ~np.asarray(array.is_null())
        return values, some(empty)


@dataclass(frozen=True, slots=True)
class FixedBytes(FixedCoding):
    """Bytes of one length. ``nullable``: with a byte before them that says whether they are null."""

    length: int
    nullable: bool

    sources = {"bytes": "checked", "text": "checked"}
    ordered = False

    @property
    def arrow(self) -> pa.DataType:
        """Binary: its values have one length, which the type does not say."""
        return pa.binary()

    @property
    def domain(self) -> str:
        """What a value is."""
        null = "" if self.nullable else " (there is no null)"
        return f"{self.length} bytes, which texts write in base64{null}"

    @property
    def has_null(self) -> bool:
        """Whether the column can store null."""
        return self.nullable

    @property
    def compiled(self) -> tuple[str, int]:
        """As bytes of the length."""
        return "octets", self.length

    @property
    def width(self) -> int:
        """Bytes per row."""
        return self.length + self.nullable

    @property
    def null(self) -> bytes:
        """The bytes of null; none where there is no null."""
        return b"\xff" + bytes(self.length) if self.nullable else b""

    def parse(self, text: str) -> bytes:
        """Of base64."""
        value = from_base64(text, self.domain)
        if len(value) != self.length:
            raise UnfitError(Unfit.NO_VALUE, self.domain)
        return value

    def unstorable(self, array: pa.Array) -> Mask | None:
        """Values of another length, and null where there is none."""
        bad = np.diff(binary_parts(array)[0]) != self.length
        if array.null_count:
            bad = bad & ~np.asarray(array.is_null()) if self.nullable else bad | np.asarray(array.is_null())
        return some(bad)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Of bytes of any kind; those of another length are bad."""
        values, _ = ByteArrays().convert(array)
        bad = np.diff(binary_parts(values)[0]) != self.length
        if values.null_count:
            bad &= ~np.asarray(values.is_null())
        return values, some(bad)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of bytes."""
    kinds = pa.types
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind))


def binary_parts(array: pa.Array) -> tuple[Ends, Octets]:
    """Offsets (one more than values) and data of a binary or string array."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int64), np.empty(0, np.uint8)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    starts = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    return starts.astype(np.int64), np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def without_nulls(starts: Ends, data: Octets, null: Mask) -> tuple[Ends, Octets]:
    """Offsets and data with no bytes under nulls."""
    lengths = np.diff(starts)
    if not lengths[null].any():
        return starts, data
    keep = np.repeat(~null, lengths)
    ends = np.zeros(len(starts), np.int64)
    np.cumsum(np.where(null, 0, lengths), out=ends[1:])
    return ends, data[starts[0] : starts[-1]][keep]
