"""What functions of the compiled core say of columns and rows, by numpy: for property tests to compare with."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import NULL_ID, Entries, Octets, Offsets, TextBounds, TextFacts
from sparkhaven.store.native.digests import FixedEntries, Survey, plain_bounds
from sparkhaven.store.native.rows import SHIFT, Bound, Ids, Moves, Pieces, Rows, Words, _other_pieces, at_or_after

COUNT_ROWS = 1 << 18


def plain_survey(entries: npt.NDArray[Any], fixed: FixedEntries, crc: int = 0) -> Survey:
    octets = np.ascontiguousarray(entries).view(np.uint8)
    return Survey(plain_bounds(entries, fixed.null), zlib.crc32(octets.data, crc), None)


def plain_count_nulls(entries: Entries, null: float) -> int:
    return int(np.count_nonzero(entries == entries.dtype.type(null)))


def plain_valid_bits(entries: Entries, null: float) -> Octets:
    return np.packbits(entries != entries.dtype.type(null), bitorder="little")


def plain_check_ids(ids: npt.NDArray[np.int32], entries: int) -> int | None:
    nulls = int(np.count_nonzero(ids == NULL_ID))
    # as unsigned numbers the negative ones are the largest
    return None if np.count_nonzero(ids.view(np.uint32) >= min(entries, 1 << 31)) != nulls else nulls


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


def plain_verify_fixed(entries: Entries, null: float, low: float, high: float, crc: int) -> tuple[int, int, int] | None:
    valid = entries != entries.dtype.type(null)
    nans = entries != entries
    kept = entries[valid & ~nans]
    wide = kept.astype(np.float64 if entries.dtype.kind == "f" else np.int64)
    if not ((wide >= low) & (wide <= high)).all():
        return None
    return int(np.count_nonzero(~valid)), int(np.count_nonzero(nans)), zlib.crc32(entries.data, crc)


def plain_verify_ids(ids: npt.NDArray[np.int32], entries: int, crc: int) -> tuple[int, int] | None:
    nulls = plain_check_ids(ids, entries)
    return None if nulls is None else (nulls, zlib.crc32(ids.data, crc))


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


def plain_gather(entries: npt.NDArray[Any], order: npt.NDArray[np.uint32], out: npt.NDArray[Any]) -> None:
    np.take(entries, order.astype(np.intp), out=out)


def plain_gather_ids(ids: Ids, order: npt.NDArray[np.uint32], table: Ids, out: Ids) -> None:
    picked = np.take(ids, order.astype(np.intp)).view(np.uint32)
    np.take(table, np.minimum(picked, np.uint32(len(table) - 1)), out=out)


def plain_count_ids(ids: Ids, counts: npt.NDArray[np.int64], rows: int = COUNT_ROWS) -> None:
    last = np.uint32(len(counts) - 1)
    stride = max(rows, len(counts))  # counting makes copies of 8 bytes a row
    for first in range(0, len(ids), stride):
        part = np.minimum(ids[first : first + stride].view(np.uint32), last)
        counts += np.bincount(part, minlength=len(counts))


def plain_plan_moves(order: Rows, windows: npt.NDArray[np.uint16]) -> Moves:
    by_window = np.argsort(windows[order >> np.uint32(SHIFT)], kind="stable").astype(np.uint32)
    return Moves(order[by_window], by_window)


def plain_move(entries: npt.NDArray[Any], moves: Moves, out: npt.NDArray[Any]) -> None:
    out[moves.places] = entries[moves.origins]


def plain_numbered_pieces(keys: Sequence[Words], bounds: Sequence[Bound]) -> Pieces:
    pieces = np.zeros(len(keys[0]), np.uint32)
    for bound in bounds:
        pieces += at_or_after(keys, bound)
    return pieces


def plain_parted(entries: npt.NDArray[Any], pieces: Pieces, counts: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    if not np.array_equal(np.bincount(pieces, minlength=len(counts)), counts):
        raise _other_pieces(counts)
    return entries[np.argsort(pieces, kind="stable")]


def plain_read_files(
    fs: Fs, paths: Sequence[str], head: bytes, sizes: Sequence[int], out: Octets
) -> npt.NDArray[np.bool_]:
    read = np.zeros(len(paths), np.bool_)
    for index, (path, size, stop) in enumerate(zip(paths, sizes, accumulate(sizes), strict=True)):
        try:
            data = fs.read_range(Path(path), 0, len(head) + size)
        except (CorruptFileError, OSError):  # whoever opens the file by itself says why
            continue
        read[index] = data.startswith(head)
        out[stop - size : stop] = np.frombuffer(data, np.uint8, size, len(head))
    return read
