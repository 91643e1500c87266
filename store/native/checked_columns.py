"""What lies in the files of a column, looked at in one pass.

Arrays are contiguous, in native order, and need not be aligned. ``verify_`` functions compare bytes with statistics
too, and give their CRC-32: one that is given is that of the bytes before, what comes back has the array behind it.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.library import ENTRY_KINDS, address, core

FAST_FROM = 1 << 16  # bytes; for less, loading the compiled core costs more than it saves
BLOCK = 1 << 24  # bytes of a file that are mapped at once


def crc32(data: Any, value: int = 0) -> int:
    """CRC-32 of ``data`` (any contiguous buffer) behind bytes whose CRC-32 is ``value``."""
    view = memoryview(data)
    if view.nbytes < FAST_FROM:
        return zlib.crc32(view, value)
    return crc32_each(np.frombuffer(view, np.uint8), [view.nbytes], [value])[0]


def checksum(fs: Fs, path: Path, offset: int, length: int, crc: int = 0) -> int:
    """CRC-32 of ``length`` bytes of a file from ``offset``, read in blocks, behind bytes whose CRC-32 is ``crc``.

    CorruptFileError: the file ends before.
    """
    file = fs.open(path)
    for start in range(offset, offset + length, BLOCK):
        crc = crc32(file.view(start, min(BLOCK, offset + length - start)), crc)
    return crc


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
    nulls: int = library.sh_count_nulls(address(entries), entries.itemsize, len(entries), _bits(entries, null))
    return nulls


def valid_bits(entries: Entries, null: float) -> Octets:
    """A bit an entry, the lowest first: 1 where it is not ``null``."""
    library = core()
    bits = np.empty(-(-len(entries) // 8), np.uint8)
    library.sh_valid_bits(address(entries), entries.itemsize, len(entries), _bits(entries, null), address(bits))
    return bits


def check_ids(ids: npt.NDArray[np.int32], entries: int) -> int | None:
    """How many ids are ``NULL_ID``; None if another is not one of a table of so many entries."""
    library = core()
    nulls: int = library.sh_check_ids(address(ids), len(ids), entries)
    return None if nulls < 0 else nulls


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
    facts = _Found()
    arguments = address(ends), len(ends), first, address(data), len(data)
    empty = library.sh_check_texts(*arguments, ascii_only, None if out is None else address(out), facts)
    return None if empty < 0 else TextFacts(empty, facts[0], facts[1])


_WHOLES, _REALS = Struct("=3q"), Struct("=3d")
_Facts, _Sums = ctypes.c_int64 * 3, ctypes.c_uint32 * 2


def crc32_each(data: Octets, sizes: Sequence[int], before: Sequence[int] | None = None) -> list[int]:
    """CRC-32 of parts of ``data``, one behind the other, of so many bytes; ``before``: those of bytes before each.

    ValueError: the parts are more than the data, or the checksums are not as many as the parts.
    """
    sums, count = before or [0] * len(sizes), len(sizes)
    if sum(sizes) > len(data) or len(sums) != count:
        raise ValueError(f"{len(data)} bytes, {len(sums)} checksums: parts of {sum(sizes)} bytes, {count}")
    crcs = (ctypes.c_uint32 * count)(*sums)
    core().sh_crc32(address(data), (ctypes.c_int64 * count)(*sizes), count, crcs)
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
    kind, width = entries.dtype.kind, entries.itemsize
    bounds = (_REALS if kind == "f" else _WHOLES).pack(null, low, high)
    facts, sums = _Facts(), _Sums(crc)
    library.sh_verify_fixed(ENTRY_KINDS[f"{kind}{width}"], width, address(entries), len(entries), bounds, facts, sums)
    return None if facts[2] else (facts[0], facts[1], sums[0])


def verify_ids(ids: npt.NDArray[np.int32], entries: int, crc: int) -> tuple[int, int] | None:
    """How many ids are ``NULL_ID``, and the CRC-32; None if another is not one of a table of so many entries."""
    library = core()
    sums = _Sums(crc)
    nulls: int = library.sh_verify_ids(address(ids), len(ids), entries, sums)
    return None if nulls < 0 else (nulls, sums[0])


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
    low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
    limits = low, -1 if low is None else len(low), high, -1 if high is None else len(high)
    sums = _Sums(*crcs)
    where = address(ends), len(ends), first, address(data), len(data)
    empty = library.sh_verify_texts(*where, ascii_only, *limits, sums)
    return None if empty < 0 else (empty, (sums[0], sums[1]))
