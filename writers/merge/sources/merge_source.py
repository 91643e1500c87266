"""Rows of one location as the merge reads them: raw entries, mapped block by block, never a whole column at once.

A source is a stretch of committed rows of one location, intraday or history. Entries stay as they lie in the file
(sentinels for null, symbol ids, encoded bytes), so that copying needs no decoding; only the byte order becomes little
endian.

The module also has the sizes that the steps of a merge work on at once, and memory for one column that threads use
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.column.charset import WIDTH, StoredEnds, decode_values
from sparkhaven.store.format.column.prefix import DATA_OFFSET, Prefix
from sparkhaven.store.format.column.region import DAT
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import check_ids, checksum, crc32
from sparkhaven.store.native.file_moves import FileRegion
from sparkhaven.store.scan.column_file import SMALL, column_header, committed_column, small_column
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import NOW, Column, Storage
from sparkhaven.store.types.row_ranges import RowRanges


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """Rows of a merge do not depend on them. Row groups and row ranges of statistics do, so commands keep the defaults.

    Read at once: ``rows``, ``texts`` rows without a symbol table, ``symbols``. Written at once: ``chunk_rows``,
    ``chunk_bytes`` of texts, a ``piece`` of bytes of Parquet, which has at most ``group_rows`` rows a row group.
    """

    rows: int = 1 << 18
    texts: int = 1 << 14
    symbols: int = 1 << 16
    chunk_rows: int = 1 << 17
    chunk_bytes: int = 1 << 20
    piece: int = 4 << 20
    group_rows: int = 1 << 18
    stretch_rows: int = 8 << 20  # that one task counts
    slice_bytes: int | None = None  # of texts that are sorted at once; None: by memory
    index_bytes: int | None = None  # of rows whose keys are sorted at once; None: by memory
    writeback_bytes: int = 1 << 20  # smaller files are written faster together, by the sync
    parted_rows: int = 1 << 20  # of a source, at most, that are parted at once
    copied_bytes: int = 8 << 20  # of a block of a source that is parted; larger ones are mapped
    small_bytes: int = SMALL  # files that are read together with others
    small_sources: int = 4  # that are worth being read together
    moved_rows: int = 1 << 18  # the entries of fewer lie in the processor's cache anyway
    hashed_beside: int = 1 << 18  # symbols that are worth a thread that hashes them while others are written
    groups: int = 4  # tasks per worker that small dates are given to, to even them out
    sorted_bytes: int = 8  # of texts a row: to sort them takes as long as to put the row in order


SIZES = BlockSizes()


Pick = slice | npt.NDArray[np.intp]
ALL = slice(None)


@dataclass(frozen=True, slots=True)
class MergeSource:
    """Rows ``[start, stop)`` of a location that has ``rows`` committed ones in ``files``.

    ``stream`` is empty for a location of history. ``since`` and ``epoch`` are those of the pinned state. ``named_by``:
    the version of the schema by which its files are named.
    ``text_bytes``: about how many bytes the texts of a column take in ``table.parquet``, where the merge has to know.
    ``kept``: those of the rows that are read, None: all. They are then numbered from ``start`` on without gaps.
    ``computed``: column files of the same rows, which stand for the location's own files of those columns.
    ``alone``: blocks of so many bytes, at most, are read without what lies beside them, which would not stay in
    memory until it is needed. Larger ones are mapped.
    """

    directory: Path
    stream: str
    internal: str
    since: int
    epoch: int
    start: int
    stop: int
    rows: int
    files: Mapping[str, FileState]
    text_bytes: Mapping[str, int] = field(default_factory=dict)
    kept: RowRanges | None = None
    computed: MergeSource | None = None
    alone: int = 0
    named_by: int = NOW

    def placed(self, column: Column) -> Column:
        """A column under the name, and with the storage, of its files here."""
        return column.at(self.named_by).within(self.files)

    def of(self, column: Column) -> MergeSource:
        """Where the values of a column lie."""
        return self.computed if self.computed is not None and column.files[0] in self.computed.files else self

    def __len__(self) -> int:
        return self.stop - self.start if self.kept is None else self.kept.rows

    @property
    def rows_kept(self) -> RowRanges:
        """The rows of the location that are read."""
        return RowRanges.one(self.start, self.stop) if self.kept is None else self.kept

    def blocks(self, most: int, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int]]:
        """Cuts rows (counted from ``start``) into blocks of at most ``most``, as absolute row ranges."""
        end = self.start + (len(self) if last is None else last)
        begin = self.start + first
        while begin < end:
            yield begin, min(begin + most, end)
            begin += most


def entry_dtype(column: Column) -> np.dtype[Any]:
    """How an entry lies in the ``.dat`` of a column, little endian."""
    words = {Storage.SYMBOL: "<i4", Storage.BLOB: "<i8", Storage.SET: "<u8"}
    return np.dtype(words.get(column.storage, column.type.numpy))


class ColumnSource:
    """One column of one source. Raises CorruptFileError, SchemaMismatchError, UnsupportedVersionError at opening."""

    def __init__(self, fs: Fs, source: MergeSource, column: Column) -> None:
        self.fs, self.source, self.column = fs, source, (column := source.placed(column))
        self._dat = source.directory / column.files[0]
        self._header: Prefix | None = None
        self._held: pa.Buffer | None = None  # a small file, until its entries are asked for
        state = source.files.get(column.files[0])
        if state is None:  # the column is newer than the location: null in every row
            return
        whole = small_column(fs, self._dat, state.size)
        written = committed_column(fs, self._dat, column, None if whole is None else whole[:DATA_OFFSET])
        self.column, header = (column := written.column), written.prefix
        if state.size != source.rows * column.width:
            raise CorruptFileError(
                f"column {column.name} has another length than its location",
                where=self._dat,
                expected=f"{source.rows * column.width} bytes of data",
                found=f"{state.size} bytes",
            )
        self._header = header
        self._held = pa.py_buffer(whole) if whole is not None and header.data_offset == DATA_OFFSET else None
        self._swapped = header.byte_order == "BIG_ENDIAN"

    @property
    def absent(self) -> bool:
        """Whether the column has no file here, so that every row is null."""
        return self._header is None

    @property
    def as_stored(self) -> bool:
        """Whether entries are the bytes of the file."""
        return self._header is not None and not self._swapped

    @property
    def region(self) -> FileRegion | None:
        """Where the entries of the source's rows lie as they are; None where they lie in no file, or otherwise."""
        if self._header is None or not self.as_stored:
            return None
        return FileRegion(self._dat, self._header.data_offset + self.source.start * self.column.width)

    def entries(self, first: int, stop: int) -> npt.NDArray[Any]:
        """Raw entries of absolute rows ``[first, stop)``: numbers, symbol ids or blob ends, little endian."""
        column = self.column
        dtype = entry_dtype(column)
        if self._header is None:
            coding = column.type.fixed
            null = coding.null if coding is not None else column.type.null
            null = {Storage.SYMBOL: -(2**31), Storage.BLOB: 0, Storage.SET: 0}.get(column.storage, null)
            return np.full(stop - first, null, dtype)
        width = dtype.itemsize
        start, length = self._header.data_offset + first * width, (stop - first) * width
        if self._held is not None:
            buffer, self._held = self._held.slice(start, length), None
        else:
            buffer = self._range(self._dat, start, length)
        if self._swapped:
            return np.frombuffer(buffer, dtype.newbyteorder(">")).astype(dtype)
        return np.frombuffer(buffer, dtype)

    def _range(self, path: Path, start: int, length: int) -> pa.Buffer:
        if length <= self.source.alone:
            return pa.py_buffer(self.fs.read_block(path, start, length))
        return self.fs.map_range(path, start, length)

    def symbols(self) -> pa.Array:
        """The symbol table of the location, in id order."""
        if self._header is None or self._header.encoding is None:
            return pa.array([], pa.string())
        sym, text = (self.source.directory / name for name in self.column.files[1:])
        sizes = [self.source.files[path.name].size for path in (sym, text)]
        return decode_symbols(
            self.fs.map(sym, sizes[0]), self.fs.map(text, sizes[1]), self._header.encoding, self._header.byte_order, sym
        )

    def symbol_parts(self, size: int, most: int = SIZES.symbols) -> Iterator[tuple[int, pa.Array]]:
        """The symbol table in parts of about ``size`` bytes, at least one text each, with the number of the first.

        The ends of ``most`` texts are read at once.
        """
        if self._header is None or self._header.encoding is None:
            return
        sym, text = (self.source.directory / name for name in self.column.files[1:])
        committed, stored = (self.source.files[path.name].size for path in (sym, text))
        if committed % WIDTH or not committed:
            yield 0, self.symbols()  # raises the error of the table, or is empty
            return
        entries, end = committed // WIDTH, 0
        for low in range(0, entries, most):
            high = min(low + most, entries)
            raw = self.fs.map_range(sym, low * WIDTH, (high - low) * WIDTH)
            ends = StoredEnds(raw, end, self._header.byte_order, sym, low).decode(stored)
            start = 0
            while start < high - low:
                stop = max(start + 1, int(np.searchsorted(ends, ends[start] + size, side="right")) - 1)
                base, end = int(ends[start]), int(ends[stop])
                data = self.fs.map_range(text, base, end - base) if end > base else pa.py_buffer(b"")
                where = partial(_entry, sym, low + start)
                yield low + start, decode_values(data, ends[start : stop + 1] - base, self._header.encoding, where)
                start = stop
        if end != stored:
            self.symbols()  # raises the error of the last end

    def ids(self, first: int, stop: int, symbols: int, pick: Pick = ALL) -> npt.NDArray[np.int32]:
        """Symbol ids of rows ``[first, stop)``, or of those that ``pick`` takes; each checked to be in the table."""
        ids: npt.NDArray[np.int32] = self.entries(first, stop)[pick]
        if ids.flags.c_contiguous and check_ids(ids, symbols) is not None:
            return ids
        wrong = (ids.view(np.uint32) >= symbols) & (ids != np.int32(-(2**31)))
        if wrong.any():
            index = int(np.argmax(wrong))
            raise CorruptFileError(
                f"symbol index of column {self.column.name} is out of range",
                where=f"{self._dat}, row {int(np.arange(first, stop)[pick][index])}",
                expected=f"0 to {symbols - 1}, or null",
                found=int(ids[index]),
            )
        return ids

    def ends(self, first: int, stop: int) -> npt.NDArray[np.int64]:
        """Ends of the blob values of rows ``[first - 1, stop)``: one more than rows, the first is the base."""
        if self._header is None:
            return np.zeros(stop - first + 1, np.int64)
        if first:
            ends = self.entries(first - 1, stop)
        else:
            ends = np.concatenate([np.zeros(1, np.int64), self.entries(0, stop)])
        committed = self.source.files[self.column.files[1]].size
        if bool((np.diff(ends) < 0).any()) or ends[0] < 0 or ends[-1] > committed:
            wrong = np.diff(ends) < 0
            row = int(np.argmax(wrong)) if wrong.any() else stop - first - 1
            raise CorruptFileError(
                f"end offset of column {self.column.name} decreases or is past the committed bytes",
                where=f"{self._dat}, row {first + row}",
                expected=f"{int(ends[row])} to {committed}",
                found=int(ends[row + 1]),
            )
        return ends

    def blobs(self, first: int, stop: int) -> pa.Array:
        """Encoded values of rows ``[first, stop)`` as large binary; zero length is null, one NUL is the empty text."""
        ends = self.ends(first, stop)
        low, high = int(ends[0]), int(ends[-1])
        path = self.source.directory / self.column.files[1]
        data = self._range(path, low, high - low) if high > low else pa.py_buffer(b"")
        offsets = pa.py_buffer(ends - low)
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), stop - first, [None, offsets, data])

    def texts(self, first: int, stop: int) -> pa.Array:
        """Decoded values of a blob column of rows ``[first, stop)``, null where the value is null."""
        if self._header is None or self._header.encoding is None:
            return pa.nulls(stop - first, pa.string())
        return decode_texts(self.blobs(first, stop), self._header.encoding, f"{self._dat} from row {first} on")

    @property
    def encoding(self) -> str | None:
        return None if self._header is None else self._header.encoding


