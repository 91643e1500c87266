"""Rows and texts sorted, parted, and put in order: by picks, or by moves, window by window.

By picks, entries are taken from all over the column, and nearly each waits for the memory. A window of moves has rows
that fit the processor's cache: the same part of each source, since sources are often in about the same order. What is
written to (``out``, ``counts``) is contiguous.

The order of texts is that of UTF-16 code units. ValueError: an array has offsets outside of its data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.native.abi import BoundsLayout, KeyedLayout, PartLayout, TextsLayout, WordsLayout
from sparkhaven.store.native.library import TextBuffers, address, core

MORE = 2  # times the bytes that picked texts take if they are as long as others
KEYED = np.dtype(KeyedLayout)
_TEXTS = np.dtype(TextsLayout)
HEAD, SLACK = 8, 16 * ((1 << 12) + 2)  # bytes for each text, and for all, where they are put to be sorted


def rank_tables(
    tables: Sequence[pa.Array], none: np.int32
) -> tuple[pa.StringArray, list[npt.NDArray[np.int32]]] | None:
    """The distinct texts of all string arrays, in order; and for each array the ranks of its texts among them.

    ``none`` is the rank of null, and one more, the last of each array. None if the distinct texts are 2 GiB.
    """
    library = core()
    rows = [tuple(value or 0 for value in TextBuffers.of(table).arguments) for table in tables]
    entries, counts = np.array(rows, _TEXTS), [len(table) for table in tables]
    total, size = sum(counts), sum(table.nbytes for table in tables)
    items, spare = np.empty(total, KEYED), np.empty(total, KEYED)
    scratch = np.empty(size + HEAD * total + SLACK, np.uint8)
    ranks = np.full(total + len(tables), none, np.int32)
    ends, data = np.zeros(total + 1, np.int32), np.empty(size, np.uint8)
    room = address(items), address(spare), address(scratch), len(scratch)
    kinds = library.sh_union_texts(
        address(entries), len(tables), *room, address(ranks), address(ends), address(data), size
    )
    if kinds == -1:
        raise _damaged()
    if kinds < 0:
        return None
    union = pa.py_buffer(ends[: kinds + 1]), pa.py_buffer(data[: int(ends[kinds])])
    stops = np.cumsum(np.array(counts, np.int64) + 1).tolist()
    luts = [ranks[stop - count - 1 : stop] for stop, count in zip(stops, counts, strict=True)]
    return pa.StringArray.from_buffers(kinds, *union), luts


def take_texts(texts: pa.Array, picks: npt.NDArray[np.uint32]) -> pa.Array | None:
    """The picked texts, none of them null, as an array of the same type; None if their offsets have no room."""
    library = core()
    buffers, picks = TextBuffers.of(texts), np.ascontiguousarray(picks, np.uint32)
    arguments = *buffers.valid_arguments, address(picks), len(picks)
    ends = np.zeros(len(picks) + 1, np.int64 if buffers.wide else np.int32)
    room = MORE * buffers.size * len(picks) // max(buffers.count, 1)  # what is not used costs no memory
    while True:
        data = np.empty(room, np.uint8)
        used = library.sh_take_texts(*arguments, address(ends), address(data), room)
        if used < 0:
            raise _damaged()
        if not buffers.wide and used >= 1 << 31:
            return None
        if used <= room:
            return pa.Array.from_buffers(
                texts.type, len(picks), [None, pa.py_buffer(ends), pa.py_buffer(data[:used])], 0
            )
        room = used


def texts_ordered(texts: pa.Array) -> bool:
    """Whether each text, none of them null, is behind the one before it."""
    library = core()
    wrong = library.sh_texts_ordered(*TextBuffers.of(texts).valid_arguments)
    if wrong < 0:
        raise _damaged()
    return bool(wrong == len(texts))


def _damaged() -> ValueError:
    return ValueError("an Arrow array has offsets outside of its data, or fewer texts than are picked")


STARTS = 13  # bits of a row's number that say where its array is looked for
_PART = np.dtype(PartLayout)


class TextRows:
    """The rows of large binary arrays, one array behind the other, none of them null. The arrays are not copied."""

    def __init__(self, arrays: Sequence[pa.Array]) -> None:
        self._arrays = [array for array in arrays if len(array)]
        self._parts = np.zeros(len(self._arrays) + 1, _PART)
        row = 0
        for number, array in enumerate(self._arrays):
            if array.type != pa.large_binary() or array.null_count:
                raise ValueError(
                    f"an array of {array.type} with {array.null_count} nulls, expected large binary without"
                )
            buffers = TextBuffers.of(array)
            self._parts[number] = (row, buffers.ends + 8 * buffers.first, buffers.data, buffers.size)
            row += len(array)
        self._parts[-1]["row"] = row
        self._shift = max(0, row.bit_length() - STARTS)
        stretches = np.arange(0, row, 1 << self._shift)
        self._starts = (np.searchsorted(self._parts["row"], stretches, side="right") - 1).astype(np.uint32)

    def __len__(self) -> int:
        return int(self._parts[-1]["row"])

    def take(
        self, picks: npt.NDArray[np.uint32], end: int, ends: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
    ) -> int:
        """Texts of the picked rows into ``out``, as many as it has room for, and where each ends, counted from ``end``.

        Returns how many they are; ``ends`` has room for all. ValueError: a row or text is out of place.
        """
        library = core()
        picks = np.ascontiguousarray(picks)
        if len(ends) < len(picks):
            raise ValueError(f"room for {len(ends)} ends of {len(picks)} texts")
        into = address(ends), address(out), len(out)
        parts = address(self._parts), len(self._arrays), address(self._starts), self._shift
        taken: int = library.sh_take_parts(*parts, address(picks), len(picks), end, *into)
        if taken < 0:
            raise ValueError("a row is out of range, or an Arrow array has offsets outside of its data")
        return taken


WINDOW = 1 << 16  # rows
SHIFT = 8  # bits of a row's number that do not matter for its window
Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Moves:
    """Entry ``origins[i]`` goes to place ``places[i]``."""

    origins: Rows
    places: Rows

    def __len__(self) -> int:
        return len(self.origins)


def windows_of(sizes: Sequence[int], window: int = WINDOW) -> npt.NDArray[np.uint16]:
    """The window of each block of ``1 << SHIFT`` rows, of sources with so many rows one behind the other.

    The windows of a source ascend from 1 on. Blocks that have rows of several sources are in window 0.
    """
    rows = sum(sizes)
    count = min(max(1, -(-rows // window)), (1 << 16) - 1)
    stops, lengths = np.cumsum(np.array([*sizes, 1], np.int64)), np.array([*sizes, 1], np.int64)
    blocks = np.arange(0, rows + 1, 1 << SHIFT, dtype=np.int64)
    source = np.searchsorted(stops, blocks, side="right").clip(max=len(sizes))
    last = np.searchsorted(stops, np.minimum(blocks + (1 << SHIFT) - 1, max(rows - 1, 0)), side="right")
    first = blocks - (stops[source] - lengths[source])
    windows = (first * count // lengths[source]).clip(max=count - 1) + 1
    return np.where(source < last, 0, windows).astype(np.uint16)


def plan_moves(order: Rows, windows: npt.NDArray[np.uint16]) -> Moves:
    """The moves that put ``entries[order[i]]`` to place i. IndexError: an index is beyond the windows."""
    order = np.ascontiguousarray(order)
    moves = Moves(np.empty(len(order), np.uint32), np.empty(len(order), np.uint32))
    starts = np.empty(int(windows.max()) + 1, np.int64)
    by_window = address(windows), len(windows), SHIFT, address(starts), len(starts)
    if core().sh_plan_moves(
        address(order), len(order), *by_window, address(moves.origins), address(moves.places)
    ) != len(order):
        raise IndexError(f"an index is beyond {len(windows)} blocks")
    return moves


def move(entries: npt.NDArray[Any], moves: Moves, out: npt.NDArray[Any]) -> None:
    """Puts entries into their places. IndexError: an origin or a place is out of range."""
    entries = np.ascontiguousarray(entries)
    by_moves = address(moves.origins), address(moves.places), len(moves)
    width = entries.dtype.itemsize
    if core().sh_move(address(entries), width, len(entries), *by_moves, address(out), len(out)) != len(moves):
        raise IndexError(f"an index is not below {len(entries)}, or a place not below {len(out)}")


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
    held, ends = np.ascontiguousarray(entries), np.cumsum(counts)
    starts, out = ends - counts, np.empty(len(held), held.dtype)
    into = address(starts), len(starts), address(out)
    done = library.sh_part(address(held), held.dtype.itemsize, address(pieces), len(held), *into)
    if done != len(held) or not np.array_equal(starts, ends):  # the core moves each start to its end
        raise _other_pieces(counts)
    return out


def _other_pieces(counts: npt.NDArray[np.int64]) -> ValueError:
    return ValueError(f"a piece is not one of {len(counts)}, or has another number of entries than was counted")


PLACES = 2  # rows for each place where rows of a word are counted


def sorted_rows(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint32]:
    """The stable order of rows by keys of unsigned words, most significant first, all of one length below 2^32.

    It takes up to 40 bytes a row.
    """
    library = core()
    if not keys:
        return np.empty(0, np.uint32)
    rows = len(keys[0])
    held = [np.ascontiguousarray(key) for key in keys]
    if any(key.dtype.kind != "u" or len(key) != rows for key in held):
        raise ValueError(f"keys of {', '.join(f'{len(key)} {key.dtype}' for key in held)}, expected unsigned words")
    words = np.array([(address(key), key.dtype.itemsize) for key in held], _WORDS)
    order, room = np.empty(rows, np.uint32), np.empty(rows // PLACES + 1, np.int64)
    items, spare = np.empty(rows, KEYED), np.empty(rows, KEYED)  # as much of them is touched as is sorted at once
    into = address(order), rows, address(items), address(spare), address(room)
    if library.sh_sort_rows(address(words), len(held), *into) != rows:
        raise ValueError("a key has words of another width than 1, 2, 4 or 8 bytes")
    return order


Ids = npt.NDArray[np.int32]


def gather(entries: npt.NDArray[Any], order: npt.NDArray[np.uint32], out: npt.NDArray[Any]) -> None:
    """``entries[order]`` into ``out``. IndexError: an index is out of range."""
    entries, order = np.ascontiguousarray(entries), np.ascontiguousarray(order)
    arguments = address(order), len(order), address(out)
    if core().sh_gather(address(entries), entries.dtype.itemsize, len(entries), *arguments) != len(order):
        raise IndexError(f"an index is not below {len(entries)}")


def gathered(entries: npt.NDArray[Any], order: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
    out = np.empty(len(order), entries.dtype)
    gather(entries, order, out)
    return out


def gather_ids(ids: Ids, order: npt.NDArray[np.uint32], table: Ids, out: Ids) -> None:
    """``ids[order]``, each looked up in ``table``, into ``out``; the null finds the table's last entry.

    IndexError: an index is out of range.
    """
    ids, order, table = np.ascontiguousarray(ids), np.ascontiguousarray(order), np.ascontiguousarray(table)
    arguments = address(order), len(order), address(table), len(table), address(out)
    if core().sh_gather_ids(address(ids), len(ids), *arguments) != len(order):
        raise IndexError(f"an index is not below {len(ids)}, or the table is empty")


def count_ids(ids: Ids, counts: npt.NDArray[np.int64]) -> None:
    """Adds to ``counts`` how often each id is there; the last entry counts the null. ValueError: there is none."""
    if not len(counts):
        raise ValueError("there is no count for null")
    ids = np.ascontiguousarray(ids)
    core().sh_count_ids(address(ids), len(ids), address(counts), len(counts))
