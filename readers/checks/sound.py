"""One pass over the files of a column that shows it to be sound: checksums, ids, texts, statistics.

Each block is read once, and looked at while it is in the processor's cache. What is not sure to be sound, or would be
worth a note, is in doubt: the checks of ``readers.checks.values`` read it again, and say what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from readers.checks.checksum import BLOCK, checksum
from readers.checks.values import Expected, parts_of, symbol_findings
from store.errors import SparkhavenError
from store.format.column.codecs import BYTES, SYM, SYM_BYTES
from store.format.column.prefix import LITTLE, charset_of
from store.format.column.symbols import decode_symbols
from store.io.fs import Fs
from store.kernels import pc
from store.native.checked import check_ids, check_texts, texts_within, within
from store.native.gather import count_ids
from store.scan.checksums import crc32
from store.scan.columnfile import committed_prefix, read_grouping
from store.types.committed import RangeStats
from store.types.model import Column, Kind, Storage

Entries = npt.NDArray[Any]
ASCII_ONLY = {"UTF_8": False, "US_ASCII": True}  # the charsets whose bytes are looked at here


class _DoubtError(Exception):
    """Something is not sure to be sound."""


def is_sound(fs: Fs, expected: Expected, column: Column) -> bool:
    """Whether each committed byte of a column with a ``.dat`` is as it should be; False: in doubt, also of errors."""
    try:
        found = _Column(fs, expected, column)
        {Storage.FIXED: found.fixed, Storage.SYMBOL: found.symbols, Storage.BLOB: found.texts}[column.storage]()
    except (_DoubtError, SparkhavenError, OSError, UnicodeEncodeError):
        return False
    return True


def _need(condition: object) -> None:
    if not condition:
        raise _DoubtError


class _Column:
    """What is committed of one column, and how many nulls and NaN its rows have had so far, by range of statistics."""

    def __init__(self, fs: Fs, expected: Expected, column: Column) -> None:
        self._fs, self._expected, self._column = fs, expected, column
        self._path = expected.directory / column.files[0]
        _need(expected.rows and all(name in expected.files for name in column.files))
        if column.kind is Kind.GROUPING:
            ranges = read_grouping(fs, expected.directory, column, expected.rows)
            _need(ranges is None and expected.tier == "intraday")
        prefix = committed_prefix(fs, self._path, column)
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
        """The entries of the ``.dat``, each run with the number of its range; then their checksum is right."""
        window, size, crc = self._fs.window(self._path, BLOCK), self._size(), 0
        row = number = 0
        for at in range(0, size, BLOCK):
            piece = window.view(self._offset + at, min(BLOCK, size - at))
            entries = np.frombuffer(piece, kind)
            while len(entries):
                taken = min(len(entries), self._parts[number][1] - row)
                yield number, entries[:taken]
                entries, row = entries[taken:], row + taken
                number += row == self._parts[number][1]
            crc = crc32(piece, crc)
        _need(crc == self._expected.files[self._path.name].crc)

    def _finish(self) -> None:
        """The counts are those of the statistics."""
        for (start, stop, stats), nulls, nans in zip(self._parts, self._nulls, self._nans, strict=True):
            _need(stats is None or (stop - start, nulls, nans) == (stats.stop - stats.start, stats.nulls, stats.nans))

    def fixed(self) -> None:
        """Numbers, characters, Booleans and Instants."""
        kind = np.dtype(self._column.type.numpy)
        null: Any = self._column.type.null
        bounds = [None if stats is None else _numbers(stats, kind) for _, _, stats in self._parts]
        for number, entries in self._entries(kind.str):
            low_high = bounds[number]
            if low_high is not None:
                nulls, nans, inside = within(entries, null, *low_high)
                _need(inside)
                self._nulls[number] += nulls
                self._nans[number] += nans
        self._finish()

    def symbols(self) -> None:
        """Ids, and the symbol table."""
        directory, name = self._expected.directory, self._column.name
        sym, data = (directory / (name + suffix) for suffix in (SYM, SYM_BYTES))
        for path in (sym, data):
            state = self._expected.files[path.name]
            _need(checksum(self._fs, path, 0, state.size) == state.crc)
        stored = self._fs.map(sym, self._size(SYM)), self._fs.map(data, self._size(SYM_BYTES))
        texts = decode_symbols(*stored, charset_of(self._column), LITTLE, sym)
        _need(not texts.null_count and not any(symbol_findings(self._expected, self._column, texts)))
        outside = [_outside(texts, stats) for _, _, stats in self._parts]
        counts, counted = np.zeros(len(texts) + 1, np.int64), -1
        for number, ids in self._entries("<i4"):
            nulls = check_ids(ids, len(texts))
            if nulls is None:
                raise _DoubtError
            self._nulls[number] += nulls
            wrong = outside[number]
            if wrong is None:
                continue
            if number != counted:
                counts[:], counted = 0, number
            count_ids(ids, counts)
            _need(not counts[:-1][wrong].any())
        self._finish()

    def texts(self) -> None:
        """Texts without symbols."""
        ascii_only = ASCII_ONLY.get(charset_of(self._column))
        _need(ascii_only is not None)
        bounds = [_texts(stats) for _, _, stats in self._parts]
        name = self._column.name + BYTES
        state, crc, begin = self._expected.files[name], 0, 0
        window = self._fs.window(self._expected.directory / name, BLOCK)
        for number, ends in self._entries("<i8"):
            while len(ends):
                fit = len(ends)
                if ends[-1] - begin > BLOCK:
                    fit = int(np.searchsorted(ends, begin + BLOCK, "right"))
                stop = int(ends[fit - 1]) if fit else -1  # a text that does not fit is in doubt
                _need(begin <= stop <= state.size)
                piece = window.view(begin, stop - begin)
                where = ends[:fit], begin, np.frombuffer(piece, np.uint8)
                found = check_texts(*where, ascii_only=bool(ascii_only))
                if found is None:
                    raise _DoubtError
                low_high = bounds[number]
                _need(low_high is None or texts_within(*where, *low_high))
                self._nulls[number] += found.empty
                crc = crc32(piece, crc)
                ends, begin = ends[fit:], stop
        self._finish()
        _need(begin == state.size and crc == state.crc)


def _outside(texts: pa.Array, stats: RangeStats | None) -> Entries | None:
    """Which symbols are beyond the bounds of a range; None: none is."""
    bounds = _texts(stats)
    if bounds is None or not len(texts):
        return None
    low, high = (bound.decode() if bound is not None else None for bound in bounds)
    wrong = pc.less(texts, low) if high is None else pc.or_(pc.less(texts, low), pc.greater(texts, high))
    found: Entries = wrong.to_numpy(zero_copy_only=False)
    return found if found.any() else None


def _texts(stats: RangeStats | None) -> tuple[bytes, bytes | None] | None:
    """The bounds of a range in UTF-8, None where nothing is told; in doubt where one is no text."""
    if stats is None or (stats.low is None and stats.high is None):
        return None
    for bound in (stats.low, stats.high):
        _need(bound is None or isinstance(bound, str))
    return str(stats.low or "").encode(), None if stats.high is None else str(stats.high).encode()


def _numbers(stats: RangeStats, kind: np.dtype[Any]) -> tuple[Any, Any]:
    """The bounds of a range, or those of the type; in doubt where one is no value of it."""
    real = kind.kind == "f"
    least, most = (-np.inf, np.inf) if real else (np.iinfo(kind).min, np.iinfo(kind).max)
    for bound in (stats.low, stats.high):
        _need(bound is None or (isinstance(bound, float if real else int) and least <= bound <= most))
        _need(bound is None or not real or float(kind.type(bound)) == bound)
    return least if stats.low is None else stats.low, most if stats.high is None else stats.high
