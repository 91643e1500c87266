"""Deep checks of one column's values: symbols, statistics, grouping.

``is_sound`` is one pass over the files of a column that shows it to be sound: checksums, ids, texts, statistics. Each
block is read once, and looked at while it is in the processor's cache. What is not sure to be sound, or would be worth
a note, is in doubt: ``check_values`` reads it again, and says what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.checks.committed import Expected
from sparkhaven.readers.checks.findings import Finding, finding
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.prefix import LITTLE, Prefix, charset_of
from sparkhaven.store.format.column.region import BYTES, SYM, SYM_BYTES
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.index.grouping import GroupRanges, key_identity
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import PARQUET, in_parquet
from sparkhaven.store.native.checked_columns import (
    BLOCK,
    TextBounds,
    checksum,
    crc32,
    verify_fixed,
    verify_ids,
    verify_texts,
)
from sparkhaven.store.native.rows import count_ids
from sparkhaven.store.scan.column_file import WrittenColumn, committed_column, map_region, open_column, read_grouping
from sparkhaven.store.types.codings.coding import BlobCoding, FixedCoding, coded_bounds
from sparkhaven.store.types.codings.string_set import StringSets
from sparkhaven.store.types.committed_columns import RangeStats
from sparkhaven.store.types.model import Column, Kind, Storage

ROWS_AT_ONCE = 1 << 17  # rows that are read at once, so that what is made of them stays in the processor's cache


def check_values(fs: Fs, expected: Expected, column: Column) -> Iterator[Finding]:
    """Reads a whole column, ``ROWS_AT_ONCE`` rows at a time, under the name that it has there (``Column.at``).

    Damage that stops a read is raised; other damage is a finding.
    """
    sizes = {name: state.size for name, state in expected.files.items()}
    parquet = in_parquet(sizes)
    path = expected.directory / (PARQUET if parquet else column.files[0])
    opened = open_column(fs, expected.directory, column, sizes, expected.rows)
    if column.storage is Storage.SYMBOL and expected.rows and not parquet:
        yield from symbol_findings(expected, column, _symbols(fs, expected, column, opened.prefix))
    groups = None
    if column.kind is Kind.GROUPING and not parquet and expected.rows:
        ranges = read_grouping(fs, expected.directory, column, expected.rows)
        groups = None if ranges is None else _Groups(ranges, column, path)
        if groups is None and expected.tier == "history":
            yield finding("W241", path, expected="row ranges")
    for first, last, stats in parts_of(expected.stats.get(column.name, ()), expected.rows):
        seen = SeenValues(stats)
        for start in range(first, last, ROWS_AT_ONCE):
            values = opened.read(start, min(start + ROWS_AT_ONCE, last))
            seen.add(values)
            if parquet and column.type.coding is not None:
                yield from _unfit(path, column, values, column.type.coding, start)
            if groups is not None:
                yield from groups.add(values)
        wrong = seen.wrong()
        if wrong:
            rows = f"rows {first} to {last}{f' of column {column.name}' if parquet else ''}"
            yield finding("E242", path, at=rows, expected=wrong[0], found=wrong[1])


def _symbols(fs: Fs, expected: Expected, column: Column, prefix: Prefix | None) -> pa.Array:
    """The whole symbol table; what a read gives may be only the part that its rows use."""
    if prefix is None:
        return pa.array([], pa.string())
    sizes = {name: state.size for name, state in expected.files.items()}
    region = map_region(fs, expected.directory, WrittenColumn(column, prefix), sizes, expected.rows)
    stored = region.companions[SYM], region.companions[SYM_BYTES]
    return decode_symbols(*stored, charset_of(column), region.order, region.companion_path(SYM))


def _unfit(
    path: Path, column: Column, values: pa.Array, coding: FixedCoding | BlobCoding | StringSets, first: int
) -> Iterator[Finding]:
    """The first of some rows of a Parquet file whose value the column could not have."""
    texts = pa.types.is_string(values.type)
    bad = coding.parse_all(values)[1] if texts else coding.unstorable(values)
    if bad is not None:
        row = int(np.argmax(bad))
        shown = str(values[row].cast(pa.string()) if pa.types.is_temporal(values.type) else values[row])[:80]
        position = {"at": f"row {first + row}", "expected": coding.domain, "found": shown}
        yield finding("E243", path, **position, column=column.name)


def parts_of(all_stats: Sequence[RangeStats], rows: int) -> Iterator[tuple[int, int, RangeStats | None]]:
    """All rows, as the ranges that have statistics and those between them."""
    done = 0
    for stats in sorted(all_stats, key=lambda range_stats: range_stats.start):
        if done < stats.start:
            yield done, min(stats.start, rows), None
        yield stats.start, min(stats.stop, rows), stats
        done = max(done, stats.stop)
    if done < rows:
        yield done, rows, None


class _Groups:
    """Compares the rows of a grouping column, block after block from the first on, with its groups."""

    def __init__(self, groups: GroupRanges, column: Column, path: Path) -> None:
        self._groups, self._column, self._path = groups, column, path
        self._rows, self._last, self._found = 0, None, False

    def add(self, values: pa.Array) -> Iterator[Finding]:
        """The next rows; a finding for the first row of all that has another value than its group."""
        plain = values.cast(self._column.type.arrow) if pa.types.is_dictionary(values.type) else values
        first, self._rows = self._rows, self._rows + len(plain)
        bad = None if self._found else self._ungrouped(plain, first)
        self._last = plain.slice(len(plain) - 1)
        if bad is None:
            return
        self._found = True
        yield finding(
            "E244",
            self._path,
            at=f"row {bad}",
            expected=repr(self._groups.keys[int(np.searchsorted(self._groups.stops, bad, "right"))]),
            found=repr(plain[bad - first].as_py()),
        )

    def _ungrouped(self, plain: pa.Array, first: int) -> int | None:
        """The first row that is not the key of the group it begins, or not equal to the row before in its group."""
        low, high = np.searchsorted(self._groups.starts, [first, first + len(plain)]).tolist()
        starts = self._groups.starts[low:high] - first
        begun = plain.take(pa.array(starts))
        begun = begun.cast(pa.int64()) if pa.types.is_timestamp(begun.type) else begun
        wrong = [
            start
            for start, key, value in zip(starts.tolist(), self._groups.keys[low:high], begun.to_pylist(), strict=True)
            if key_identity(key) != key_identity(value)
        ]
        before = pa.concat_arrays([plain[:1] if self._last is None else self._last, plain[:-1]])
        same = pc.fill_null(pc.equal(plain, before), pc.and_(plain.is_null(), before.is_null()))
        if pa.types.is_floating(plain.type):
            same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(plain), pc.is_nan(before)), False))
        other = ~same.to_numpy(zero_copy_only=False)
        other[starts] = False
        bad = [*wrong[:1], *np.flatnonzero(other)[:1].tolist()]
        return first + min(bad) if bad else None


def symbol_findings(expected: Expected, column: Column, texts: pa.Array) -> Iterator[Finding]:
    path = expected.directory / column.files[1]
    if texts.null_count:
        yield finding("N245", path, expected="none", found=f"{texts.null_count} of {len(texts)}")
    double = len(texts) - len(texts.unique())
    if double:
        code = "W246" if expected.tier == "history" else "N246"
        yield finding(code, path, expected=f"{len(texts) - double} symbols", found=f"{len(texts)} symbols")
    if expected.tier == "history":
        units = [text.encode("utf-16-be") for text in texts.to_pylist() if text is not None]
        entry = next((i for i in range(1, len(units)) if units[i] < units[i - 1]), None)
        if entry is not None:
            yield finding("N247", path, at=f"entry {entry}", expected="ascending")


class SeenValues:
    """What rows have of the things that their statistics tell; without statistics nothing is looked at."""

    def __init__(self, stats: RangeStats | None) -> None:
        self._stats = stats
        self._rows = self._nulls = self._nans = 0
        self._low: Any = None
        self._high: Any = None

    def add(self, values: pa.Array) -> None:
        self._rows, self._nulls = self._rows + len(values), self._nulls + values.null_count
        if self._stats is None:
            return
        plain = values
        if pa.types.is_dictionary(values.type):
            plain = values.dictionary.take(values.indices.unique().drop_null())
        if pa.types.is_timestamp(plain.type):
            plain = plain.cast(pa.int64())
        if pa.types.is_floating(plain.type):
            nans = pc.sum(pc.is_nan(plain)).as_py() or 0
            self._nans += nans
            plain = plain.filter(pc.fill_null(pc.invert(pc.is_nan(plain)), False)) if nans else plain
        if self._stats.low is None and self._stats.high is None:
            return
        if plain.null_count == len(plain):
            return
        coded = coded_bounds(plain)
        bounds = pc.min_max(plain) if coded is None else {}
        low, high = coded or (bounds["min"].as_py(), bounds["max"].as_py())
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def wrong(self) -> tuple[str, str] | None:
        """The statistics and what is true, if a reader that uses the statistics could miss rows."""
        stats = self._stats
        if stats is None:
            return None
        if self._rows != stats.stop - stats.start or self._nulls != stats.nulls:
            wanted = f"{stats.nulls} nulls in {stats.stop - stats.start} rows"
            return wanted, f"{self._nulls} nulls in {self._rows} rows"
        if self._nans != stats.nans:
            return f"{stats.nans} NaN", f"{self._nans} NaN"
        too_low = stats.low is not None and self._low is not None and self._low < stats.low
        too_high = stats.high is not None and self._high is not None and self._high > stats.high
        if too_low or too_high:
            return f"{stats.low!r} to {stats.high!r}", f"{self._low!r} to {self._high!r}"
        return None


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
