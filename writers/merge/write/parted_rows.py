"""Parts the rows of a large date by the pieces that are written of it, so that each source is read once.

A piece has rows of each page of each source. To write many pieces from the sources would read all of them as often;
instead the rows of each source are first written to column files in the work directory, one location a piece and
source, in the order of the source. While they pass they are counted, digested, and compared with the committed
checksums. The sum of these digests is what a merge took in: what became of the rows since is proved against it.

A date that one process writes has one order of rows for all threads: one of them puts the rows in order, others begin
with what does without. Nothing of the order goes through work files. A thread that writes a column waits for it where
it needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkhaven.store.digest.column_digest import CACHED_ROWS
from sparkhaven.store.format.column.prefix import DATA_OFFSET, plain_prefix
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.native.rows import Bound, TextRows, count_ids, parted
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import late_columns
from sparkhaven.writers.merge.plan.merge_plan import MOVE_BYTES, MergePlan
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.sources.merge_source import ColumnSource, MergeSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, look_up
from sparkhaven.writers.merge.write.date_survey import Counts, cells_of, pieces_of
from sparkhaven.writers.merge.write.dictionaries import find_union, load_unions, stored_texts
from sparkhaven.writers.merge.write.row_order import Keys, OutputOrder, are_worth_planning, order_of, planned, select
from sparkhaven.writers.merge.write.staging import (
    Run,
    StagedPiece,
    all_runs,
    segments_of,
    source_changed,
    write_segments,
)

ROW_COST = 64  # bytes of a row that is parted, beside those of its widest column
Part = tuple[int, int, int, int]  # of a block: piece, rows that it has already, first and last of the ordered rows
WORTH = 4  # pieces from which on sources are read once


@dataclass(frozen=True, slots=True)
class SourceRows:
    """A task: part the rows of one source by the pieces between the bounds."""

    plan: MergePlan
    index: int
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class PartedRows:
    """What a task counted, digested and verified, and the source's rows of each piece."""

    counts: Counts
    digests: dict[str, int]
    verified: Set[tuple[int, str]]
    parts: tuple[MergeSource, ...]


def is_worth_parting(plan: MergePlan, pieces: int) -> bool:
    """Not with few pieces, nor with sets, whose bits are those of all their rows."""
    return pieces >= WORTH and not any(column.storage is Storage.SET for column in plan.columns)


def part_rows(fs: Fs, task: SourceRows) -> PartedRows:
    """Writes the rows of a source to the work directory. Raises what reading them raises."""
    return _Parting(fs, task).run()


def piece_plan(plan: MergePlan, parted: list[PartedRows], piece: int) -> MergePlan:
    """The plan of one piece, whose sources are what was parted."""
    sources = tuple(part.parts[piece] for part in parted)
    return replace(plan, sources=sources, options=replace(plan.options, verify_sources=False))


def remove_piece(fs: Fs, plan: MergePlan) -> None:
    """Removes what was parted for a piece, which is written."""
    for source in plan.sources:
        fs.remove_tree(source.directory)


