"""Sums of hashes, and surveys of fixed entries. ``store.digest`` says what is hashed.

To ``hashes``, one word a row, the low word of the hash of each value is added to that of its row; null adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import ENTRY_BOOLEAN, FixedLayout, SurveyLayout
from sparkhaven.store.native.library import ENTRY_KINDS, TextBuffers, address, core

_FIXED, _SURVEY = np.dtype(FixedLayout), np.dtype(SurveyLayout)


@dataclass(frozen=True, slots=True)
class EntryBounds:
    """How many entries are null, how many NaN; the least and the largest of the others, None where there is none."""

    nulls: int
    nans: int
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class Survey:
    """Bounds of entries, their CRC-32, and the sum of their hashes, if it was asked for."""

    bounds: EntryBounds
    crc: int
    sum: Sum | None


def survey_entries(
    entries: npt.NDArray[Any],
    fixed: FixedEntries,
    crc: int = 0,
    hashes: Hashes | None = None,
    *,
    digest: bool = True,
) -> Survey:
    """A survey of contiguous entries; ``crc``: that of the bytes before them. Without ``digest`` it has no sum.

    ``hashes``: one word a row, to which the hash of its entry is added where there is a sum.
    """
    library = core()
    entries = np.ascontiguousarray(entries)
    widest = np.iinfo(np.int64)
    survey, total = np.array([(0, 0, widest.max, widest.min, crc)], _SURVEY), np.zeros(2, np.uint64)
    facts = np.array([(fixed.prefix_bits, fixed.null_bits, fixed.kind)], _FIXED)
    rows = rows_address(hashes, len(entries))
    into = address(total) if digest else None
    library.sh_survey_fixed(address(facts), address(entries), len(entries), address(survey), rows, into)
    nulls, nans, low, high, crc = survey[0].tolist()
    bounds = EntryBounds(nulls, nans, None, None)
    if nulls + nans < len(entries):
        bounds = EntryBounds(nulls, nans, _value(low, entries.dtype), _value(high, entries.dtype))
        if entries.dtype.kind == "f" and 0 in (bounds.low, bounds.high):
            bounds = plain_bounds(entries, fixed.null)  # which of both zeros it is, numpy decides
    return Survey(bounds, crc, (whole_sum(total), nulls) if digest else None)


def _value(bits: int, dtype: np.dtype[Any]) -> Any:
    """The value that a bound stands for."""
    if dtype.kind != "f":
        return bits
    last = 8 * dtype.itemsize - 1
    plain = bits if bits >= 0 else bits ^ ((1 << last) - 1)
    return np.array(plain, f"i{dtype.itemsize}").view(dtype).item()


def plain_bounds(entries: npt.NDArray[Any], null: float) -> EntryBounds:
    is_null = entries == entries.dtype.type(null)
    nulls = int(np.count_nonzero(is_null))
    nans = int(np.count_nonzero(np.isnan(entries))) if entries.dtype.kind == "f" else 0
    values = entries[~is_null & (entries == entries)] if nulls or nans else entries
    if not len(values):
        return EntryBounds(nulls, nans, None, None)
    return EntryBounds(nulls, nans, values.min().item(), values.max().item())


Hashes = npt.NDArray[np.uint64]
Sum = tuple[int, int]  # of the hashes of all values, below 2^128; number of nulls, which are not in it


@dataclass(frozen=True, slots=True)
class FixedEntries:
    """Little-endian entries as they lie in a file; ``null`` is the entry that means null."""

    prefix: bytes
    null: float
    dtype: np.dtype[Any]
    boolean: bool

    @property
    def prefix_bits(self) -> int:
        return int.from_bytes(self.prefix, "little")

    @property
    def null_bits(self) -> int:
        return int(np.array(self.null, self.dtype).view(f"u{self.dtype.itemsize}"))

    @property
    def kind(self) -> int:
        return ENTRY_BOOLEAN if self.boolean else ENTRY_KINDS[f"{self.dtype.kind}{self.dtype.itemsize}"]


def fixed_sum(
    prefix: bytes, entries: npt.NDArray[Any], null: float, *, boolean: bool, hashes: Hashes | None = None
) -> Sum:
    """Of the values of ``FixedEntries``."""
    library = core()
    entries = np.ascontiguousarray(entries)
    facts, total = FixedEntries(prefix, null, entries.dtype, boolean), np.zeros(2, np.uint64)
    arguments = facts.prefix_bits, facts.kind, address(entries), len(entries), facts.null_bits
    nulls = library.sh_digest_fixed(*arguments, rows_address(hashes, len(entries)), address(total))
    return whole_sum(total), nulls


def coded_sum(prefix: bytes, entries: npt.NDArray[np.uint8], null: bytes, hashes: Hashes | None = None) -> Sum:
    """Of entries of a codec, of shape (rows, width), as they lie in a file; ``null``: the entry for null, or none."""
    library = core()
    total, none = np.zeros(2, np.uint64), np.frombuffer(null, np.uint8)
    nulls = library.sh_digest_coded(
        int.from_bytes(prefix, "little"),
        address(entries),
        *entries.shape,
        address(none) if null else None,
        rows_address(hashes, len(entries)),
        address(total),
    )
    return whole_sum(total), nulls


def text_sum(
    prefix: bytes, texts: pa.Array, counts: npt.NDArray[np.int64] | None = None, hashes: Hashes | None = None
) -> Sum:
    """Of texts, each as often as ``counts`` says, else once."""
    library = core()
    if counts is not None:
        counts = np.ascontiguousarray(counts, np.int64)
        if len(counts) != len(texts):
            raise ValueError(f"{len(counts)} counts for {len(texts)} texts")
    total = np.zeros(2, np.uint64)
    nulls = library.sh_digest_texts(
        int.from_bytes(prefix, "little"),
        *TextBuffers.of(texts).arguments,
        None if counts is None else address(counts),
        rows_address(hashes, len(texts)),
        address(total),
    )
    if nulls < 0:
        raise ValueError("an Arrow array has offsets outside of its data")
    return whole_sum(total), nulls


def value_sum(prefix: bytes, values: pa.Array, hashes: Hashes | None = None) -> Sum | None:
    """Of large binary values as they lie in files, in UTF-8; None where one is no text."""
    library = core()
    buffers, total = TextBuffers.of(values), np.zeros(2, np.uint64)
    arguments = buffers.ends + 8 * buffers.first, buffers.count, buffers.data, buffers.size
    rows = rows_address(hashes, len(values))
    nulls = library.sh_digest_values(int.from_bytes(prefix, "little"), *arguments, rows, address(total))
    return None if nulls < 0 else (whole_sum(total), nulls)


def whole_sum(total: npt.NDArray[np.uint64]) -> int:
    return int(total[1]) << 64 | int(total[0])


def add_symbols(ids: npt.NDArray[np.int32], table: Hashes, hashes: Hashes) -> None:
    """Adds the hash of each row's symbol, by id; an id that is none of the table is null."""
    library = core()
    held = np.ascontiguousarray(ids)
    library.sh_add_symbols(address(held), len(held), address(table), len(table), rows_address(hashes, len(held)))


def rows_address(hashes: Hashes | None, rows: int) -> int | None:
    """ValueError: it has not one word a row."""
    if hashes is None:
        return None
    if len(hashes) != rows or not hashes.flags.c_contiguous:
        raise ValueError(f"{len(hashes)} hashes for {rows} rows")
    return address(hashes)
