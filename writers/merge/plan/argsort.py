"""The stable order of rows by several keys of unsigned words: by the compiled core, else by numpy.

With numpy, bits of the keys are packed into 64-bit words with the row number below them, so that one sort of plain
numbers gives the order. If there are more bits than fit, the first ones are sorted, then the rows that these leave tied
by the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.row_sort import sorted_rows
from sparkhaven.writers.merge.sources.sort_keys import Words

RADIX_BITS = 16  # numpy's stable argsort is a radix sort up to this width
Order = npt.NDArray[np.uint32]


class _Field(NamedTuple):
    """Bits of a key: ``width`` of them from bit ``first`` on, of what it has above ``low``."""

    key: Words
    low: Any
    first: int
    width: int

    def bits(self, dtype: type[np.unsignedinteger[Any]] | None = None) -> Words:
        """A new array of them."""
        part: Words = self.key - self.low  # few new arrays: first touches of memory cost more than the arithmetic
        if self.first:
            part >>= part.dtype.type(self.first)
        if self.first + self.width < 8 * part.dtype.itemsize:
            part &= part.dtype.type((1 << self.width) - 1)
        return part if dtype is None else part.astype(dtype, copy=False)


def argsort(keys: Sequence[Words]) -> Order:
    """Stable order of rows by keys, most significant first; all of one length below 2^32."""
    order = sorted_rows(keys)
    return plain_argsort(keys) if order is None else order


def plain_argsort(keys: Sequence[Words]) -> Order:
    """The same without the compiled core."""
    rows = len(keys[0]) if keys else 0
    fields = _fields(keys) if rows else []
    if not fields:
        return np.arange(rows, dtype=np.uint32)
    bits, room = sum(field.width for field in fields), 64 - _index_bits(rows)
    if bits <= RADIX_BITS:
        return np.argsort(_packed(fields, np.uint16), kind="stable").astype(np.uint32)
    if bits <= room:
        return _sorted(_packed(fields, np.uint64))
    return _by_first_bits(fields, room)


def _fields(keys: Sequence[Words]) -> list[_Field]:
    fields = []
    for key in keys:
        low = key.min()
        width = int(key.max() - low).bit_length()
        if width:
            fields.append(_Field(key, low, 0, width))
    return fields


def _index_bits(rows: int) -> int:
    return max(rows - 1, 1).bit_length()


def _packed(fields: Sequence[_Field], dtype: type[np.unsignedinteger[Any]]) -> Words:
    word = fields[0].bits(dtype)
    for field in fields[1:]:
        word <<= dtype(field.width)
        word |= field.bits(dtype)
    return word


def _sorted(word: Words) -> Order:
    """The order of words that leave room for the row number; the array is left sorted, with that below."""
    index_bits = _index_bits(len(word))
    word <<= np.uint64(index_bits)
    word |= np.arange(len(word), dtype=np.uint64)
    word.sort()
    order = word.astype(np.uint32)
    order &= np.uint32((1 << index_bits) - 1)
    return order


def _by_first_bits(fields: Sequence[_Field], room: int) -> Order:
    """The order by the first ``room`` bits, and by the others where these are equal."""
    first: list[_Field] = []
    while room:
        field = fields[len(first)]
        width = min(field.width, room)
        first.append(field._replace(first=field.width - width, width=width))
        room -= width
    cut = fields[len(first) - 1]
    rest = [cut._replace(width=first[-1].first), *fields[len(first) :]]
    word = _packed(first, np.uint64)
    order = _sorted(word)
    word >>= np.uint64(_index_bits(len(word)))
    same = np.zeros(len(word) + 1, np.bool_)  # as the row before
    np.equal(word[1:], word[:-1], out=same[1:-1])
    del word
    tied = np.flatnonzero(same[1:] | same[:-1]).astype(np.uint32)
    if len(tied):
        rows = order[tied]
        groups = np.cumsum(~same[tied], dtype=np.uint32)
        order[tied] = rows[plain_argsort([groups, *(field._replace(key=field.key[rows]).bits() for field in rest)])]
    return order