def _entry(path: Path, first: int, index: int) -> str:
    return f"{path}, entry {first + index}"


def decode_texts(encoded: pa.Array, encoding: str, where: object) -> pa.Array:
    """Texts of encoded values (large binary without offset); invalid bytes are a CorruptFileError."""
    _, offsets, data = encoded.buffers()
    ends = np.frombuffer(offsets, np.int64, encoded.offset + len(encoded) + 1)[encoded.offset :]
    low, high = int(ends[0]), int(ends[-1])
    part = data.slice(low, high - low) if high > low else pa.py_buffer(b"")
    return decode_values(part, ends - low, encoding, lambda index: f"{where}, value {index}")


def check_crc(fs: Fs, path: Path, state: FileState, *, stream: str) -> None:
    """Reads a data region and compares its CRC-32 with the committed one; a difference is a CorruptFileError.

    ``stream`` wrote the file; it is empty for a file of history.
    """
    offset, whole = 0, None
    if path.suffix == DAT:
        whole = small_column(fs, path, state.size)
        offset = column_header(fs, path, None if whole is None else whole[:DATA_OFFSET]).data_offset
    if whole is not None and offset == DATA_OFFSET:
        crc = crc32(memoryview(whole)[offset:])
    else:
        crc = checksum(fs, path, offset, state.size)
    if crc != state.crc:
        raise CorruptFileError(
            "file differs from what was committed",
            where=path,
            expected=f"CRC-32 {state.crc:08x} over {state.size} bytes of data",
            found=f"{crc:08x}",
        )


class ColumnRoom(local):
    """Memory for one column, which a thread uses again for its next one: the first touch of new memory takes long."""

    _held = np.empty(0, np.uint8)

    def empty(self, rows: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        size = rows * dtype.itemsize
        if len(self._held) < size:
            self._held = np.empty(size, np.uint8)
        return self._held[:size].view(dtype)
