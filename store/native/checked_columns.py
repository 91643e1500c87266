"""What lies in the files of a column, looked at in one pass: by the compiled core, else by numpy.

Arrays are contiguous, in native order, and need not be aligned. ``verify_`` functions compare bytes with statistics
too, and give their CRC-32: one that is given is that of the bytes before, what comes back has the array behind it.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.buffers import ENTRY_KINDS, address
from sparkhaven.store.native.library import core

Entries = npt.NDArray[Any]
Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
NULL_ID = -(2**31)
_Found = ctypes.c_int64 * 2
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _bits(entries: Entries, null: float) -> int:
    return int(np.array(null, entries.dtype).view(_BITS[entries.itemsize]))


def count_nulls(entries: Entries, null: float) -> int:
    """How many entries are ``null``, a value that equals nothing but itself."""
    library = core()
    if library is None:
        return plain_count_nulls(entries, null)
    nulls: int = library.sh_count_nulls(address(entries), entries.itemsize, len(entries), _bits(entries, null))
    return nulls


def plain_count_nulls(entries: Entries, null: float) -> int:
    return int(np.count_nonzero(entries == entries.dtype.type(null)))


def valid_bits(entries: Entries, null: float) -> Octets:
    """A bit an entry, the lowest first: 1 where it is not ``null``."""
    library = core()
    if library is None:
        return plain_valid_bits(entries, null)
    bits = np.empty(-(-len(entries) // 8), np.uint8)
    library.sh_valid_bits(address(entries), entries.itemsize, len(entries), _bits(entries, null), address(bits))
    return bits


def plain_valid_bits(entries: Entries, null: float) -> Octets:
    return np.packbits(entries != entries.dtype.type(null), bitorder="little")


def check_ids(ids: npt.NDArray[np.int32], entries: int) -> int | None:
    """How many ids are ``NULL_ID``; None if another is not one of a table of so many entries."""
    library = core()
    if library is None:
        return plain_check_ids(ids, entries)
    nulls: int = library.sh_check_ids(address(ids), len(ids), entries)
    return None if nulls < 0 else nulls


def plain_check_ids(ids: npt.NDArray[np.int32], entries: int) -> int | None:
    nulls = int(np.count_nonzero(ids == NULL_ID))
    # as unsigned numbers the negative ones are the largest
    return None if np.count_nonzero(ids.view(np.uint32) >= min(entries, 1 << 31)) != nulls else nulls


@dataclass(frozen=True, slots=True)
class TextFacts:
    """How many texts have no bytes, how many are a NUL alone; ``stop``: the end of the last, from the first's begin."""

    empty: int
    alone: int
    stop: int


def check_texts(
    ends: npt.NDArray[np.int64], first: int, data: Octets, *, ascii_only: bool, out: Offsets | None = None
) -> TextFacts | None:
    """What texts are like that end at ``ends``, the first of which begins at ``first``, where ``data`` begins.

    None, in doubt: an end is before another or outside of the data, these are not text in UTF-8 (``ascii_only``: in
    ASCII), or have 2 GiB and more. ``out``, if given, has room for the ends from there on, behind a 0.
    """
    library = core()
    if library is None:
        return plain_check_texts(ends, first, data, ascii_only=ascii_only, out=out)
    facts = _Found()
    arguments = address(ends), len(ends), first, address(data), len(data)
    empty = library.sh_check_texts(*arguments, ascii_only, None if out is None else address(out), facts)
    return None if empty < 0 else TextFacts(empty, facts[0], facts[1])


def plain_check_texts(
    ends: npt.NDArray[np.int64], first: int, data: Octets, *, ascii_only: bool, out: Offsets | None = None
) -> TextFacts | None:
    borders = np.concatenate((np.array([first], np.int64), ends))
    stop = int(borders[-1]) - first
    lengths = np.diff(borders)
    if (borders[1:] < borders[:-1]).any() or stop > min(len(data), 2**31 - 1):
        return None
    used = data[:stop].tobytes()
    try:
        used.decode("ascii" if ascii_only else "utf-8")
    except UnicodeDecodeError:
        return None
    begins = borders[:-1][lengths > 0] - first
    if ((data[begins] & 0xC0) == 0x80).any():
        return None
    if out is not None:
        out[:] = borders - first
    single = borders[:-1][lengths == 1] - first
    return TextFacts(int(np.count_nonzero(lengths == 0)), int(np.count_nonzero(data[single] == 0)), stop)


_WHOLES, _REALS = Struct("=3q"), Struct("=3d")
_Facts, _Sums = ctypes.c_int64 * 3, ctypes.c_uint32 * 2


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


@dataclass(frozen=True, slots=True)
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
    facts, sums = _Facts(), _Sums(crc)
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
