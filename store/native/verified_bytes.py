"""Bytes of files against their CRC-32 and their statistics, in one pass: by the compiled core, else by numpy.

Arrays are contiguous, in native order, and need not be aligned. A CRC-32 that is given is that of the bytes before;
what comes back has those of the array behind it.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.buffers import ENTRY_KINDS, address
from sparkhaven.store.native.checked_columns import plain_check_ids, plain_check_texts
from sparkhaven.store.native.library import core
from sparkhaven.store.types.frozen import frozen

Entries = npt.NDArray[Any]
Octets = npt.NDArray[np.uint8]
_WHOLES, _REALS = Struct("=3q"), Struct("=3d")
_Found, _Sums = ctypes.c_int64 * 3, ctypes.c_uint32 * 2


def crc32_each(data: Octets, sizes: Sequence[int], before: Sequence[int] | None = None) -> list[int]:
    """CRC-32 of parts of ``data``, one behind the other, of so many bytes; ``before``: those of bytes before each.

    ValueError: the parts are more than the data, or the checksums are not as many as the parts.
    """
    sums, count = before or [0] * len(sizes), len(sizes)
    if sum(sizes) > len(data) or len(sums) != count:
        raise ValueError(f"{len(data)} bytes, {len(sums)} checksums: parts of {sum(sizes)} bytes, {count}")
    library = core()
    if library is None:
        parts = zip(sizes, accumulate(sizes), sums, strict=True)
        return [zlib.crc32(data.data[stop - size : stop], crc) for size, stop, crc in parts]
    crcs = (ctypes.c_uint32 * count)(*sums)
    library.sh_crc32(address(data), (ctypes.c_int64 * count)(*sizes), count, crcs)
    return list(crcs)


@frozen
class TextBounds:
    """Between which texts others are, in the order of bytes; no upper bound where ``high`` is None."""

    low: bytes
    high: bytes | None


def verify_fixed(entries: Entries, null: float, low: float, high: float, crc: int) -> tuple[int, int, int] | None:
    """How many entries are null, how many NaN, and the CRC-32; None if another one is not from ``low`` to ``high``.

    ``low`` and ``high`` are 64-bit integers for whole numbers, else floats.
    """
    library = core()
    if library is None:
        return plain_verify_fixed(entries, null, low, high, crc)
    kind, width = entries.dtype.kind, entries.itemsize
    bounds = (_REALS if kind == "f" else _WHOLES).pack(null, low, high)
    facts, sums = _Found(), _Sums(crc)
    library.sh_verify_fixed(ENTRY_KINDS[f"{kind}{width}"], width, address(entries), len(entries), bounds, facts, sums)
    return None if facts[2] else (facts[0], facts[1], sums[0])


def plain_verify_fixed(entries: Entries, null: float, low: float, high: float, crc: int) -> tuple[int, int, int] | None:
    valid = entries != entries.dtype.type(null)
    nans = entries != entries
    kept = entries[valid & ~nans]
    wide = kept.astype(np.float64 if entries.dtype.kind == "f" else np.int64)
    if not ((wide >= low) & (wide <= high)).all():
        return None
    return int(np.count_nonzero(~valid)), int(np.count_nonzero(nans)), zlib.crc32(entries.data, crc)


def verify_ids(ids: npt.NDArray[np.int32], entries: int, crc: int) -> tuple[int, int] | None:
    """How many ids are ``NULL_ID``, and the CRC-32; None if another is not one of a table of so many entries."""
    library = core()
    if library is None:
        return plain_verify_ids(ids, entries, crc)
    sums = _Sums(crc)
    nulls: int = library.sh_verify_ids(address(ids), len(ids), entries, sums)
    return None if nulls < 0 else (nulls, sums[0])


def plain_verify_ids(ids: npt.NDArray[np.int32], entries: int, crc: int) -> tuple[int, int] | None:
    nulls = plain_check_ids(ids, entries)
    return None if nulls is None else (nulls, zlib.crc32(ids.data, crc))


def verify_texts(
    ends: npt.NDArray[np.int64],
    first: int,
    data: Octets,
    bounds: TextBounds | None,
    crcs: tuple[int, int],
    *,
    ascii_only: bool,
) -> tuple[int, tuple[int, int]] | None:
    """Texts that end at ``ends``: how many have no bytes, and the CRC-32 of the ends and of ``data``.

    ``data`` is all of them; it begins at ``first``. None, in doubt: an end is before another or not in the data, a text
    is not in UTF-8 (``ascii_only``: in ASCII) or beyond the bounds. One without bytes is null and within any bounds, a
    NUL alone is the empty text.
    """
    library = core()
    if library is None:
        return plain_verify_texts(ends, first, data, bounds, crcs, ascii_only=ascii_only)
    low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
    limits = low, -1 if low is None else len(low), high, -1 if high is None else len(high)
    sums = _Sums(*crcs)
    where = address(ends), len(ends), first, address(data), len(data)
    empty = library.sh_verify_texts(*where, ascii_only, *limits, sums)
    return None if empty < 0 else (empty, (sums[0], sums[1]))


def plain_verify_texts(
    ends: npt.NDArray[np.int64],
    first: int,
    data: Octets,
    bounds: TextBounds | None,
    crcs: tuple[int, int],
    *,
    ascii_only: bool,
) -> tuple[int, tuple[int, int]] | None:
    facts = plain_check_texts(ends, first, data, ascii_only=ascii_only)
    if facts is None or facts.stop != len(data) or not (bounds is None or _are_within(ends, first, data, bounds)):
        return None
    return facts.empty, (zlib.crc32(ends.data, crcs[0]), zlib.crc32(data.data, crcs[1]))


def _are_within(ends: npt.NDArray[np.int64], first: int, data: Octets, bounds: TextBounds) -> bool:
    borders = [0, *(ends - first).tolist()]
    texts = [data[start:stop].tobytes() for start, stop in pairwise(borders) if start != stop]
    texts = [b"" if text == b"\0" else text for text in texts]
    return all(bounds.low <= text and (bounds.high is None or text <= bounds.high) for text in texts)