class _Parting:
    def __init__(self, fs: Fs, task: SourceRows) -> None:
        sources = tuple(replace(source, alone=task.plan.options.sizes.copied_bytes) for source in task.plan.sources)
        self.plan = replace(task.plan, sources=sources)
        self.fs, self.index, self.bounds = fs, task.index, task.bounds
        self.source, self.texts = sources[task.index], load_unions(fs, task.plan)
        self.keys = Keys(fs, self.plan, self.texts)
        self.digests = Digests(task.plan.schema)
        self.pieces, self.wide = len(task.bounds) + 1, len(task.plan.destinations)
        self.directories = [task.plan.work / f"part-{piece}-{task.index}" for piece in range(self.pieces)]
        self.paths = {
            name: [directory / name for directory in self.directories]
            for column in task.plan.columns
            for name in column.files[: 2 if column.storage is Storage.BLOB else 1]
        }
        self.rows = np.zeros(self.pieces * self.wide, np.int64)
        self.blobs = {c.name: np.zeros(len(self.rows), np.int64) for c in self.plan.blob_columns}
        self.ends = {c.name: [0] * self.pieces for c in self.plan.blob_columns}  # bytes that a piece has
        symbols = self.plan.symbol_columns
        self.used = {c.name: np.zeros((self.wide, len(self.texts[c.name])), np.bool_) for c in symbols}
        self.numbers = {c.name: np.zeros(len(self.texts[c.name]) + 1, np.int64) for c in symbols}
        self.sums: dict[str, int] = {}  # CRC-32 of what was read of a file

    def run(self) -> PartedRows:
        for directory in self.directories:
            self.fs.mkdirs(directory)
        done = np.zeros(self.pieces, np.int64)
        for first, stop in self.source.blocks(self._block_rows()):
            destination, numbers = pieces_of(self.keys, self.index, first, stop, self.bounds)
            here, cell = np.bincount(numbers, minlength=self.pieces), cells_of(destination, numbers, self.wide)
            self.rows += np.bincount(cell, minlength=len(self.rows))
            ends = np.cumsum(here)
            slices = [
                (number, int(done[number]), int(ends[number] - here[number]), int(ends[number]))
                for number in np.flatnonzero(here).tolist()
            ]
            order = parted(np.arange(stop - first, dtype=np.uint32), numbers, here) if self.blobs else None
            for column in self.plan.columns:
                if order is not None and column.storage is Storage.BLOB:
                    self._blobs(column, first, stop, cell, order, slices)
                    continue
                entries = self._entries(column, first, stop, destination)
                self._write(column, parted(entries, numbers, here), slices)
            done += here
        for column in self.plan.symbol_columns:
            counted = self.numbers[column.name]
            self.digests.counted(column, self.texts[column.name], counted)
            if self.wide == 1:
                self.used[column.name][0] = counted[:-1] > 0
        shape = self.pieces, self.wide
        blobs = {name: array.reshape(shape) for name, array in self.blobs.items()}
        counts = Counts(self.rows.reshape(shape), blobs, self.used)
        parts = tuple(self._part(piece, rows) for piece, rows in enumerate(done.tolist()))
        return PartedRows(counts, self.digests.totals, self._verified(), parts)

    def _block_rows(self) -> int:
        """Rows that are read at once: as many as memory allows, so that few and long parts of them are written."""
        plan = self.plan
        return max(1, min(plan.options.sizes.parted_rows, plan.usable() // (ROW_COST + plan.row_cost())))

    def _entries(self, column: Column, first: int, stop: int, destination: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Entries of a block, counted and digested."""
        opened = self.keys.open(self.index, column)
        if column.storage is not Storage.SYMBOL:
            entries = opened.entries(first, stop)
            self._check(opened, column.files[0], entries)
            self.digests.fixed(column, entries)
            return entries
        lut = self.keys.lut(self.index, column)
        ids = opened.ids(first, stop, len(lut) - 1)
        self._check(opened, column.files[0], ids)
        ranks = look_up(lut, ids)
        count_ids(ranks, self.numbers[column.name])
        if self.wide > 1:
            valid = ranks != INT_NULL
            self.used[column.name][destination[valid], ranks[valid]] = True
        return ids

    def _blobs(
        self,
        column: Column,
        first: int,
        stop: int,
        cell: npt.NDArray[np.int64],
        order: npt.NDArray[np.uint32],
        slices: list[Part],
    ) -> None:
        opened = self.keys.open_blobs(self.index, column)
        values = opened.blobs(first, stop)
        if opened.as_stored:
            self._check(opened, column.files[0], opened.entries(first, stop))
            self._check(opened, column.files[1], np.frombuffer(values.buffers()[2], np.uint8))
        for low in range(0, len(values), CACHED_ROWS):
            self.digests.encoded(column, values.slice(low, CACHED_ROWS), f"column {column.name}")
        ends = np.frombuffer(values.buffers()[1], np.int64, values.offset + len(values) + 1)[values.offset :]
        lengths = np.diff(ends)
        # sums of integers below 2^53 are exact in float64
        self.blobs[column.name] += np.bincount(cell, weights=lengths, minlength=len(self.rows)).astype(np.int64)
        texts, octets = TextRows([values]), np.empty(self.plan.options.sizes.chunk_bytes, np.uint8)
        stops = np.empty(len(order), np.int64)
        for piece, done, low, high in slices:
            begun = low
            end = self.ends[column.name][piece]
            while low < high:
                taken = texts.take(order[low:high], end, stops, octets)
                if not taken:  # a text that is larger than others together
                    octets = np.empty(2 * len(octets), np.uint8)
                    continue
                size = int(stops[taken - 1]) - end
                if size:
                    self.fs.write_at(self.paths[column.files[1]][piece], end, octets[:size].data)
                self._put(column, piece, done + low - begun, stops[:taken])
                end, low = end + size, low + taken
            self.ends[column.name][piece] = end

    def _write(self, column: Column, ordered: npt.NDArray[Any], slices: list[Part]) -> None:
        for piece, done, low, high in slices:
            self._put(column, piece, done, ordered[low:high])

    def _put(self, column: Column, piece: int, done: int, entries: npt.NDArray[Any]) -> None:
        path = self.paths[column.files[0]][piece]
        if not done:
            self.fs.write_at(path, 0, plain_prefix(column))
        self.fs.write_at(path, DATA_OFFSET + done * column.width, entries.view(np.uint8).data)

    def _check(self, opened: ColumnSource, name: str, entries: npt.NDArray[Any]) -> None:
        """Sums the bytes of a file that is read as it lies there, from its first row on."""
        if opened.as_stored and self.source.kept is None and self.source.of(opened.column) is self.source:
            self.sums[name] = crc32(entries.view(np.uint8).data, self.sums.get(name, 0))

    def _verified(self) -> Set[tuple[int, str]]:
        files, whole = self.source.files, self.source.start == 0 and self.source.stop == self.source.rows
        names = [name for name, crc in self.sums.items() if name in files and files[name].crc == crc]
        return {(self.index, name) for name in names} if whole else frozenset()

    def _part(self, piece: int, rows: int) -> MergeSource:
        files: Mapping[str, FileState] = {}
        if rows:
            sizes = {column.files[0]: rows * column.width for column in self.plan.columns}
            sizes |= {column.files[1]: self.ends[column.name][piece] for column in self.plan.blob_columns}
            files = {name: FileState(size, 0) for name, size in sizes.items()}
        return MergeSource(self.directories[piece], "", "", 0, 0, 0, rows, rows, files)


ROW_BYTES = 4  # the number of a row in the order


def fits_threads(plan: MergePlan) -> bool:
    """Whether a worker can put all rows in order, and then hold the order and one whole column."""
    return plan.rows * (plan.row_cost() + ROW_BYTES + MOVE_BYTES) <= plan.usable() and plan.rows < 1 << 32


def is_worth_sharing(plan: MergePlan) -> bool:
    """Whether a column has so many texts to sort that nobody waits for the order; else pieces are ordered at once."""
    most = max((stored_texts(plan, column) for column in late_columns(plan)), default=0)
    return most >= plan.options.sizes.sorted_bytes * plan.rows and fits_threads(plan)


@dataclass(frozen=True, slots=True)
class _Ordered:
    order: OutputOrder
    rows: tuple[int, ...]  # by destination


class SharedOrder:
    """The order of all rows of a date, and the columns that are written in it. Every row has one place in it."""

    def __init__(self, fs: Fs, plan: MergePlan) -> None:
        self._fs, self._plan, self._late = fs, plan, late_columns(plan)
        self._ordered: Future[_Ordered] = Future()

    def find(self) -> StagedPiece:
        """Puts the rows in order. MergeError: they are not as many as planned; who waits for the order gets it too."""
        try:
            ordered, piece = self._find()
        except BaseException as error:
            self._ordered.set_exception(error)
            raise
        self._ordered.set_result(ordered)
        return piece

    def _find(self) -> tuple[_Ordered, StagedPiece]:
        plan = self._plan
        selection = select(Keys(self._fs, plan, load_unions(self._fs, plan)), None, None)
        if selection.total != plan.rows:
            raise source_changed(plan, plan.rows, selection.total)
        order: npt.NDArray[np.uint32] = order_of(selection)
        segments = segments_of(selection, order, len(plan.destinations))
        runs, counts = all_runs(plan, None, selection, order, segments), selection.counts
        del selection
        moves = [planned(order, counts)] if are_worth_planning(plan, plan.rows) and len(order) else []
        rows = tuple(stop - start for _, start, stop in segments)
        return _Ordered(OutputOrder([order], moves), rows), StagedPiece(rows, {}, runs)

    def write(self, column: Column) -> StagedPiece:
        """Writes a column of all destinations, as soon as there is the order."""
        fs, plan = self._fs, self._plan
        unions = find_union(fs, plan, column) if column in self._late else load_unions(fs, plan)
        ordered = self._ordered.result()
        return write_segments(fs, plan, column, unions, ordered.order, ordered.rows)


def order_and_write(shared: SharedOrder, column: Column | None) -> StagedPiece:
    """A task: a column, or the order."""
    return shared.find() if column is None else shared.write(column)


def write_together(fs: Fs, plan: MergePlan, run: Run[Any, Any], columns: Sequence[Column]) -> list[StagedPiece]:
    """The rows in order and all columns, those first that are named first; ``run`` begins tasks as they are given."""
    return list(run(partial(order_and_write, SharedOrder(fs, plan)), [None, *columns]))
