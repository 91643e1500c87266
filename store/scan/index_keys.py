"""Keys of an index in the order in which they are stored: null, numbers with NaN last, texts by UTF-16 code unit.

Values of a codec compare by their bytes. Each stored key is one of its own in this order. A literal may equal several,
which then stand side by side: both zeros.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.expressions.predicate.lookups import Key
from sparkhaven.store.format.column.charset import charset
from sparkhaven.store.types.codings.coding import FixedCoding, Mask, Octets
from sparkhaven.store.types.datatypes import DataType

Order = Any  # what compares as the keys are ordered
NO_KEY = b"\x02"  # in the place of a literal that no value of a codec equals
_EXACT = Context(prec=100)


def key_order(key: Key, data_type: DataType) -> Order:
    """A value or literal as what is compared; a char is its code unit, an Instant its nanoseconds."""
    name = data_type.name
    if name == "String":
        return b"" if key is None else b"\x01" + str(key).encode("utf-16-be", "surrogatepass")
    if name in ("float", "double"):
        if key is None:
            return 0, 0.0
        return (2, 0.0) if isinstance(key, float) and math.isnan(key) else (1, key)
    if name == "char":
        return 0 if key is None else key + 1  # type: ignore[operator]
    return data_type.null if key is None else key


def stored_order(key: Key, data_type: DataType) -> Order:
    """The same of a key that is stored: of the two zeros the negative one is first."""
    order = key_order(key, data_type)
    if data_type.name not in ("float", "double"):
        return order
    return *order, not isinstance(key, float) or key != 0 or math.copysign(1, key) > 0


class Keys(Sequence[Order]):
    """The keys of one column."""

    @abstractmethod
    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        """The least and the greatest key that equals each literal, as what compares with the keys."""

    def equal(self, span: tuple[int, int], order: tuple[Order, Order]) -> tuple[int, int]:
        """Those of the entries ``[start, stop)``, which ascend, whose key equals a literal."""
        low = bisect_left(self, order[0], *span)
        return low, bisect_right(self, order[1], low, span[1])

    def runs(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The entries ``[start, stop)``, which ascend, in parts that have one key each."""
        while start < stop:
            end = bisect_right(self, self[start], start, stop)
            yield start, end
            start = end

    def ascend(self) -> bool:
        """Whether each key is behind the one before it."""
        return all(one < other for one, other in pairwise(self))


class FixedKeys(Keys):
    """Entries of plain numbers."""

    def __init__(self, entries: npt.NDArray[Any], data_type: DataType) -> None:
        self._entries, self._type = entries, data_type

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Order:  # type: ignore[override]
        value = self._entries[index].item()
        if self._type.name in ("float", "double", "char"):
            return stored_order(None if value == self._type.null else value, self._type)
        return value

    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        floating = self._type.name in ("float", "double")
        pairs = [(-0.0, 0.0) if floating and key == 0 else (key, key) for key in keys]
        return [(stored_order(low, self._type), stored_order(high, self._type)) for low, high in pairs]

    def ascend(self) -> bool:
        keys = self._entries
        if len(keys) and keys[0] == keys.dtype.type(self._type.null):
            keys = keys[1:]
        before, after = keys[:-1], keys[1:]
        if keys.dtype.kind != "f":
            return bool((after > before).all())
        zeros = (after == 0) & (before == 0) & np.signbit(before) & ~np.signbit(after)
        last = np.isnan(after) & ~np.isnan(before)
        return bool(((after > before) | zeros | last).all())


class CodedKeys(Keys):
    """Entries of a codec whose bytes are ordered as its values are."""

    def __init__(self, data: pa.Buffer, coding: FixedCoding) -> None:
        self._data, self._coding = memoryview(data), coding

    def __len__(self) -> int:
        return len(self._data) // self._coding.width

    def __getitem__(self, index: int) -> Order:  # type: ignore[override]
        width = self._coding.width
        entry = bytes(self._data[index * width : (index + 1) * width])
        return b"" if entry == self._coding.null else b"\x01" + entry

    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        entries, absent = self._entries(keys)
        orders = [
            b"" if key is None else NO_KEY if none else b"\x01" + entry.tobytes()
            for key, entry, none in zip(keys, entries, absent, strict=True)
        ]
        return [(order, order) for order in orders]

    def _entries(self, keys: Sequence[Key]) -> tuple[Octets, Mask]:
        """Entries of literals, which are whole numbers, and which of them no value equals."""
        kind = self._coding.arrow
        low, high = _range_of(kind)
        units = [key if isinstance(key, int) and low <= key <= high else None for key in keys]
        if pa.types.is_decimal(kind):
            values = [None if unit is None else Decimal(unit).scaleb(-kind.scale, _EXACT) for unit in units]
            array = pa.array(values, kind)
        else:
            array = pa.array(units, pa.int32() if pa.types.is_date32(kind) else pa.int64()).view(kind)
        entries, bad = self._coding.encode(array)
        absent = np.array([unit is None for unit in units], np.bool_)
        return entries, absent if bad is None else absent | bad


def _range_of(kind: pa.DataType) -> tuple[int, int]:
    """The least and the largest of the numbers that stand for values of a type."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    bits = 31 if pa.types.is_date32(kind) else 63
    return -(2**bits), 2**bits - 1


class TextKeys(Keys):
    """Texts as they lie in the files of a column without symbol table."""

    def __init__(self, ends: npt.NDArray[np.int64], data: pa.Buffer, encoding: str) -> None:
        self._ends, self._data = ends, memoryview(data)
        row = charset(encoding)
        self._codec, self._bom = row.codec, row.bom

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> Order:  # type: ignore[override]
        start = int(self._ends[index - 1]) if index else 0
        octets = bytes(self._data[start : int(self._ends[index])])
        if not octets:
            return b""
        if octets == b"\x00":
            return b"\x01"
        codec = self._codec
        if self._bom and octets[:2] in (b"\xfe\xff", b"\xff\xfe"):
            codec, octets = ("utf-16-be" if octets[0] == 0xFE else "utf-16-le"), octets[2:]
        return b"\x01" + octets.decode(codec, "surrogatepass").encode("utf-16-be", "surrogatepass")

    def orders(self, keys: Sequence[Key]) -> list[tuple[Order, Order]]:
        orders = [b"" if key is None else b"\x01" + str(key).encode("utf-16-be", "surrogatepass") for key in keys]
        return [(order, order) for order in orders]
