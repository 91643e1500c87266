"""What lies in the files of a column, looked at in one pass: by the compiled core, else by numpy.

Arrays are contiguous, in native order, and need not be aligned.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core
from sparkhaven.store.types.frozen import frozen

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


@frozen
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
