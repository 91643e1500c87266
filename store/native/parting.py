"""Rows parted by bounds, by the compiled core, else by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.native.abi import BoundsLayout, WordsLayout
from sparkhaven.store.native.buffers import address
from sparkhaven.store.native.library import core

Words = npt.NDArray[Any]
Bound = tuple[int, ...]
Pieces = npt.NDArray[np.uint32]
_WORDS, _BOUNDS = np.dtype(WordsLayout), np.dtype(BoundsLayout)


def numbered_pieces(keys: Sequence[Words], bounds: Sequence[Bound]) -> Pieces:
    """Of each row, how many bounds it is at or after: the number of its piece.

    ``keys``: unsigned words, most significant first, one of each a row. ``bounds`` ascend; each has a word for the
    first key, and for as many more as it needs. ValueError: a key or a bound is none.
    """
    library, depth, rows = core(), len(keys), len(keys[0])
    lengths = np.array([len(bound) for bound in bounds], np.int64)
    if any(key.dtype.kind != "u" or len(key) != rows for key in keys) or not all(1 <= n <= depth for n in lengths):
        raise ValueError(f"bounds of {lengths.tolist()} words, of {depth} keys of {rows} rows")
    if library is None:
        return plain_numbered_pieces(keys, bounds)
    held = [np.ascontiguousarray(key) for key in keys]
    words = np.array([(address(key), key.dtype.itemsize) for key in held], _WORDS)
    padded = np.zeros((len(bounds), depth), np.uint64)
    for row, bound in zip(padded, bounds, strict=True):
        row[: len(bound)] = bound
    given = np.array([(address(words), depth, address(padded), address(lengths), len(bounds))], _BOUNDS)
    pieces = np.empty(rows, np.uint32)
    if library.sh_number_pieces(address(given), rows, address(pieces)) != rows:
        raise ValueError(f"keys of {', '.join(str(key.dtype) for key in held)}, expected words of 1, 2, 4 or 8 bytes")
    return pieces


def plain_numbered_pieces(keys: Sequence[Words], bounds: Sequence[Bound]) -> Pieces:
    pieces = np.zeros(len(keys[0]), np.uint32)
    for bound in bounds:
        pieces += at_or_after(keys, bound)
    return pieces


def at_or_after(keys: Sequence[Words], bound: Bound) -> npt.NDArray[np.bool_]:
    """Mask of the rows at or after a bound."""
    last = len(bound) - 1
    result: npt.NDArray[np.bool_] = keys[last] >= bound[last]
    for key, value in zip(keys[last - 1 :: -1] if last else [], bound[last - 1 :: -1] if last else [], strict=True):
        result = (key > value) | ((key == value) & result)
    return result


def parted(entries: npt.NDArray[Any], pieces: Pieces, counts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The entries, piece by piece, those of a piece in their order. ``counts``: how many each piece has.

    ValueError: they are not those of ``pieces``.
    """
    library = core()
    if len(entries) != len(pieces) or counts.sum() != len(pieces):
        raise ValueError(f"{len(entries)} entries, {len(pieces)} pieces of them, {counts.sum()} counted")
    if library is None:
        return plain_parted(entries, pieces, counts)
    held, ends = np.ascontiguousarray(entries), np.cumsum(counts)
    starts, out = ends - counts, np.empty(len(held), held.dtype)
    into = address(starts), len(starts), address(out)
    done = library.sh_part(address(held), held.dtype.itemsize, address(pieces), len(held), *into)
    if done != len(held) or not np.array_equal(starts, ends):  # the core moves each start to its end
        raise _other_pieces(counts)
    return out


def plain_parted(entries: npt.NDArray[Any], pieces: Pieces, counts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    if not np.array_equal(np.bincount(pieces, minlength=len(counts)), counts):
        raise _other_pieces(counts)
    return entries[np.argsort(pieces, kind="stable")]


def _other_pieces(counts: npt.NDArray[np.int64]) -> ValueError:
    return ValueError(f"a piece is not one of {len(counts)}, or has another number of entries than was counted")
