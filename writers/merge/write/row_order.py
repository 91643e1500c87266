"""The rows of a piece of a merge and their order: by destination, groups, sort keys, row number.

All rows of a date have one total order, and a piece is a range of it between two bounds. A bound is a prefix of a key
tuple (destination, groups, sort keys, row number); a short tuple sorts before all rows that start with it. The result
of a merge does not depend on the bounds.

Columns are written in it by row numbers, or by moves where many rows are worth planning them. With moves a column is
put in order in memory that is used again, and written from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import SchemaMismatchError
from sparkhaven.store.expressions.formula.evaluation import Formula
from sparkhaven.store.format.column.coded import decode_coded
from sparkhaven.store.format.column.prefix import charset_of
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import check_ids
from sparkhaven.store.native.digests import FixedEntries
from sparkhaven.store.native.file_moves import FileRegion, PlacedEntries, RankedIds, is_possible, place_files
from sparkhaven.store.native.rows import Bound, Moves, at_or_after, move, plan_moves, sorted_rows, windows_of
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import RankedUnions, Unions, formula_of, ranked, ranks_file
from sparkhaven.writers.merge.plan.merge_plan import MergePlan, Rows, blocks_of
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import ALL, ColumnRoom, ColumnSource, Pick, entry_dtype
from sparkhaven.writers.merge.sources.sort_keys import (
    INT_NULL,
    SortKey,
    Words,
    look_up,
    ordinals,
    rank_lut,
    rank_ordinals,
)

SAMPLE_ROWS = 1 << 16


class Keys:
    """Loads the keys of blocks of rows; caches open columns and lookup tables of the sources."""

    def __init__(self, fs: Fs, plan: MergePlan, unions: Unions, room: ColumnRoom | None = None) -> None:
        self._fs, self.plan, self._unions, self._room = fs, plan, unions, room
        known = unions if isinstance(unions, RankedUnions) else RankedUnions(Columns(fs, plan))
        self.columns, self._luts = known.columns, known.luts
        self._kept: dict[str, npt.NDArray[Any]] = {}  # by column
        self._formula: Formula | None = None
        self._by_rank: tuple[str, npt.NDArray[np.int32]] | None = None
        if len(plan.destinations) > 1:
            self._formula = formula_of(plan)
            self._by_rank = self._destinations_by_rank(self._formula)

    def open(self, index: int, column: Column) -> ColumnSource:
        return self.columns.open(index, column)

    def open_blobs(self, index: int, column: Column) -> ColumnSource:
        """A column of values of any length. SchemaMismatchError: the schema declares another charset than theirs."""
        opened = self.open(index, column)
        if opened.encoding not in (None, charset_of(column)):
            raise SchemaMismatchError(
                f"column {column.name} is stored in another charset than the schema declares",
                where=opened.source.directory,
                expected=charset_of(column),
                found=opened.encoding,
            )
        return opened

    def keep(self, column: Column) -> None:
        """Reads all rows of a column, for the first that asks for its entries. Threads may read several at once."""
        self._kept[column.name] = self.entries(column, new=True)

    def entries(self, column: Column, rows: Rows | None = None, *, new: bool = False) -> npt.NDArray[Any]:
        """Entries of ``rows`` (None = all of the date) in source order; of a column of texts their ranks.

        Where there is a room they stand in it, until the next call of the thread, unless they are to be ``new``.
        """
        plan, texts = self.plan, ranked(self.plan, column)
        chosen = (None,) * len(plan.sources) if rows is None else rows
        whole = all(picks is None for picks in chosen)
        if whole and column.name in self._kept:
            return self._kept.pop(column.name)
        sizes = [len(source if picks is None else picks) for source, picks in zip(plan.sources, chosen, strict=True)]
        dtype = np.dtype(np.int32) if texts else entry_dtype(column)
        array = np.empty(sum(sizes), dtype) if self._room is None or new else self._room.empty(sum(sizes), dtype)
        taken = set(self.columns.entries(column, array) if whole and column.storage is not Storage.BLOB else ())
        if texts and taken:
            ends = accumulate(sizes)
            parts = [array[end - size : end] for end, size in zip(ends, sizes, strict=True)]
            taken = {index for index in taken if self._rank(index, column, parts[index])}
        if len(taken) == len(sizes):
            return array
        for index, first, stop, picked, first_row, count in blocks_of(plan, chosen):
            if index in taken:
                continue
            block = self._entries(index, column, first, stop)
            target = array[first_row : first_row + count]
            if picked is None:
                target[:] = block
            else:
                np.take(block, picked, out=target, mode="clip")
        return array

    def _entries(self, index: int, column: Column, first: int, stop: int, pick: Pick = ALL) -> npt.NDArray[Any]:
        """Entries of rows of a source; of a column of texts their ranks."""
        if ranked(self.plan, column):
            return self.ranks(index, column, first, stop, pick)
        return self.open(index, column).entries(first, stop)[pick]

    def _rank(self, index: int, column: Column, ids: npt.NDArray[np.int32]) -> bool:
        """Puts ranks in the place of a source's ids, unless one of them is not in its symbol table."""
        lut = self.lut(index, column)
        if check_ids(ids, len(lut) - 1) is None:
            return False
        ids[:] = look_up(lut, ids)
        return True

    def ranks(self, index: int, column: Column, first: int, stop: int, pick: Pick = ALL) -> npt.NDArray[np.int32]:
        """Ranks of a string column in the date's union, the null sentinel for null."""
        source = self.open(index, column)
        if column.storage is Storage.BLOB:
            return rank_lut(source.texts(first, stop), self._unions[column.name])[:-1][pick]
        lut = self.lut(index, column)
        return look_up(lut, source.ids(first, stop, len(lut) - 1, pick))

    def lut(self, index: int, column: Column) -> npt.NDArray[np.int32]:
        """The rank of each symbol of a source."""
        key = (index, column.name)
        if key not in self._luts:
            path = ranks_file(self.plan, index, column)
            stat = self._fs.stat(path)
            if stat is None:
                self._luts[key] = rank_lut(self.open(index, column).symbols(), self._unions[column.name])
            else:
                self._luts[key] = np.frombuffer(self._fs.map(path, stat.size), np.int32)
        return self._luts[key]

    def luts(self, column: Column) -> list[npt.NDArray[np.int32]]:
        """The rank of each symbol, for each source."""
        return [self.lut(index, column) for index in range(len(self.plan.sources))]

    def regions(self, column: Column) -> list[FileRegion | None] | None:
        """Where the entries of each source lie in files; None where they are to be read, or are in memory."""
        return None if column.name in self._kept else self.columns.regions(column)

    def depth(self) -> int:
        """Number of keys, without the row number."""
        return len(self.plan.ordering) + (self._formula is not None)

    def words(self, index: int, first: int, stop: int, start: int, end: int, pick: Pick = ALL) -> list[Words]:
        """Keys ``[start, end)`` of rows ``[first, stop)`` of a source, or of those that ``pick`` takes.

        Most significant first; the row number over all sources is the key after the last.
        """
        lead = self._formula is not None
        words = []
        for number in range(start, min(end, self.depth() + 1)):
            if number == self.depth():
                words.append(self._row_numbers(index, first, stop, pick))
            elif lead and number == 0:
                words.append(self._destination(index, first, stop, pick))
            else:
                key = self.plan.ordering[number - lead]
                entries = self._entries(index, self.plan.column(key.column), first, stop, pick)
                words.append(self._as_words(key, entries))
        return words

    def all_words(self, *, keep: bool = False) -> list[Words] | None:
        """All keys of all rows, where many small sources are read together; else None. ``keep``: their columns, too."""
        if self._formula is not None or not self.columns.small():
            return None
        words = []
        for key in self.plan.ordering:
            entries = self.entries(self.plan.column(key.column), new=keep)
            if keep:
                self._kept[key.column] = entries
            words.append(self._as_words(key, entries))
        return words

    def _row_numbers(self, index: int, first: int, stop: int, pick: Pick) -> npt.NDArray[np.uint64]:
        start = self.plan.offset(index) - self.plan.sources[index].start
        if isinstance(pick, slice):
            chosen = range(first + start, stop + start)[pick]
            return np.arange(chosen.start, chosen.stop, chosen.step, dtype=np.uint64)
        return pick.astype(np.uint64) + np.uint64(first + start)

    def _as_words(self, key: SortKey, entries: npt.NDArray[Any]) -> Words:
        column = self.plan.column(key.column)
        if ranked(self.plan, column):
            return rank_ordinals(entries, descending=key.descending)
        return ordinals(entries, column.type, descending=key.descending, word=key.word)

    def _destination(self, index: int, first: int, stop: int, pick: Pick) -> Words:
        assert self._formula is not None  # noqa: S101
        if self._by_rank is not None:
            name, lut = self._by_rank
            ranks = self.ranks(index, self.plan.column(name), first, stop, pick)
            return look_up(lut, ranks).astype(np.uint16)
        return self._assign(self._formula, self._arrow(index, self._formula, first, stop), stop - first)[pick]

    def _assign(self, formula: Formula, columns: dict[str, pa.Array], rows: int) -> Words:
        plan = self.plan
        names = [d.writable for d in plan.destinations]
        destinations = formula.assign(plan.table.namespace, plan.table.table, plan.value, columns, names, rows=rows)
        return destinations.astype(np.uint16)

    def _destinations_by_rank(self, formula: Formula) -> tuple[str, npt.NDArray[np.int32]] | None:
        """A formula over one string column is evaluated once per distinct string."""
        names = sorted(formula.columns)
        if len(names) != 1 or names[0] not in self._unions:
            return None
        union = self._unions[names[0]]
        values = pa.concat_arrays([union.cast(pa.string()), pa.nulls(1, pa.string())])
        return names[0], self._assign(formula, {names[0]: values}, len(values)).astype(np.int32)

    def _arrow(self, index: int, formula: Formula, first: int, stop: int) -> dict[str, pa.Array]:
        arrays: dict[str, pa.Array] = {}
        for name in formula.columns:
            column = self.plan.column(name)
            if column.storage is Storage.SYMBOL:
                ranks = self.ranks(index, column, first, stop)
                mask = ranks == INT_NULL
                arrays[name] = pa.DictionaryArray.from_arrays(pa.array(ranks, mask=mask), self._unions[name])
            elif column.storage is Storage.BLOB:
                arrays[name] = self.open(index, column).texts(first, stop)
            else:
                arrays[name] = to_arrow(self.open(index, column).entries(first, stop), column)
        return arrays


