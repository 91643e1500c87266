"""Distributes the writing of a date's staged locations over workers.

A small date is one task. For a large one, workers order pieces of it, then write whole columns. A date too large for
that is cut into pieces that fit a worker's memory: tasks count ranges of rows, then write their piece of every column.

A piece has rows of each page of each source. To write many pieces from the sources would read all of them as often;
instead the rows of each source are first parted: written to column files in the work directory, one location a piece
and source, in the order of the source. While they pass they are counted, digested, and compared with the committed
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
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.digest import CACHED_ROWS
from sparkhaven.store.format.column.prefix import DATA_OFFSET, plain_prefix
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.native.rows import Bound, TextRows, count_ids, parted
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Storage
from sparkhaven.writers.merge.plan.dropped_columns import RankedUnions, Unions, late_columns
from sparkhaven.writers.merge.plan.merge_plan import MOVE_BYTES, MergePlan
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import ColumnSource, MergeSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, look_up
from sparkhaven.writers.merge.write.date_survey import Counts, Stretch, cells_of, measure, pieces_of, store_used, unions
from sparkhaven.writers.merge.write.dictionaries import find_union, fits_slice, load_unions, store_unions, stored_texts
from sparkhaven.writers.merge.write.finish import Finished, finish
from sparkhaven.writers.merge.write.indexes import (
    IndexTask,
    KeyRows,
    planned_indexes,
    symbol_groups,
    with_indexes,
    write_index,
)
from sparkhaven.writers.merge.write.parquet_check import ParquetTask, write_parquet
from sparkhaven.writers.merge.write.row_order import (
    Keys,
    OutputOrder,
    are_worth_planning,
    bounds,
    order_of,
    planned,
    select,
)
from sparkhaven.writers.merge.write.staging import (
    ColumnWrite,
    OrderTask,
    Piece,
    Run,
    Runs,
    StagedPiece,
    all_runs,
    at_once,
    order_piece,
    segments_of,
    source_changed,
    write_column,
    write_piece,
    write_segments,
)

ROW_COST = 64  # bytes of a row that is parted, beside those of its widest column
Part = tuple[int, int, int, int]  # of a block: piece, rows that it has already, first and last of the ordered rows
WORTH = 4  # pieces from which on sources are read once
ROW_BYTES = 4  # the number of a row in the order
SORTED = 4  # times as long as copying a text takes until it is sorted


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


def stage_date(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], split: bool, now_ms: int, *, threads: bool = False
) -> tuple[list[StagedPiece], list[Finished]]:
    """Writes every destination's location, complete except ``table.size``; ``split`` cuts the date as planned.

    ``now_ms``: the time of the merge. ``threads``: tasks of ``run`` share memory, and begin in their order.
    """
    for destination in plan.destinations:
        fs.mkdirs(destination.stage(plan.table, plan.value))
    by_columns, late = split and plan.by_columns(), late_columns(plan)
    texts: Unions = {}
    if plan.sources and not (split or late or len(plan.destinations) > 1) and fits_slice(plan):
        texts = RankedUnions(Columns(fs, plan))  # which only the order needs: the piece completes it
    elif plan.sources:
        texts = prepare(fs, plan, stored=split or not fits_slice(plan), late=late if by_columns else ())
    used: Mapping[str, npt.NDArray[np.bool_]] = {}
    if not plan.sources:  # a date without rows: an empty location in each destination
        count = len(plan.destinations)
        texts = {column.name: pa.array([], pa.string()) for column in plan.symbol_columns}
        used = {name: np.zeros((count, 0), np.bool_) for name in texts}
        written = [StagedPiece((0,) * count, {}, {})]
    elif by_columns:
        written = _stage_columns(fs, plan, run, texts, threads)
    elif split:
        written, used = _stage_pieces(fs, plan, run, texts)
    else:
        written = [write_piece(fs, Piece(plan, None, None), texts, run)]
    finished = []
    keys: dict[tuple[int, str], KeyRows | None] = {}
    for index, destination in enumerate(plan.destinations):
        rows = sum(piece.rows[index] for piece in written)
        if rows or not plan.sources:
            groups = plan.schema.grouping if plan.sources else ()
            runs = {c.name: [part.runs[c.name][index] for part in written if part.runs] for c in groups}
            finished.append(finish(fs, plan, index, rows, runs, used, texts))
            for column in groups if rows else ():
                if column.storage is Storage.SYMBOL:
                    keys[index, column.name] = symbol_groups(runs[column.name], rows, texts[column.name])
        else:
            fs.remove_tree(destination.stage_root / destination.internal)
    finished = _indexed(fs, plan, run, finished, keys, now_ms)
    if plan.format != "deephaven":
        finished = list(run(partial(write_parquet, fs), [ParquetTask(plan, location) for location in finished]))
    return written, finished


def _indexed(
    fs: Fs,
    plan: MergePlan,
    run: Run[Any, Any],
    finished: list[Finished],
    keys: Mapping[tuple[int, str], KeyRows | None],
    now_ms: int,
) -> list[Finished]:
    """The locations with their indexes, each of which is a task; ``keys``: of grouping columns by destination."""
    names = [planned_indexes(plan, location) for location in finished]
    tasks = [
        IndexTask(plan, one, columns, now_ms, keys.get((one.destination, columns[0])) if len(columns) == 1 else None)
        for one, own in zip(finished, names, strict=True)
        for columns in own
    ]
    written = iter(run(partial(write_index, fs), tasks) if tasks else ())
    return [with_indexes(one, [next(written) for _ in own]) for one, own in zip(finished, names, strict=True)]


def prepare(fs: Fs, plan: MergePlan, *, stored: bool, late: Sequence[Column] = ()) -> Unions:
    """The distinct texts of columns that need them, mapped from work files if ``stored``.

    They are stored if the date is split into tasks, or if they are too many to sort at once. Those of ``late`` columns
    are left to tasks.
    """
    if not stored:
        return unions(fs, plan)
    fs.mkdirs(plan.work)
    store_unions(fs, plan, late)
    return load_unions(fs, plan)


def _stage_columns(fs: Fs, plan: MergePlan, run: Run[Any, Any], texts: Unions, threads: bool) -> list[StagedPiece]:
    """Orders one piece per worker; then writes the columns, those that take longest first.

    Threads share one order if a column has many texts to sort, and there is memory for it.
    """
    late = late_columns(plan)
    columns = sorted(plan.columns, key=lambda column: _cost(plan, column, column in late), reverse=True)
    if threads and plan.options.max_columns is None and is_worth_sharing(plan):
        return write_together(fs, plan, run, columns)
    cuts = [None, *bounds(Keys(fs, plan, texts), plan.options.workers), None]
    orders = [
        OrderTask(plan, lower, upper, plan.work / f"order-{index}")
        for index, (lower, upper) in enumerate(pairwise(cuts))
    ]
    written: list[StagedPiece] = []
    before = [0] * len(plan.destinations)
    for ordered in run(partial(order_piece, fs), orders):
        written.append(StagedPiece(ordered.rows, {}, _moved(ordered, before)))
        before = [sum(pair) for pair in zip(before, ordered.rows, strict=True)]
    if sum(before) != plan.rows:
        raise source_changed(plan, plan.rows, sum(before))
    paths = tuple(task.target for task in orders)
    tasks = [ColumnWrite(plan, column, tuple(before), paths, column in late) for column in columns]
    written += at_once(run, plan)(partial(write_column, fs), tasks)
    return written


def _cost(plan: MergePlan, column: Column, late: bool) -> int:
    """Bytes of a column; a text of one that is ``late`` is handled several times until it has a rank."""
    return stored_texts(plan, column) * (SORTED if late else 1) + plan.rows * column.width


def _moved(ordered: StagedPiece, before: Sequence[int]) -> dict[str, tuple[Runs | None, ...]]:
    """Runs of a piece as rows of the destinations; runs of a piece without rows in a destination are empty."""
    return {
        name: tuple(
            None if part is None else Runs(part.words, part.starts + first)
            for part, first in zip(parts, before, strict=True)
        )
        for name, parts in ordered.runs.items()
    }


def _stage_pieces(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], texts: Unions
) -> tuple[list[StagedPiece], Mapping[str, npt.NDArray[np.bool_]]]:
    """The pieces, and per column and destination the symbols in use."""
    cuts, most = tuple(bounds(Keys(fs, plan, texts), plan.ranges())), plan.options.sizes.stretch_rows
    if is_worth_parting(plan, len(cuts) + 1):
        return _stage_parted(fs, plan, run, cuts)
    stretches = [
        Stretch(plan, index, first, min(first + most, len(source)), cuts)
        for index, source in enumerate(plan.sources)
        for first in range(0, len(source), most)
    ]
    counts = Counts.add(run(partial(measure, fs), stretches))
    store_used(fs, plan, counts.used)
    return list(run(partial(write_piece, fs), list(pieces(plan, cuts, counts).values()))), counts.used


def _stage_parted(
    fs: Fs, plan: MergePlan, run: Run[Any, Any], cuts: tuple[tuple[int, ...], ...]
) -> tuple[list[StagedPiece], Mapping[str, npt.NDArray[np.bool_]]]:
    """The pieces from rows that are parted first: what was read of the sources is proved by that pass."""
    parted = list(run(partial(part_rows, fs), [SourceRows(plan, index, cuts) for index in range(len(plan.sources))]))
    counts = Counts.add(part.counts for part in parted)
    store_used(fs, plan, counts.used)
    wide = len(plan.destinations)
    written = [StagedPiece((0,) * wide, part.digests, {}, part.verified) for part in parted]
    tasks = [
        replace(piece, plan=piece_plan(plan, parted, number), lower=None, upper=None)
        for number, piece in pieces(plan, cuts, counts).items()
    ]
    for task, done in zip(tasks, run(partial(write_piece, fs), tasks), strict=True):
        written.append(replace(done, digests={}, verified=frozenset()))
        remove_piece(fs, task.plan)
    return written, counts.used


def pieces(plan: MergePlan, cuts: Sequence[tuple[int, ...]], counts: Counts) -> dict[int, Piece]:
    """The tasks that write a date, by number, each with its position in every destination; none without rows."""
    before_rows = counts.rows.cumsum(axis=0) - counts.rows
    before_bytes = {name: array.cumsum(axis=0) - array for name, array in counts.blobs.items()}
    cut = {}
    for index in range(len(cuts) + 1):
        if not counts.rows[index].any():
            continue
        cut[index] = Piece(
            plan,
            cuts[index - 1] if index else None,
            cuts[index] if index < len(cuts) else None,
            tuple(counts.rows[index].tolist()),
            tuple(before_rows[index].tolist()),
            {name: tuple(array[index].tolist()) for name, array in before_bytes.items()},
            True,
        )
    return cut
