"""All that a check wants to know of fixed entries, in one pass: by the compiled core, else by numpy."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.abi import FixedLayout, SurveyLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.digests import FixedEntries, Hashes, Sum, rows_address, whole_sum
from sparkhaven.store.native.library import core

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
    """Bounds of entries, their CRC-32, and the sum of their hashes; None where only the core could tell."""

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
    if library is None or not entries.flags.c_contiguous:
        return plain_survey(entries, fixed, crc)
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


def plain_survey(entries: npt.NDArray[Any], fixed: FixedEntries, crc: int = 0) -> Survey:
    octets = np.ascontiguousarray(entries).view(np.uint8)
    return Survey(plain_bounds(entries, fixed.null), zlib.crc32(octets.data, crc), None)


def plain_bounds(entries: npt.NDArray[Any], null: float) -> EntryBounds:
    is_null = entries == entries.dtype.type(null)
    nulls = int(np.count_nonzero(is_null))
    nans = int(np.count_nonzero(np.isnan(entries))) if entries.dtype.kind == "f" else 0
    values = entries[~is_null & (entries == entries)] if nulls or nans else entries
    if not len(values):
        return EntryBounds(nulls, nans, None, None)
    return EntryBounds(nulls, nans, values.min().item(), values.max().item())
