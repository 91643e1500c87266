"""One pass over the files of a column that shows it to be sound: checksums, ids, texts, statistics.

Each block is read once, and looked at while it is in the processor's cache. What is not sure to be sound, or would be
worth a note, is in doubt: the checks of ``readers.checks.column_values`` read it again, and say what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.checks.column_values import Expected, parts_of, symbol_findings
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.prefix import LITTLE, charset_of
from sparkhaven.store.format.column.region import BYTES, SYM, SYM_BYTES
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.native.checked_columns import TextBounds, verify_fixed, verify_ids, verify_texts
from sparkhaven.store.native.rows import count_ids
from sparkhaven.store.scan.checksums import BLOCK, checksum, crc32
from sparkhaven.store.scan.column_file import committed_column, read_grouping
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, Kind, Storage

T = TypeVar("T")
Entries = npt.NDArray[Any]

ASCII_ONLY = {"UTF_8": False, "US_ASCII": True}  # the charsets whose bytes are looked at here


class _DoubtError(Exception):
    """Something is not sure to be sound."""


def is_sound(fs: Fs, expected: Expected, column: Column, block: int = BLOCK) -> bool:
    """Whether each committed byte of a column with a ``.dat`` is as it should be; False: in doubt, also of errors.

    ``block``: bytes that are looked at together.
    """
    try:
        check = _Column(fs, expected, column, block)
        {Storage.FIXED: check.fixed, Storage.SYMBOL: check.symbols, Storage.BLOB: check.texts}[column.storage]()
    except (_DoubtError, SparkhavenError, OSError, UnicodeEncodeError):
        return False
    return True


def _need(condition: object) -> None:
    if not condition:
        raise _DoubtError


def _sure(known: T | None) -> T:
    if known is None:
        raise _DoubtError
    return known


class _Column:
    """What is committed of one column, and how many nulls and NaN its rows have had so far, by range of statistics."""

    def __init__(self, fs: Fs, expected: Expected, column: Column, block: int) -> None:
        self._path = expected.directory / column.files[0]
        written = committed_column(fs, self._path, column)
        column, prefix = written.column, written.prefix
        self._fs, self._expected, self._column, self._block = fs, expected, column, block
        _need(column.type.coding is None)
        _need(expected.rows and all(name in expected.files for name in column.files))
        if column.kind is Kind.GROUPING:
            ranges = read_grouping(fs, expected.directory, column, expected.rows)
            _need(ranges is None and expected.tier == "intraday")
        _need(prefix.byte_order == LITTLE and self._size() == expected.rows * column.width)
        self._offset = prefix.data_offset
        self._parts = list(parts_of(expected.stats.get(column.name, ()), expected.rows))
        stops = [stop for _, stop, _ in self._parts]
        _need([start for start, _, _ in self._parts] == [0, *stops[:-1]])
        self._nulls, self._nans = [0] * len(stops), [0] * len(stops)

    def _size(self, suffix: str | None = None) -> int:
        name = self._column.files[0] if suffix is None else self._column.name + suffix
        return self._expected.files[name].size

    def _entries(self, kind: str) -> Iterator[tuple[int, Entries]]:
        """The entries of the ``.dat``, each run with the number of its range; whoever takes them sums them up."""
        file, size = self._fs.open(self._path), self._size()
        row = number = 0
        for position in range(0, size, self._block):
            entries = np.frombuffer(file.view(self._offset + position, min(self._block, size - position)), kind)
            while len(entries):
                taken = min(len(entries), self._parts[number][1] - row)
                yield number, entries[:taken]
                entries, row = entries[taken:], row + taken
                number += row == self._parts[number][1]

    def _finish(self, crc: int) -> None:
        """The checksum of the ``.dat`` is that which was committed, and the counts are those of the statistics."""
        _need(crc == self._expected.files[self._path.name].crc)
        for (start, stop, stats), nulls, nans in zip(self._parts, self._nulls, self._nans, strict=True):
            _need(stats is None or (stop - start, nulls, nans) == (stats.stop - stats.start, stats.nulls, stats.nans))

    def fixed(self) -> None:
        kind = np.dtype(self._column.type.numpy)
        null: Any = self._column.type.null
        bounds = [None if stats is None else _numbers(stats, kind) for _, _, stats in self._parts]
        crc = 0
        for number, entries in self._entries(kind.str):
            low_high = bounds[number]
            if low_high is None:
                crc = crc32(entries, crc)
                continue
            nulls, nans, crc = _sure(verify_fixed(entries, null, *low_high, crc))
            self._nulls[number] += nulls
            self._nans[number] += nans
        self._finish(crc)

    def symbols(self) -> None:
        directory, name = self._expected.directory, self._column.name
        sym, data = (directory / (name + suffix) for suffix in (SYM, SYM_BYTES))
        for path in (sym, data):
            state = self._expected.files[path.name]
            _need(checksum(self._fs, path, 0, state.size) == state.crc)
        stored = self._fs.map(sym, self._size(SYM)), self._fs.map(data, self._size(SYM_BYTES))
        texts = decode_symbols(*stored, charset_of(self._column), LITTLE, sym)
        _need(not texts.null_count and not any(symbol_findings(self._expected, self._column, texts)))
        outside = [_outside(texts, stats) for _, _, stats in self._parts]
        counts, counted, crc = np.zeros(len(texts) + 1, np.int64), -1, 0
        for number, ids in self._entries("<i4"):
            nulls, crc = _sure(verify_ids(ids, len(texts), crc))
            self._nulls[number] += nulls
            wrong = outside[number]
            if wrong is None:
                continue
            if number != counted:
                counts[:], counted = 0, number
            count_ids(ids, counts)
            _need(not counts[:-1][wrong].any())
        self._finish(crc)

    def texts(self) -> None:
        ascii_only = ASCII_ONLY.get(charset_of(self._column))
        _need(ascii_only is not None)
        bounds = [_texts(stats) for _, _, stats in self._parts]
        name = self._column.name + BYTES
        state, crcs, begin = self._expected.files[name], (0, 0), 0
        file = self._fs.open(self._expected.directory / name)
        for number, ends in self._entries("<i8"):
            while len(ends):
                fit = len(ends)
                if ends[-1] - begin > self._block:
                    fit = int(np.searchsorted(ends, begin + self._block, "right"))
                stop = int(ends[fit - 1]) if fit else -1  # a text that does not fit is in doubt
                _need(begin <= stop <= state.size)
                data = np.frombuffer(file.view(begin, stop - begin), np.uint8)
                verified = verify_texts(ends[:fit], begin, data, bounds[number], crcs, ascii_only=bool(ascii_only))
                nulls, crcs = _sure(verified)
                self._nulls[number] += nulls
                ends, begin = ends[fit:], stop
        self._finish(crcs[0])
        _need(begin == state.size and crcs[1] == state.crc)


def _outside(texts: pa.Array, stats: RangeStats | None) -> Entries | None:
    """Which symbols are beyond the bounds of a range; None: none is."""
    bounds = _texts(stats)
    if bounds is None or not len(texts):
        return None
    low, high = (bound.decode() if bound is not None else None for bound in (bounds.low, bounds.high))
    wrong = pc.less(texts, low) if high is None else pc.or_(pc.less(texts, low), pc.greater(texts, high))
    outside: Entries = wrong.to_numpy(zero_copy_only=False)
    return outside if outside.any() else None


def _texts(stats: RangeStats | None) -> TextBounds | None:
    """The bounds of a range in UTF-8, None where nothing is told; in doubt where one is no text."""
    if stats is None or (stats.low is None and stats.high is None):
        return None
    for bound in (stats.low, stats.high):
        _need(bound is None or isinstance(bound, str))
    return TextBounds(str(stats.low or "").encode(), None if stats.high is None else str(stats.high).encode())


def _numbers(stats: RangeStats, kind: np.dtype[Any]) -> tuple[Any, Any]:
    """The bounds of a range, or those of the type; in doubt where one is no value of it."""
    real = kind.kind == "f"
    least, most = (-np.inf, np.inf) if real else (np.iinfo(kind).min, np.iinfo(kind).max)
    for bound in (stats.low, stats.high):
        _need(bound is None or (isinstance(bound, float if real else int) and least <= bound <= most))
        _need(bound is None or not real or float(kind.type(bound)) == bound)
    return least if stats.low is None else stats.low, most if stats.high is None else stats.high
