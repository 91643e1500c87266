"""Deep checks of one column's values: symbols, statistics, grouping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.readers.checks.findings import CheckFinding, finding
from sparkhaven.store import next_steps
from sparkhaven.store.format.column.prefix import Prefix, charset_of
from sparkhaven.store.format.column.region import SYM, SYM_BYTES
from sparkhaven.store.format.column.symbols import decode_symbols
from sparkhaven.store.format.index.grouping import GroupRanges, key_identity
from sparkhaven.store.format.parquet.location_files import NAME, in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.scan.column_file import map_region, open_column, read_grouping
from sparkhaven.store.types.codings.coding import BlobCoding, FixedCoding, coded_bounds
from sparkhaven.store.types.codings.string_set import StringSets
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import NOW, Column, Kind, Storage

BLOCK = 1 << 17  # rows that are read at once, so that what is made of them stays in the processor's cache


@dataclass(frozen=True, slots=True)
class Expected:
    """The committed state of a location, by the commit log (intraday) or the merge record (history).

    Not ``vouched``: by what the location says of itself, which another program may have written.
    """

    tier: Literal["intraday", "history"]
    directory: Path
    rows: int
    files: Mapping[str, FileState]
    stats: Mapping[str, Sequence[RangeStats]]
    epoch: int | None = None
    truncated: bool = False
    published: bytes | None = None  # content of ``table.size``, where it follows from the log
    indexes: Mapping[str, FileState] = field(default_factory=dict)  # files of indexes, by their path below the location
    vouched: bool = True
    named_by: int = NOW  # the version of the schema by which the files are named

    @property
    def key(self) -> LocationKey:
        return LocationKey(self.directory.parent.parent.name, self.directory.parent.name)


def check_values(fs: Fs, expected: Expected, column: Column) -> Iterator[CheckFinding]:
    """Reads a whole column, ``BLOCK`` rows at a time, under the name that it has there (``Column.at``).

    Damage that stops a read is raised; other damage is a finding.
    """
    sizes = {name: state.size for name, state in expected.files.items()}
    parquet = in_parquet(sizes)
    path = expected.directory / (NAME if parquet else column.files[0])
    opened = open_column(fs, expected.directory, column, sizes, expected.rows)
    if column.storage is Storage.SYMBOL and expected.rows and not parquet:
        yield from symbol_findings(expected, column, _symbols(fs, expected, column, opened.prefix))
    groups = None
    if column.kind is Kind.GROUPING and not parquet and expected.rows:
        ranges = read_grouping(fs, expected.directory, column, expected.rows)
        groups = None if ranges is None else _Groups(ranges, column, path)
        if groups is None and expected.tier == "history":
            yield finding("warning", path, "grouping column of history has no grouping", expected="row ranges")
    for first, last, stats in parts_of(expected.stats.get(column.name, ()), expected.rows):
        seen = SeenValues(stats)
        for start in range(first, last, BLOCK):
            values = opened.read(start, min(start + BLOCK, last))
            seen.add(values)
            if parquet and column.type.coding is not None:
                yield from _unfit(path, column, values, column.type.coding, start)
            if groups is not None:
                yield from groups.add(values)
        wrong = seen.wrong()
        if wrong:
            yield finding(
                "error",
                path,
                "statistics are wrong. Reads may skip rows that match",
                at=f"rows {first} to {last}{f' of column {column.name}' if parquet else ''}",
                expected=wrong[0],
                found=wrong[1],
                hint="merge the date, or ingest it again. Until then read without --where",
            )


def _symbols(fs: Fs, expected: Expected, column: Column, prefix: Prefix | None) -> pa.Array:
    """The whole symbol table; what a read gives may be only the part that its rows use."""
    if prefix is None:
        return pa.array([], pa.string())
    sizes = {name: state.size for name, state in expected.files.items()}
    region = map_region(fs, expected.directory, column, prefix, sizes, expected.rows)
    stored = region.companions[SYM], region.companions[SYM_BYTES]
    return decode_symbols(*stored, charset_of(column), region.order, region.companion_path(SYM))


def _unfit(
    path: Path, column: Column, values: pa.Array, coding: FixedCoding | BlobCoding | StringSets, first: int
) -> Iterator[CheckFinding]:
    """The first of some rows of a Parquet file whose value the column could not have."""
    texts = pa.types.is_string(values.type)
    bad = coding.parse_all(values)[1] if texts else coding.unstorable(values)
    if bad is not None:
        row = int(np.argmax(bad))
        yield finding(
            "error",
            path,
            f"a value is not one of column {column.name}",
            at=f"row {first + row}",
            expected=coding.domain,
            found=str(values[row].cast(pa.string()) if pa.types.is_temporal(values.type) else values[row])[:80],
            hint=next_steps.damaged(path),
        )


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

    def add(self, values: pa.Array) -> Iterator[CheckFinding]:
        """The next rows; a finding for the first row of all that has another value than its group."""
        plain = values.cast(self._column.type.arrow) if pa.types.is_dictionary(values.type) else values
        first, self._rows = self._rows, self._rows + len(plain)
        bad = None if self._found else self._ungrouped(plain, first)
        self._last = plain.slice(len(plain) - 1)
        if bad is None:
            return
        self._found = True
        yield finding(
            "error",
            self._path,
            "a row does not have the value of its group",
            at=f"row {bad}",
            expected=repr(self._groups.keys[int(np.searchsorted(self._groups.stops, bad, "right"))]),
            found=repr(plain[bad - first].as_py()),
            hint="merge the date again with --rewrite. Until then reads work without the grouping",
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


def symbol_findings(expected: Expected, column: Column, texts: pa.Array) -> Iterator[CheckFinding]:
    path = expected.directory / column.files[1]
    if texts.null_count:
        what, found = "symbols without bytes are read as null", f"{texts.null_count} of {len(texts)}"
        yield finding("note", path, what, expected="none", found=found)
    double = len(texts) - len(texts.unique())
    if double:
        yield finding(
            "warning" if expected.tier == "history" else "note",
            path,
            "a text has several symbols. Reads are correct, it only wastes space",
            expected=f"{len(texts) - double} symbols",
            found=f"{len(texts)} symbols",
        )
    if expected.tier == "history":
        units = [text.encode("utf-16-be") for text in texts.to_pylist() if text is not None]
        entry = next((i for i in range(1, len(units)) if units[i] < units[i - 1]), None)
        if entry is not None:
            yield finding("note", path, "symbols of history are not sorted", at=f"entry {entry}", expected="ascending")


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
