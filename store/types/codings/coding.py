"""What a codec is to the rest: values of a column as Arrow has them, to the bytes of its files, and back.

A type whose values a codec makes bytes of has one module here, with a subclass of ``FixedCoding`` or ``BlobCoding`` and
a function ``coding`` that makes it of the codec's name and arguments. A row of ``store.types.datatypes`` names the
module. Bytes are those of Deephaven's codecs: integers are big-endian, whatever the byte order of the file.

Statistics compare the least and the largest value of such a column as whole numbers.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Context
from enum import Enum
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Octets = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int64]


class Unfit(Enum):
    """Why a value cannot be one of a column."""

    NO_VALUE = "not a value of the type"
    OVERFLOW = "outside the range"
    NOT_EXACT = "cannot be held exactly"


class UnfitError(ValueError):
    """A value that a column cannot hold, and what it would have to be."""

    def __init__(self, why: Unfit, expected: str) -> None:
        super().__init__(expected)
        self.why, self.expected = why, expected


class Coding(ABC):
    """The values of one column.

    ``json``: what of JSON is a value, beside null. ``form``: how values lie on disk.
    """

    form: ClassVar[str]

    json: ClassVar[str] = "string"

    @property
    def sources(self) -> Mapping[str, str]:
        """Group of sources (``store.conversions.conversion_table``) -> ``exact`` or ``checked``."""
        return {}

    @property
    def elements(self) -> str | None:
        """The plain type whose rules hold for each element of an array, or each value of a map; None: no such type."""
        return None

    @property
    def has_null(self) -> bool:
        """Whether the column can store null."""
        return True

    @property
    @abstractmethod
    def arrow(self) -> pa.DataType:
        """The Arrow type of values."""

    @property
    @abstractmethod
    def domain(self) -> str:
        """What a value is, for people."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Bytes per row in ``.dat``; None: values lie in ``.bytes``, and ``.dat`` has their ends."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value that a text writes, as ``pa.array`` takes it. UnfitError: it writes none."""

    @abstractmethod
    def unstorable(self, array: pa.Array) -> Mask | None:
        """Which values of ``arrow`` cannot be stored; None: all can."""

    def parse_all(self, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        """The values of texts, and which of them are in doubt: those ``parse`` decides. None: none is."""
        return self.by_value(texts)

    def by_value(self, texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
        """The values of texts, parsed one by one, for what is rare."""
        values: list[Any] = []
        doubt = np.zeros(len(texts), np.bool_)
        for index, text in enumerate(texts.to_pylist()):
            try:
                values.append(None if text is None else self.parse(text))
            except UnfitError:
                values.append(None)
                doubt[index] = True
        return pa.array(values, self.arrow), doubt if doubt.any() else None

    def from_json(self, value: Any) -> Any:
        """The value of a JSON value other than null: a text, a number (int or Decimal), a list or a dict.

        UnfitError: it is none.
        """
        if isinstance(value, str):
            return self.parse(value)
        raise UnfitError(Unfit.NO_VALUE, self.domain)

    def convert(self, array: pa.Array) -> tuple[pa.Array, Mask | None]:
        """Values of a typed source in the column's Arrow type, and which of them it cannot hold."""
        if array.type == self.arrow:
            return array, None
        raise UnfitError(Unfit.NO_VALUE, self.domain)


class FixedCoding(Coding):
    """Values of one width. Bytes compare as values do where ``ordered``: null apart, which sorts first."""

    form = "fixed"
    ordered: ClassVar[bool] = True

    @property
    @abstractmethod
    def compiled(self) -> tuple[str, int]:
        """What ``store.native.codings`` does this coding with, and its parameter."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bytes per row in ``.dat``."""

    @property
    @abstractmethod
    def null(self) -> bytes:
        """The bytes that mean null; none where nothing does."""

    def rare(self, entry: bytes) -> Any:
        """The value of an entry that the core does not take. UnfitError: the bytes stand for none."""
        raise UnfitError(Unfit.NO_VALUE, self.domain)


class JavaValues(ABC):
    """What Java's own methods give for values: key formulas take columns of such a coding."""

    @abstractmethod
    def java_texts(self, array: pa.Array) -> list[str | None]:
        """``toString()`` of each value."""

    @abstractmethod
    def java_hashes(self, array: pa.Array) -> npt.NDArray[np.int32]:
        """``hashCode()`` of each value; those of nulls mean nothing."""


