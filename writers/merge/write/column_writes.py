"""Writes columns in a given order into the staged locations, one column at a time.

A column's rows are first read in source order (sequentially), then reordered in chunks that fit the processor's cache,
and each chunk is written to its destination. In memory are the order (4 bytes per row), the selected row numbers if not
all (4 bytes per row), and one column for each that is written at once; of a small date all that fit, read ahead.

A column of sets has one sorted symbol table for all locations of a date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.digest import fixed_entries
from sparkhaven.store.errors import MergeError
from sparkhaven.store.format.column.prefix import DATA_OFFSET, charset_of
from sparkhaven.store.format.column.symbols import encode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.sync import EarlySync
from sparkhaven.store.native.digests import FixedEntries
from sparkhaven.store.native.file_moves import RankedIds
from sparkhaven.store.native.rows import TextRows, gather, gather_ids
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS, Words, bits_in_use, moved_bits, sorted_texts
from sparkhaven.store.types.model import Column, Kind, Storage
from sparkhaven.writers.merge.plan.dropped_columns import Unions
from sparkhaven.writers.merge.plan.merge_plan import MergePlan, Rows, blocks_of
from sparkhaven.writers.merge.plan.merge_proof import Digests
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.sources.sort_keys import INT_NULL, look_up, picked
from sparkhaven.writers.merge.write.row_order import Keys, OutputOrder


def set_table(columns: Columns, column: Column) -> list[str]:
    """The texts of all sources, or, where these are more than a location may have, of those that rows have.

    MergeError: they are too many still.
    """
    plan = columns.plan
    sources = [columns.open(index, column) for index in range(len(plan.sources))]
    table = sorted_texts(source.symbols() for source in sources)
    if len(table) <= MOST_SYMBOLS:
        return table
    table = sorted_texts(source.symbols().filter(_in_use(source, plan.options.sizes.rows)) for source in sources)
    if len(table) > MOST_SYMBOLS:
        raise MergeError(
            f"sets of column {column.name} have too many texts for one location",
            where=f"{plan.table}, date {plan.value}",
            expected=f"at most {MOST_SYMBOLS} different texts in all sources of the date",
            found=f"{len(table)}",
            hint="declare the column as String[] in a new column, or split the date over tables",
        )
    return table


def _in_use(source: ColumnSource, rows: int) -> list[bool]:
    bits = 0
    for first, stop in source.source.blocks(rows):
        bits |= bits_in_use(source.entries(first, stop))
    return [bool(bits >> bit & 1) for bit in range(len(source.symbols()))]


def moved_words(source: ColumnSource, table: list[str], first: int, stop: int) -> Words:
    """The words of rows of a source, with the bits of the table."""
    bits = {text: bit for bit, text in enumerate(table)}
    targets = np.array([bits.get(text, -1) for text in source.symbols().to_pylist()], np.int64)
    return moved_bits(source.entries(first, stop), targets)


Segment = tuple[int, int, int]  # destination, positions from and to in the order


@dataclass(frozen=True, slots=True)
class WriteOffsets:
    """Where rows go in each destination: the first row, the first byte of each blob column, the symbols in use there.

    ``used`` None: the rows are all rows of the date, so the symbols in use are counted here.
    """

    first_rows: tuple[int, ...]
    first_bytes: Mapping[str, tuple[int, ...]]
    used: Mapping[str, npt.NDArray[np.bool_]] | None = None


class ColumnWriter:
    """Writes columns of the selected ``rows`` of each source, in ``order``, to the segments' destinations.

    ``syncs`` hears of each file once the rows are written.
    """

    def __init__(
        self,
        fs: Fs,
        offsets: WriteOffsets,
        keys: Keys,
        unions: Unions,
        rows: Rows,
        order: OutputOrder,
        segments: list[Segment],
        syncs: EarlySync,
    ) -> None:
        self.syncs = syncs
        self.fs, self.offsets, self.plan, self.keys, self.unions = fs, offsets, keys.plan, keys, unions
        self.rows, self.order, self.segments = rows, order, segments
        self.firsts, self.sizes = offsets.first_rows, keys.plan.options.sizes
        self.digests = Digests(self.plan.schema)

    def column(self, column: Column) -> None:
        if column.kind is Kind.PARTITIONING:
            return
        {
            Storage.FIXED: self._fixed,
            Storage.SYMBOL: self._symbol,
            Storage.BLOB: self._blob,
            Storage.SET: self._set,
        }[column.storage](column)

    def _path(self, destination: int, name: str) -> Path:
        return self.plan.destinations[destination].stage(self.plan.table, self.plan.value) / name

    def _placed(
        self, column: Column, entries_of: Callable[[], FixedEntries | RankedIds | None]
    ) -> npt.NDArray[Any] | None:
        """The entries in order, which come from the sources' files at once, digested if they are fixed.

        None where they are to be read before they are put in order.
        """
        regions = self.keys.regions(column) if all(rows is None for rows in self.rows) else None
        entries = entries_of() if regions is not None else None
        if regions is None or entries is None:
            return None
        ordered = self.order.place(self.fs, regions, list(map(len, self.plan.sources)), entries)
        if ordered is None:
            return None
        self.keys.columns.compare(column, ordered[1].crcs)
        if isinstance(entries, FixedEntries):
            self.digests.summed(column, ordered[1].sum)
        return ordered[0]

    def _fixed(self, column: Column) -> None:
        entries = ordered = self._placed(column, lambda: fixed_entries(column))
        if entries is None:
            entries = self.keys.entries(column, self.rows)
            self.digests.fixed(column, entries)
            ordered = self.order.put(entries)
        for destination, start, stop in self.segments:
            self._scatter(column, entries, ordered, (destination, start, stop))

    def _scatter(
        self,
        column: Column,
        entries: npt.NDArray[Any],
        ordered: npt.NDArray[Any] | None,
        segment: Segment,
        lut: npt.NDArray[np.int32] | None = None,
    ) -> None:
        """Writes the entries of a segment, which are taken from ``ordered`` if they are in order already."""
        destination, start, stop = segment
        path = self._path(destination, column.files[0])
        base = self.firsts[destination] - start
        most = self.sizes.chunk_rows
        chunk = np.empty(min(most, stop - start), entries.dtype)
        for low in range(start, stop, most):
            high = min(low + most, stop)
            picked = chunk[: high - low]
            if ordered is not None:
                picked = ordered[low:high] if lut is None else look_up(lut, ordered[low:high])
            elif lut is None:
                gather(entries, self.order.rows[low:high], picked)
            else:
                gather_ids(entries, self.order.rows[low:high], lut, picked)
            self.fs.write_at(path, DATA_OFFSET + (base + low) * column.width, picked.view(np.uint8).data)
        self.syncs.written(path, (stop - start) * column.width)

    def _set(self, column: Column) -> None:
        table = set_table(self.keys.columns, column)
        parts = []
        for index, first, stop, rows, _, _ in blocks_of(self.plan, self.rows):
            words = moved_words(self.keys.open(index, column), table, first, stop)
            parts.append(words if rows is None else words[rows])
        entries = np.concatenate(parts) if parts else np.empty(0, "<u8")
        self.digests.sets(column, entries, pa.array(table, pa.string()))
        for destination, start, stop in self.segments:
            self._scatter(column, entries, None, (destination, start, stop))

    def _symbol(self, column: Column) -> None:
        union = self.unions[column.name]
        counts = np.zeros(len(union) + 1, np.int64)
        entries = ordered = self._placed(column, lambda: RankedIds(self.keys.luts(column), counts))
        if entries is None:
            entries = self.keys.entries(column, self.rows)
            counts = self.digests.ranks(column, entries, union)
            ordered = self.order.put(entries)
            self._write_ranks(column, entries, ordered, counts)
        elif len(union) < self.sizes.hashed_beside or self.plan.options.workers == 1:
            self.digests.counted(column, union, counts)
            self._write_ranks(column, entries, ordered, counts)
        else:  # such a column is often the last one that is written
            from concurrent.futures import ThreadPoolExecutor  # which few columns need

            with ThreadPoolExecutor(1) as beside:
                hashing = beside.submit(self.digests.counted, column, union, counts)
                self._write_ranks(column, entries, ordered, counts)
                hashing.result()

    def _write_ranks(
        self,
        column: Column,
        ranks: npt.NDArray[np.int32],
        ordered: npt.NDArray[np.int32] | None,
        counts: npt.NDArray[np.int64],
    ) -> None:
        used = self._used(column, ranks, ordered, counts)
        for destination, start, stop in self.segments:
            self._scatter(column, ranks, ordered, (destination, start, stop), _narrow(used[destination]))
            if self.offsets.used is None:
                write_symbols(self.fs, self.plan, destination, column, used[destination], self.unions[column.name])

    def _used(
        self,
        column: Column,
        ranks: npt.NDArray[np.int32],
        ordered: npt.NDArray[np.int32] | None,
        counts: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        if self.offsets.used is not None:
            return self.offsets.used[column.name]
        if len(self.segments) == 1:
            return counts[None, :-1] > 0
        used = np.zeros((len(self.segments), len(counts) - 1), bool)
        for destination, start, stop in self.segments:
            for low in range(start, stop, self.sizes.chunk_rows):
                high = min(low + self.sizes.chunk_rows, stop)
                present = ranks[self.order.rows[low:high]] if ordered is None else ordered[low:high]
                used[destination, present[present != INT_NULL]] = True
        return used

    def _blob(self, column: Column) -> None:
        parts = []
        for index, first, stop, chosen, _, _ in blocks_of(self.plan, self.rows):
            block = self.keys.open_blobs(index, column).blobs(first, stop)
            parts.append(block if chosen is None else picked(block, chosen))
        for block in parts:
            for low in range(0, len(block), self.sizes.chunk_rows):
                self.digests.encoded(column, block.slice(low, self.sizes.chunk_rows), f"column {column.name}")
        rows = TextRows(parts)
        firsts = self.offsets.first_bytes.get(column.name, (0,) * len(self.segments))
        for destination, start, stop in self.segments:
            self._texts(column, rows, destination, start, stop, firsts[destination])

    def _texts(self, column: Column, rows: TextRows, destination: int, start: int, stop: int, first: int) -> None:
        """Writes the texts of a segment from byte ``first`` of the destination's file on."""
        dat, text = (self._path(destination, name) for name in column.files)
        end, low = first, start
        ends, octets = (
            np.empty(min(self.sizes.chunk_rows, stop - start), np.int64),
            np.empty(self.sizes.chunk_bytes, np.uint8),
        )
        while low < stop:
            written = rows.take(self.order.rows[low : min(low + len(ends), stop)], end, ends, octets)
            if not written:  # a text that is larger than others together
                octets = np.empty(2 * len(octets), np.uint8)
                continue
            size = int(ends[written - 1]) - end
            if size:
                self.fs.write_at(text, end, octets[:size].data)
            row = self.firsts[destination] + low - start
            self.fs.write_at(dat, DATA_OFFSET + row * column.width, ends[:written].data.cast("B"))
            end, low = end + size, low + written
        self.syncs.written(text, end - first)
        self.syncs.written(dat, (stop - start) * column.width)


def _narrow(used: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32] | None:
    """Lookup from ranks of the union to ids of a destination; None if it has them all."""
    if used.all():
        return None
    lut = np.full(len(used) + 1, INT_NULL, np.int32)
    lut[:-1][used] = np.arange(int(used.sum()), dtype=np.int32)
    return lut


def write_symbols(
    fs: Fs, plan: MergePlan, destination: int, column: Column, used: npt.NDArray[np.bool_], union: pa.Array
) -> None:
    """Writes the symbol table of a column of a destination: the texts of the union that are in use there."""
    location = plan.destinations[destination].stage(plan.table, plan.value)
    files = [location / name for name in column.files[1:]]
    sizes, most = [0] * len(files), plan.options.sizes.symbols
    for path in files:
        fs.write_new(path, b"")
    for first in range(0, len(union), most):
        texts, flags = union.slice(first, most), used[first : first + most]
        texts = texts if flags.all() else picked(texts, np.flatnonzero(flags))
        parts = encode_symbols(texts, charset_of(column), sizes[-1]) if len(texts) else ()
        for number, data in enumerate(parts):
            fs.write_at(files[number], sizes[number], data)
            sizes[number] += len(data)
