"""Writes one piece of a date into the staged locations: every column at its own row offset, one column at a time.

A piece first brings its rows of a column together in source order (a sequential read), then takes them in the order
of the result in chunks that fit the processor's cache, and writes each chunk where it belongs. What is in memory is
the order (4 bytes a row), the chosen row numbers (4 bytes a row) and one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from store.errors import MergeError, SchemaMismatchError
from store.format.prefix import DATA_OFFSET, charset_of
from store.fs import Fs
from store.schema.model import Column, Kind, Storage
from writers.merge.keys import INT_NULL, Words, look_up
from writers.merge.order import Bound, Keys, Selection, Unions, order_of, select
from writers.merge.plan import MergePlan
from writers.merge.proof import Digests
from writers.merge.source import decode_texts
from writers.merge.survey import load_unions

CHUNK_ROWS = 1 << 17
Rows = tuple[npt.NDArray[np.uint32] | None, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A task: the rows between two bounds. The rest says where they go, per destination; see ``survey.Counts``."""

    plan: MergePlan
    lower: Bound | None
    upper: Bound | None
    rows: tuple[int, ...] | None = None  # expected rows
    first_rows: tuple[int, ...] | None = None
    first_bytes: Mapping[str, tuple[int, ...]] | None = None
    used: Mapping[str, npt.NDArray[np.bool_]] | None = None
    unions: Path | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """Where a grouping column changes in a destination: its words and the rows at which each run starts."""

    words: Words
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Written:
    """What a piece did: rows per destination, digests of the source rows, runs of grouping columns.

    A run list is None where a value comes back after another one, so that the column is not grouped.
    ``symbols`` is per column and destination which strings of the union are in use.
    """

    rows: tuple[int, ...]
    digests: dict[str, int]
    runs: dict[str, tuple[Runs | None, ...]]
    symbols: dict[str, npt.NDArray[np.bool_]]


Segment = tuple[int, int, int]  # destination, positions from and to in the order


def write_piece(fs: Fs, piece: Piece, unions: Unions | None = None) -> Written:
    """Writes the rows of a piece; raises MergeError if they are not as many as were counted before."""
    plan = piece.plan
    if unions is None:
        assert piece.unions is not None  # noqa: S101
        unions = load_unions(fs, piece.unions)
    keys = Keys(fs, plan, unions)
    selection = select(keys, piece.lower, piece.upper)
    order = order_of(selection)
    segments = _segments(selection, order, len(plan.destinations))
    counts = tuple(stop - start for _, start, stop in segments)
    if piece.rows is not None and counts != piece.rows:
        raise MergeError(
            "a source changed while it was merged",
            where=f"{plan.table} {plan.value}",
            expected=f"{piece.rows} rows",
            found=f"{counts} rows",
            hint="merge the date again",
            phase="stage",
        )
    runs = _all_runs(piece, selection, order, segments)
    rows, total = selection.rows, selection.total
    del selection
    writer = _Writer(fs, piece, keys, unions, rows, total, order, segments)
    for column in plan.columns:
        writer.column(column)
    return Written(counts, writer.digests.totals, runs, writer.symbols)


def _segments(selection: Selection, order: npt.NDArray[np.uint32], destinations: int) -> list[Segment]:
    if destinations == 1:
        return [(0, 0, len(order))]
    ends = np.cumsum(np.bincount(selection.keys[0], minlength=destinations)).tolist()
    return [(i, 0 if i == 0 else ends[i - 1], end) for i, end in enumerate(ends)]


def _all_runs(
    piece: Piece, selection: Selection, order: npt.NDArray[np.uint32], segments: list[Segment]
) -> dict[str, tuple[Runs | None, ...]]:
    plan = piece.plan
    lead = len(plan.destinations) > 1
    found: dict[str, tuple[Runs | None, ...]] = {}
    for place, column in enumerate(plan.schema.grouping):
        words = selection.keys[place + lead][order]
        firsts = piece.first_rows or (0,) * len(segments)
        found[column.name] = tuple(_runs(words[a:b], firsts[d]) for d, a, b in segments)
    return found


def _runs(words: Words, first: int) -> Runs | None:
    starts = np.flatnonzero(words[1:] != words[:-1]) + 1
    starts = np.concatenate([np.zeros(min(1, len(words)), np.int64), starts])
    values = words[starts]
    if len(np.unique(values)) < len(values):
        return None
    return Runs(values, starts + first)