class BlobCoding(Coding):
    """Values of any length. No bytes at all are null."""

    form = "blob"

    @property
    def width(self) -> None:
        return None

    def encode(self, array: pa.Array) -> tuple[Ends, Octets, Mask | None]:
        """Ends of the values, counted from 0, their bytes, and the rows whose values cannot be stored."""
        parts = [b"" if value is None else self.encode_one(value) for value in self.plain(array)]
        ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)[1:]
        return ends, np.frombuffer(b"".join(parts), np.uint8), self.unstorable(array)

    def decode(self, ends: Ends, data: pa.Buffer) -> tuple[pa.Array, Mask | None]:
        """Values by their ``len(ends) - 1`` ranges in ``data``, and the rows whose bytes stand for none."""
        octets = bytes(data)
        values: list[Any] = []
        bad = np.zeros(len(ends) - 1, np.bool_)
        for index, (start, stop) in enumerate(pairwise(ends.tolist())):
            try:
                values.append(self.decode_one(octets[start:stop]) if start < stop else None)
            except (ValueError, IndexError, struct.error):
                values.append(None)
                bad[index] = True
        return self.stored(values), some(bad)

    def encode_one(self, value: Any) -> bytes:
        """The bytes of a value other than null, one of ``plain``."""
        raise NotImplementedError

    def decode_one(self, value: bytes) -> Any:
        """The value of some bytes, as ``stored`` takes it. ValueError, IndexError or struct.error: they are none."""
        raise NotImplementedError

    def plain(self, array: pa.Array) -> list[Any]:
        """The values that ``encode_one`` takes."""
        values: list[Any] = array.to_pylist()
        return values

    def stored(self, values: list[Any]) -> pa.Array:
        """The array of values that ``decode_one`` made."""
        return pa.array(values, self.arrow)


def plain_numbers(array: pa.Array, kind: Any) -> npt.NDArray[Any]:
    """The values of an array of numbers, dates or times without a copy; those of nulls mean nothing."""
    dtype = np.dtype(kind)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def numbers_as(values: npt.NDArray[Any], arrow: pa.DataType, null: Mask | None) -> pa.Array:
    """Numbers as an array of a type of their width."""
    bitmap, missing = validity(null)
    return pa.Array.from_buffers(arrow, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))], missing)


def validity(null: Mask | None) -> tuple[pa.Buffer | None, int]:
    """The bitmap of an array, None where no row is null, and how many are."""
    missing = 0 if null is None else int(np.count_nonzero(null))
    return (None, 0) if null is None or not missing else (pa.py_buffer(np.packbits(~null, bitorder="little")), missing)


def of_values(mask: Mask, array: pa.Array) -> Mask | None:
    """The mask without the rows that are null, or None if it marks nothing."""
    return some(mask & np.asarray(array.is_valid()) if array.null_count and mask.any() else mask)


def some(mask: Mask) -> Mask | None:
    """The mask, or None if it marks nothing."""
    return mask if mask.any() else None


def list_elements(array: pa.Array) -> tuple[Ends, pa.Array]:
    """Where lists start in their elements, from 0 and one more than lists, and the elements."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    return offsets - offsets[0], array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def lists_with(starts: Ends, marked: Mask) -> Mask | None:
    """Which lists have a marked element, by their starts, one more than lists; None: none has."""
    counts = np.zeros(len(marked) + 1, np.int64)
    np.cumsum(marked, out=counts[1:])
    return some(counts[starts[1:]] > counts[starts[:-1]])


def null_entries(octets: Octets, coding: FixedCoding) -> Mask | None:
    """Which entries of shape (rows, width) mean null; None where the codec has no null."""
    if not coding.null:
        return None
    null = np.frombuffer(coding.null, np.uint8)
    alike: Mask = octets[:, 0] == null[0]
    if len(null) > 1 and alike.any():
        rows = np.flatnonzero(alike)
        alike[rows] = (octets[rows] == null).all(axis=1)
    return alike


def entry_values(entries: npt.NDArray[Any], coding: FixedCoding) -> pa.Array:
    """Entries as they lie in a file as large binary, null where they mean null."""
    octets = np.ascontiguousarray(entries).view(np.uint8).reshape(-1, coding.width)
    null = null_entries(octets, coding)
    if null is None or not null.any():
        return large_binary(np.arange(len(octets) + 1, dtype=np.int64) * coding.width, octets, None)
    ends = np.zeros(len(octets) + 1, np.int64)
    np.cumsum(np.where(null, 0, coding.width), out=ends[1:])
    return large_binary(ends, octets[~null], null)


def value_bytes(array: pa.Array, coding: BlobCoding) -> pa.Array:
    """The bytes that a codec makes of values, as large binary. UnfitError: it cannot store one of them."""
    null = ~np.asarray(array.is_valid()) if array.null_count else None
    ends, data, bad = coding.encode(array)
    if bad is not None:
        raise UnfitError(Unfit.NO_VALUE, coding.domain)
    return large_binary(np.concatenate([np.zeros(1, np.int64), ends]), data, null)


def large_binary(ends: Ends, data: Octets, null: Mask | None) -> pa.Array:
    """Values by their ends (one more than values, from 0) in ``data``."""
    bitmap, missing = validity(null)
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(ends)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers, missing)


_WIDE = Context(prec=100)


def coded_bounds(values: pa.Array) -> tuple[int, int] | None:
    """Of dates days, of times nanoseconds of the day, of decimals units of their last digit; not all may be null.

    None for values that have no order, and for decimals whose bounds a long does not hold.
    """
    kind, kinds = values.type, pa.types
    if kinds.is_date32(kind) or kinds.is_time64(kind):
        bounds = pc.min_max(values.view(pa.int32() if kinds.is_date32(kind) else pa.int64()))
        return bounds["min"].as_py(), bounds["max"].as_py()
    if not kinds.is_decimal(kind):
        return None
    bounds = pc.min_max(values)
    low, high = (int(bounds[end].as_py().scaleb(kind.scale, _WIDE)) for end in ("min", "max"))
    return (low, high) if low > -(2**63) and high < 2**63 else None
