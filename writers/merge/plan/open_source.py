"""The columns of a plan's sources; small files of many sources are read together.

A date of many small sources has thousands of files. Those that are as nearly all are (the prefix of this very column,
all committed bytes, the committed checksum) are taken as they lie. Any other is in doubt, and opened by itself, which
says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.charset import WIDTH
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import crc32_each
from sparkhaven.store.native.file_moves import FileRegion
from sparkhaven.store.native.files import Octets, read_files
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.merge_source import ColumnSource
from sparkhaven.writers.merge.sources.parquet_source import open_source

TOGETHER = 4 << 20  # bytes of symbol tables that are read together
_Key = tuple[int, str]  # source, and name of a file or column


class Columns:
    """For threads that read different columns."""

    def __init__(self, fs: Fs, plan: MergePlan) -> None:
        self._fs, self.plan, self._sizes = fs, plan, plan.options.sizes
        self._taken: set[_Key] = set()
        self._doubted: set[_Key] = set()
        self._opened: dict[_Key, ColumnSource] = {}

    @property
    def verified(self) -> Set[_Key]:
        """Files that had their committed checksum whenever they were read."""
        return self._taken - self._doubted

    def open(self, index: int, column: Column) -> ColumnSource:
        key = (index, column.name)
        if key not in self._opened:
            self._opened[key] = open_source(self._fs, self.plan.sources[index], column)
        return self._opened[key]

    def small(self) -> bool:
        """Whether files of a typical source are small."""
        sources = len(self.plan.sources)
        return sources >= self._sizes.small_sources and self.plan.rows * WIDTH <= self._sizes.small_bytes * sources

    def entries(self, column: Column, out: npt.NDArray[Any]) -> Set[int]:
        """Reads raw entries into ``out``, which has a place for each row of the plan, by source.

        Returns the sources of which they were read. The others are to be opened by themselves.
        """
        taken: set[int] = set()
        chosen = [index for index in range(len(self.plan.sources)) if self._whole(index, column)]
        if len(chosen) < self._sizes.small_sources:
            return taken
        octets, head = out.view(np.uint8), encode_prefix(column)
        for run in _runs(chosen):
            first = self.plan.offset(run[0]) * column.width
            taken |= self._read(run, column.files[0], head, octets[first:])
        return taken

    def regions(self, column: Column) -> list[FileRegion | None] | None:
        """Where the entries of each source lie, None of one without rows; None where some lie otherwise than stored.

        Many small sources are read together.
        """
        regions: list[FileRegion | None] = []
        for index, source in enumerate(self.plan.sources) if not self.small() else ():
            regions.append(self.open(index, column).region if len(source) else None)
            if len(source) and regions[-1] is None:
                return None
        return regions or None

    def compare(self, column: Column, crcs: Sequence[int]) -> None:
        """Takes note of the CRC-32 of all rows that were read of each source, where these are all of its file."""
        if not self.plan.options.verify_sources:
            return
        for index, (source, crc) in enumerate(zip(self.plan.sources, crcs, strict=True)):
            whole = source.kept is None and source.start == 0 and source.stop == source.rows
            if not (whole and len(source) and source.of(column) is source):
                continue
            name = self.open(index, column).column.files[0]
            (self._taken if source.files[name].crc == crc else self._doubted).add((index, name))

    def symbols(self, column: Column) -> list[pa.Array]:
        """The symbol table of each source. Raises as ``open_source``, and what its ``symbols`` raise."""
        symbols: dict[int, pa.Array] = {}
        chosen = [index for index in range(len(self.plan.sources)) if self._whole(index, column)]
        names = column.files[1:]
        most = self._sizes.small_bytes
        chosen = [index for index in chosen if all(0 < self._size(index, name) <= most for name in names)]
        for part in self._parts(chosen, names) if len(chosen) >= self._sizes.small_sources else ():
            paths = [self._path(index, column.files[0]) for index in part]
            right = read_files(self._fs, paths, encode_prefix(column), [0] * len(part), np.empty(0, np.uint8))
            tables = [np.empty(sum(self._size(index, name) for index in part), np.uint8) for name in names]
            taken = set.intersection(*(self._read(part, *file) for file in zip(names, (b"", b""), tables, strict=True)))
            sizes = [tuple(self._size(index, name) for name in names) for index in part]
            if right.all() and len(taken) == len(part):
                decoded = _decoded_together(column, tables, sizes)
                if decoded is not None:
                    symbols |= zip(part, decoded, strict=True)
                    continue
            starts = [0, 0]
            for index, fits, own in zip(part, right.tolist(), sizes, strict=True):
                if fits and index in taken:
                    cut = [pa.py_buffer(t).slice(start, n) for t, start, n in zip(tables, starts, own, strict=True)]
                    where = self.plan.sources[index].directory / names[0]
                    symbols[index] = decode_symbols(cut[0], cut[1], charset_of(column), "LITTLE_ENDIAN", where)
                starts = [start + size for start, size in zip(starts, own, strict=True)]
        every = range(len(self.plan.sources))
        return [symbols[index] if index in symbols else self.open(index, column).symbols() for index in every]

    def _read(self, part: Sequence[int], name: str, head: bytes, out: Octets) -> set[int]:
        """Reads a file of each source into ``out``; returns the sources of which it is as it was committed."""
        sizes = [self._size(index, name) for index in part]
        read = read_files(self._fs, [self._path(index, name) for index in part], head, sizes, out)
        if not self.plan.options.verify_sources:
            return {index for index, fits in zip(part, read.tolist(), strict=True) if fits}
        taken = set()
        for index, fits, crc in zip(part, read.tolist(), crc32_each(out, sizes), strict=True):
            if fits and crc == self.plan.sources[index].files[name].crc:
                taken.add(index)
        self._taken |= {(index, name) for index in taken}
        self._doubted |= {(index, name) for index in part if index not in taken}
        return taken

    def _whole(self, index: int, column: Column) -> bool:
        """Whether all rows of a source's location are read, and the column's file there is small."""
        source = self.plan.sources[index]
        if column.stem(source.named_by) != column.name or source.computed is not None:  # or they lie elsewhere
            return False
        size = self._size(index, column.files[0])
        small = 0 < size <= self._sizes.small_bytes
        return small and size == source.rows * column.width and len(source) == source.rows

    def _size(self, index: int, name: str) -> int:
        """Committed bytes of a file, -1 where there is none."""
        state = self.plan.sources[index].files.get(name)
        return -1 if state is None else state.size

    def _path(self, index: int, name: str) -> str:
        return f"{self.plan.sources[index].directory}/{name}"

    def _parts(self, chosen: Sequence[int], names: Sequence[str]) -> Iterator[list[int]]:
        part: list[int] = []
        size = 0
        for index in chosen:
            more = sum(self._size(index, name) for name in names)
            if part and size + more > TOGETHER:
                yield part
                part, size = [], 0
            part.append(index)
            size += more
        if part:
            yield part


def _decoded_together(
    column: Column, tables: Sequence[Octets], sizes: Sequence[tuple[int, ...]]
) -> list[pa.Array] | None:
    """Symbol tables that lie one behind the other, each of so many bytes of ends and of texts; None, in doubt."""
    ends_sizes, octets = np.array(sizes, np.int64).T
    counts = ends_sizes // WIDTH
    stops, begins = counts.cumsum(), octets.cumsum() - octets
    if (ends_sizes % WIDTH).any():
        return None
    ends = tables[0].view("<i8") + np.repeat(begins, counts)
    if not np.array_equal(ends[stops - 1], begins + octets):
        return None
    buffers = pa.py_buffer(ends), pa.py_buffer(tables[1])
    try:
        whole = decode_symbols(*buffers, charset_of(column), "LITTLE_ENDIAN", f"tables of column {column.name}")
    except CorruptFileError:  # by itself each says what is wrong with it
        return None
    return [whole.slice(stop - count, count) for stop, count in zip(stops.tolist(), counts.tolist(), strict=True)]


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    run = [numbers[0]]
    for number in numbers[1:]:
        if number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    yield run