class _Writer:
    def __init__(
        self,
        fs: Fs,
        piece: Piece,
        keys: Keys,
        unions: Unions,
        rows: Rows,
        total: int,
        order: npt.NDArray[np.uint32],
        segments: list[Segment],
    ) -> None:
        self.fs, self.piece, self.plan, self.keys, self.unions = fs, piece, piece.plan, keys, unions
        self.rows, self.total, self.order, self.segments = rows, total, order, segments
        self.firsts = piece.first_rows or (0,) * len(self.plan.destinations)
        self.digests = Digests(self.plan.schema)
        self.symbols: dict[str, npt.NDArray[np.bool_]] = {}

    def column(self, column: Column) -> None:
        """Writes one column of all destinations."""
        if column.kind is Kind.PARTITIONING:
            return
        {Storage.FIXED: self._fixed, Storage.SYMBOL: self._symbol, Storage.BLOB: self._blob}[column.storage](column)

    def _path(self, destination: int, name: str) -> Path:
        return self.plan.destinations[destination].stage(self.plan.table, self.plan.value) / name

    def _chosen(self) -> Iterator[tuple[int, int, int, npt.NDArray[np.intp] | None, int, int]]:
        """Blocks of sources that have rows here: source, block, rows in it (None = all), place in source order."""
        place = 0
        for index, source in enumerate(self.plan.sources):
            rows = self.rows[index]
            for first, stop in source.blocks():
                if rows is None:
                    count, picked = stop - first, None
                else:
                    a, b = np.searchsorted(rows, [first - source.start, stop - source.start])
                    count, picked = int(b - a), rows[a:b].astype(np.intp) - (first - source.start)
                if count:
                    yield index, first, stop, picked, place, count
                place += count

    def _gather(self, column: Column) -> npt.NDArray[Any]:
        """The column's entries (ranks for symbols) of this piece in source order."""
        symbol = column.storage is Storage.SYMBOL
        gathered = np.empty(self.total, np.dtype(np.int32 if symbol else column.type.numpy))
        for index, first, stop, picked, place, count in self._chosen():
            block = (
                self.keys.ranks(index, column, first, stop)
                if symbol
                else self.keys.open(index, column).entries(first, stop)
            )
            target = gathered[place : place + count]
            if picked is None:
                target[:] = block
            else:
                np.take(block, picked, out=target, mode="clip")
        return gathered

    def _fixed(self, column: Column) -> None:
        gathered = self._gather(column)
        self.digests.fixed(column, gathered)
        for destination, start, stop in self.segments:
            self._scatter(column, gathered, destination, start, stop)

    def _scatter(
        self,
        column: Column,
        gathered: npt.NDArray[Any],
        destination: int,
        start: int,
        stop: int,
        lut: npt.NDArray[np.int32] | None = None,
    ) -> None:
        path = self._path(destination, column.files[0])
        base = self.firsts[destination] - start
        chunk = np.empty(min(CHUNK_ROWS, stop - start), gathered.dtype)
        for low in range(start, stop, CHUNK_ROWS):
            high = min(low + CHUNK_ROWS, stop)
            part = chunk[: high - low]
            np.take(gathered, self.order[low:high].astype(np.intp), out=part, mode="clip")
            if lut is not None:
                part = look_up(lut, part)
            self.fs.write_at(path, DATA_OFFSET + (base + low) * column.width, part.data.cast("B"))

    def _symbol(self, column: Column) -> None:
        gathered = self._gather(column)
        union = self.unions[column.name]
        self.digests.ranks(column, gathered, union)
        used = self._used(column, gathered, len(union))
        self.symbols[column.name] = used
        for destination, start, stop in self.segments:
            self._scatter(column, gathered, destination, start, stop, _narrow(used[destination]))

    def _used(self, column: Column, ranks: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.bool_]:
        if self.piece.used is not None:
            return self.piece.used[column.name]
        used = np.zeros((len(self.segments), size), bool)
        for destination, start, stop in self.segments:
            present = ranks if len(self.segments) == 1 else ranks[self.order[start:stop]]
            used[destination, present[present != INT_NULL]] = True
        return used

    def _blob(self, column: Column) -> None:
        parts = []
        for index, first, stop, picked, _, _ in self._chosen():
            source = self.keys.open(index, column)
            if source.encoding not in (None, charset_of(column)):
                raise SchemaMismatchError(
                    f"column {column.name} is stored in another charset than the schema declares",
                    where=source.source.directory,
                    expected=charset_of(column),
                    found=source.encoding,
                )
            block = source.blobs(first, stop)
            parts.append(block if picked is None else block.take(pa.array(picked)))
        gathered = pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())
        del parts
        for low in range(0, len(gathered), CHUNK_ROWS):
            part = gathered.slice(low, CHUNK_ROWS)
            self.digests.texts(column, decode_texts(part, charset_of(column), f"column {column.name}"))
        firsts = (self.piece.first_bytes or {}).get(column.name, (0,) * len(self.segments))
        for destination, start, stop in self.segments:
            dat, text = (self._path(destination, name) for name in column.files)
            end = firsts[destination]
            for low in range(start, stop, CHUNK_ROWS):
                high = min(low + CHUNK_ROWS, stop)
                taken = gathered.take(pa.array(self.order[low:high], pa.uint32()))
                _, offsets, data = taken.buffers()
                ends = np.frombuffer(offsets, np.int64, high - low + 1)[1:] + end
                if int(ends[-1]) > end:
                    self.fs.write_at(text, end, memoryview(data)[: int(ends[-1]) - end])
                row = self.firsts[destination] + low - start
                self.fs.write_at(dat, DATA_OFFSET + row * 8, ends.data.cast("B"))
                end = int(ends[-1])


def _narrow(used: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32] | None:
    """Lookup from ranks of the union to ids of a destination; None if it has them all."""
    if used.all():
        return None
    lut = np.full(len(used) + 1, INT_NULL, np.int32)
    lut[:-1][used] = np.arange(int(used.sum()), dtype=np.int32)
    return lut