def to_arrow(raw: npt.NDArray[Any], column: Column) -> pa.Array:
    """Raw entries of a fixed-width column as an Arrow array with validity."""
    if column.type.fixed is not None:
        return decode_coded(pa.py_buffer(raw), column.type.fixed, f"column {column.name}")
    null = raw == raw.dtype.type(column.type.null)
    if column.type.name == "Boolean":
        return pa.array(raw != 0, pa.bool_(), mask=null)
    return pa.array(raw, mask=null).cast(column.type.arrow)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Rows of a piece: per source their numbers from its start (None = all), and their keys in source order."""

    rows: Rows
    counts: tuple[int, ...]
    keys: tuple[Words, ...]

    @property
    def total(self) -> int:
        return sum(self.counts)


def select(keys: Keys, lower: Bound | None, upper: Bound | None, *, keep: bool = False) -> RowSelection:
    """The rows between two bounds; without bounds all of them. ``keep``: their columns may stay in memory."""
    plan = keys.plan
    rows: list[npt.NDArray[np.uint32] | None] = []
    counts: list[int] = []
    parts: list[list[Words]] = []
    depth, last = max(len(lower or ()), len(upper or ())), keys.depth()
    if not depth and (words := keys.all_words(keep=keep)) is not None:
        return RowSelection((None,) * len(plan.sources), tuple(map(len, plan.sources)), tuple(words))
    for index, source in enumerate(plan.sources):
        chosen: list[npt.NDArray[np.uint32]] = []
        for first, stop in source.blocks(plan.options.sizes.rows):
            if not depth:
                parts.append(keys.words(index, first, stop, 0, last))
                continue
            words = keys.words(index, first, stop, 0, depth)
            inside = np.ones(stop - first, bool) if lower is None else at_or_after(words, lower)
            if upper is not None:
                inside &= ~at_or_after(words, upper)
            picked = np.flatnonzero(inside)
            chosen.append((picked + (first - source.start)).astype(np.uint32))
            rest = keys.words(index, first, stop, depth, last, picked)
            parts.append([word[picked] for word in words[:last]] + rest)
        whole = lower is None and upper is None
        number = len(source) if whole else sum(len(c) for c in chosen)
        if whole or number == len(source):
            rows.append(None)
        else:
            rows.append(np.concatenate(chosen) if chosen else np.zeros(0, np.uint32))
        counts.append(number)
    if not parts:  # every row was withdrawn
        return RowSelection(tuple(rows), tuple(counts), tuple(np.zeros(0, np.uint64) for _ in range(last)))
    width = len(parts[0])
    merged = []
    for key in range(width):
        merged.append(np.concatenate([part[key] for part in parts]))
        for part in parts:
            part[key] = merged[-1][:0]  # releases the block
    return RowSelection(tuple(rows), tuple(counts), tuple(merged))


def order_of(selection: RowSelection) -> npt.NDArray[np.uint32]:
    """Positions of the selected rows (in source order), in result order."""
    if not selection.keys:
        return np.arange(selection.total, dtype=np.uint32)
    return sorted_rows(selection.keys)


def bounds(keys: Keys, pieces: int) -> list[Bound]:
    """At most ``pieces - 1`` ascending bounds that cut the date into about equal pieces, by a sample.

    A bound is shortened to the start of a small group, so that most pieces hold whole groups.
    """
    if pieces < 2:
        return []
    plan = keys.plan
    stride = max(1, plan.rows // SAMPLE_ROWS)
    samples: list[list[Words]] = []
    for index, source in enumerate(plan.sources):
        for first, stop in source.blocks(plan.options.sizes.rows):
            samples.append(keys.words(index, first, stop, 0, keys.depth() + 1, slice(None, None, stride)))
    columns = [np.concatenate(parts) for parts in zip(*samples, strict=True)]
    order = sorted_rows(columns)
    columns = [column[order] for column in columns]
    total = len(order)
    cuts: list[Bound] = []
    for piece in range(1, pieces):
        row = tuple(int(column[total * piece // pieces]) for column in columns)
        bound = _shorten(columns, row, total // (2 * pieces))
        if not cuts or bound > cuts[-1]:
            cuts.append(bound)
    return cuts


def _shorten(columns: Sequence[Words], row: Bound, small: int) -> Bound:
    low, high = 0, len(columns[0])
    for length, column in enumerate(columns, start=1):
        value = column.dtype.type(row[length - 1])
        part = column[low:high]
        low, high = low + int(np.searchsorted(part, value)), low + int(np.searchsorted(part, value, side="right"))
        if high - low <= small:
            return row[:length]
    return row


COLUMNS = 4  # planning moves takes as long as they save with two or three
Order = npt.NDArray[np.uint32]
_ROOM = ColumnRoom()


def are_worth_planning(plan: MergePlan, rows: int) -> bool:
    """Whether so many rows of a date, written together, are put in order by moves."""
    moved = sum(column.storage in (Storage.FIXED, Storage.SYMBOL) for column in plan.columns)
    return rows >= plan.options.sizes.moved_rows and moved >= COLUMNS


class OutputOrder:
    """Rows in the order in which they are written: stretches of it, one behind the other.

    Each is an array of row numbers and, if rows are to be moved, its moves to places counted from its first row.
    """

    def __init__(self, stretches: Sequence[Order], moves: Sequence[Moves] = ()) -> None:
        self._stretches, self._moves = stretches, moves
        self._rows: Order | None = None

    @property
    def rows(self) -> Order:
        """The row numbers of all stretches."""
        if self._rows is None:
            self._rows = self._stretches[0] if len(self._stretches) == 1 else np.concatenate(self._stretches)
        return self._rows

    def put(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """The entries in order, until the next call of the thread; None where there are no moves."""
        if not self._moves:
            return None
        out, low = _ROOM.empty(sum(map(len, self._moves)), entries.dtype), 0
        for moves in self._moves:
            move(entries, moves, out[low : low + len(moves)])
            low += len(moves)
        return out

    def place(
        self, fs: Fs, regions: Sequence[FileRegion | None], sizes: Sequence[int], entries: FixedEntries | RankedIds
    ) -> tuple[npt.NDArray[Any], PlacedEntries] | None:
        """The entries of files in order, of sources with so many rows; None, in doubt, as ``place_files`` says."""
        if not self._moves or not is_possible(sizes):
            return None
        dtype = entries.dtype if isinstance(entries, FixedEntries) else np.dtype(np.int32)
        out = _ROOM.empty(sum(map(len, self._moves)), dtype)
        placed = place_files(fs, regions, sizes, self._moves, entries, out)
        return None if placed is None else (out, placed)


def planned(order: Order, sizes: Sequence[int]) -> Moves:
    """The moves of one stretch, of sources with so many rows."""
    return plan_moves(order, windows_of(sizes))


def store_stretch(fs: Fs, path: Path, order: Order, moves: Moves | None) -> None:
    """Writes a stretch to work files, for tasks."""
    fs.write_new(path, order.data.cast("B"))  # type: ignore[arg-type]
    if moves is not None:
        for name, array in ((_origins(path), moves.origins), (_places(path), moves.places)):
            fs.write_new(name, array.data.cast("B"))  # type: ignore[arg-type]


def load_order(fs: Fs, paths: Sequence[Path], *, moved: bool) -> OutputOrder:
    """What was written, mapped; a stretch without rows has no part in it. ``moved``: with its moves."""
    sizes = [(path, stat.size) for path in paths if (stat := fs.stat(path)) is not None and stat.size]

    def mapped(path: Path, size: int) -> Order:
        return np.frombuffer(fs.map(path, size), np.uint32)

    moves = [Moves(mapped(_origins(path), size), mapped(_places(path), size)) for path, size in sizes] if moved else []
    return OutputOrder([mapped(path, size) for path, size in sizes], moves)


def _origins(path: Path) -> Path:
    return path.with_name(f"{path.name}-origins")


def _places(path: Path) -> Path:
    return path.with_name(f"{path.name}-places")
