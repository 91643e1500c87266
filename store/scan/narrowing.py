"""Slices without the rows that an index or statistics rule out for a filter.

An index gives rows for the ``=`` and ``in`` of a filter. The filter is still evaluated on each row that is read. So an
index may give too many rows, never too few; where none can be used, rows are left out by their statistics alone.

Locations without ``Index-<Col>`` have grouping in the prefix or ``.ovr`` of a column file. No checksum covers it. So
each key is compared with the first and the last row of its range, once per process.

Statistics rule out row ranges in which no row can match.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

import pyarrow as pa

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.expressions.predicate.nodes import Key, Lookup
from sparkhaven.store.format.index.grouping import GroupRanges, key_identity
from sparkhaven.store.layout import INDEX
from sparkhaven.store.scan.checksums import MEMORY
from sparkhaven.store.scan.column_file import open_column, read_grouping
from sparkhaven.store.scan.index_file import Order, key_order
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import UNKNOWN, RangeStats, Scalar
from sparkhaven.store.types.model import Column, Kind, TableSchema
from sparkhaven.store.types.row_ranges import NO_ROWS, RowRanges

MayMatch = Callable[[Mapping[str, RangeStats]], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """A predicate as the scan sees it: the columns it names, and whether a row range may hold a match.

    ``lookup``: what of it an index answers. ``all_match``: whether every row of a range matches; None: never known.
    """

    columns: frozenset[str]
    may_match: MayMatch
    lookup: Lookup | None = None
    all_match: MayMatch | None = None


def value_stats(schema: TableSchema, value: str, start: int, stop: int) -> dict[str, RangeStats]:
    """The statistics of the partitioning column in rows of one partition value."""
    column = schema.partitioning
    return {column.name: RangeStats(start, stop, 0, 0, value, value)} if column else {}


def kept_slices(schema: TableSchema, slices: Iterable[Slice], where: Filter | None) -> list[Slice]:
    if where is None:
        return list(slices)
    return [
        part
        for slice_ in slices
        for piece in pruned(schema, replace(slice_, selected=None), where)
        if (part := piece.limited(slice_.selected)) is not None
    ]


def may_match(schema: TableSchema, slice_: Slice, where: Filter) -> bool:
    """Whether a row of the location may match, by all its statistics at once, which says less than range by range."""
    stats = value_stats(schema, slice_.key.value, 0, slice_.rows)
    for name in where.columns & slice_.stats.keys():
        ranges = slice_.stats[name]
        edges = [0, *(edge for part in ranges for edge in (part.start, part.stop)), slice_.rows]
        if all(edges[i] == edges[i + 1] for i in range(0, len(edges), 2)):
            stats[name] = _joined(ranges)
    return where.may_match(stats)


def _joined(ranges: Sequence[RangeStats]) -> RangeStats:
    lows, highs = [part.low for part in ranges], [part.high for part in ranges]
    low: Scalar | None = None if None in lows else min(lows)  # type: ignore[type-var]
    high: Scalar | None = None if None in highs else max(highs)  # type: ignore[type-var]
    counts = sum(part.nulls for part in ranges), sum(part.nans for part in ranges)
    return RangeStats(ranges[0].start, ranges[-1].stop, *counts, low, high)


def pruned(schema: TableSchema, slice_: Slice, where: Filter) -> list[Slice]:
    return _pieces(schema, slice_, where, where.may_match)


def settled(schema: TableSchema, slice_: Slice, where: Filter) -> RowRanges:
    """The rows of a slice of which its statistics say that they match."""
    if where.all_match is None:
        return NO_ROWS
    pieces = _pieces(schema, replace(slice_, selected=None), where, where.all_match)
    return slice_.chosen.intersection(RowRanges.of((piece.start, piece.stop) for piece in pieces))


def _pieces(schema: TableSchema, slice_: Slice, where: Filter, holds: MayMatch) -> list[Slice]:
    """The parts of a slice whose statistics are as ``holds`` says."""
    columns = [name for name in sorted(where.columns) if name in slice_.stats]
    cuts = {slice_.start, slice_.stop}
    for name in columns:
        cuts.update(edge for s in slice_.stats[name] for edge in (s.start, s.stop) if slice_.start < edge < slice_.stop)
    edges = sorted(cuts)
    kept: list[Slice] = []
    for start, stop in pairwise(edges):
        stats = value_stats(schema, slice_.key.value, start, stop)
        for name in columns:
            around = next((s for s in slice_.stats[name] if s.start <= start and stop <= s.stop), None)
            if around is not None:
                stats[name] = around
        if not holds(stats):
            continue
        if kept and kept[-1].stop == start:
            kept[-1] = replace(kept[-1], stop=stop)
        else:
            kept.append(replace(slice_, start=start, stop=stop))
    return kept


KEPT = 64  # groupings that are remembered
_remembered: OrderedDict[tuple[str, int], Groups | None] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Groups:
    """The ranges of one grouping column; those of both zeros stand under one key."""

    ranges: dict[Order, RowRanges]
    column: Column

    def find(self, wanted: Sequence[Sequence[Key]]) -> RowRanges:
        own = [self.ranges[order] for key in wanted[0] if (order := key_order(key, self.column.type)) in self.ranges]
        pairs = [(int(one.starts[i]), int(one.stops[i])) for one in own for i in range(len(one))]
        return RowRanges.of(pairs)


def stored_groups(files: LocationFiles, slice_: Slice, column: Column) -> Groups | None:
    """The grouping of a column as its files have it; None where there is none, or not that of the rows."""
    stored = slice_.placed(column)
    state = slice_.files.get(stored.files[0])
    if state is None or state.crc == UNKNOWN or column.forms:  # the keys may be of another type
        return None
    known = str(slice_.directory / stored.files[0]), state.crc
    if known not in _remembered:
        _remembered[known] = _read(files, slice_, stored)
        while len(_remembered) > KEPT:
            _remembered.popitem(last=False)
    return _remembered[known]


def _read(files: LocationFiles, slice_: Slice, column: Column) -> Groups | None:
    try:
        groups = read_grouping(files.fs, slice_.directory, column, slice_.rows)
        if groups is None or not _holds(files, slice_, column, groups):
            return None
    except (SparkhavenError, OSError):
        return None
    ranges: dict[Order, RowRanges] = {}
    for key, start, stop in zip(groups.keys, groups.starts.tolist(), groups.stops.tolist(), strict=True):
        order = key_order(key, column.type)
        own = RowRanges.one(start, stop)
        ranges[order] = own if order not in ranges else ranges[order].union(own)
    return Groups(ranges, column)


def _holds(files: LocationFiles, slice_: Slice, column: Column, groups: GroupRanges) -> bool:
    """Whether each range begins and ends with rows of its key."""
    fs, checks = files.fs, files.checks or MEMORY
    opened = open_column(
        fs,
        slice_.directory,
        column,
        slice_.sizes,
        slice_.rows,
        check=lambda path, data: checks.require(fs, path, data, slice_.files[path.name].crc),
    )
    keys = [key_identity(key) for key in groups.keys]
    return all(
        [key_identity(value) for value in _plain(opened.take(RowRanges.at(rows)))] == keys
        for rows in (groups.starts, groups.stops - 1)
    )


def _plain(values: pa.Array) -> list[object]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    listed: list[object] = values.to_pylist()
    return listed


FEW = 1 << 10  # rows that further indexes, and statistics, need not make fewer


@dataclass(frozen=True, slots=True)
class Worth:
    """``long``: rows of a range on average from which ranges are read one by one, without a copy.

    ``scattered``: of so many rows one, in short ranges, is too many for an index to save anything.
    """

    long: int = 1 << 12
    scattered: int = 4


WORTH = Worth()


def narrowed(
    files: LocationFiles,
    schema: TableSchema,
    slices: Iterable[Slice],
    where: Filter,
    worth: Worth = WORTH,
) -> list[Slice]:
    """Slices of whole locations without rows that cannot match; one slice for all scattered rows of a location.

    Of a slice with selected rows, such as those that were not withdrawn, only these are left.

    Indexes say it of history, statistics of the rest.
    """
    return [
        part
        for slice_ in slices
        for piece in _narrowed(files, schema, replace(slice_, selected=None), where, worth)
        if (part := piece.limited(slice_.selected)) is not None
    ]


def _narrowed(files: LocationFiles, schema: TableSchema, whole: Slice, where: Filter, worth: Worth) -> Iterator[Slice]:
    rows = None
    if whole.tier == "history" and where.lookup is not None:
        if not may_match(schema, whole, where):
            return
        rows = indexed_rows(files, schema, whole, where.lookup, worth)
    if rows is None:
        yield from pruned(schema, whole, where)
        return
    if rows.rows > FEW:
        pieces = pruned(schema, replace(whole, start=rows.start, stop=rows.stop), where)
        rows = rows.intersection(RowRanges.of((piece.start, piece.stop) for piece in pieces))
    if len(rows) > 1 and rows.rows < worth.long * len(rows):
        yield replace(whole, start=rows.start, stop=rows.stop, selected=rows)
        return
    for start, stop in zip(rows.starts.tolist(), rows.stops.tolist(), strict=True):
        yield replace(whole, start=start, stop=stop)


def indexed_rows(
    files: LocationFiles, schema: TableSchema, whole: Slice, lookup: Lookup, worth: Worth = WORTH
) -> RowRanges | None:
    """The rows of a location of history that its indexes give; None: it has none to be used, or they save nothing."""
    rows = _Location(files, schema, whole).rows(lookup)
    if rows is None or (rows.rows * worth.scattered > whole.rows and rows.rows < worth.long * len(rows)):
        return None
    return rows


class _Location:
    """The indexes of one location."""

    def __init__(self, files: LocationFiles, schema: TableSchema, whole: Slice) -> None:
        self._files, self._whole = files, whole
        self._columns = {column.name: column for column in schema.stored}
        names = dict.fromkeys(path.partition("/")[0] for path in whole.indexes)
        listed = [tuple(name.removeprefix(INDEX).split(",")) for name in names if name.startswith(INDEX)]
        now = schema.names_at(whole.named_by)
        self._indexes = [
            (tuple(now.get(name, name) for name in stored), stored) for stored in sorted(listed, key=len, reverse=True)
        ]

    def rows(self, lookup: Lookup) -> RowRanges | None:
        if lookup.op == "in":
            return self._listed({lookup.column: lookup.keys})
        if lookup.op == "or":
            parts = [self.rows(part) for part in lookup.parts]
            known = [part for part in parts if part is not None]
            return RowRanges.of([]) if not parts else _united(known) if len(known) == len(parts) else None
        wanted: dict[str, tuple[Key, ...]] = {}
        for part in lookup.parts:
            if part.op == "in":
                wanted.setdefault(part.column, part.keys)
        rows = self._listed(wanted)
        for part in lookup.parts:
            if part.op == "or" and (rows is None or rows.rows > FEW):
                rows = _both(rows, self.rows(part))
        return rows

    def _listed(self, wanted: dict[str, tuple[Key, ...]]) -> RowRanges | None:
        """Rows in which every column has one of its keys, as far as indexes tell."""
        rows: RowRanges | None = None
        used: set[str] = set()
        for columns, stored in self._indexes:
            leading = list(takewhile(wanted.__contains__, columns))
            if not leading or used.issuperset(leading) or (rows is not None and rows.rows <= FEW):
                continue
            part = self._find(columns, stored, [wanted[name] for name in leading])
            if part is not None:
                used.update(leading)
                rows = _both(rows, part)
        for name in wanted:
            column = self._columns.get(name)
            if name not in used and column is not None and column.kind is Kind.GROUPING:
                groups = stored_groups(self._files, self._whole, column)
                rows = rows if groups is None else _both(rows, groups.find([wanted[name]]))
        return rows

    def _find(
        self, columns: Sequence[str], stored: Sequence[str], wanted: Sequence[tuple[Key, ...]]
    ) -> RowRanges | None:
        if any(name not in self._columns for name in columns):
            return None
        keys = [self._columns[name] for name in columns]
        if columns != stored:
            keys = [column.at(self._whole.named_by) for column in keys]
        index = self._files.index(self._whole, keys)
        try:
            return None if index is None else index.find(wanted)
        except (SparkhavenError, OSError, ValueError):
            return None


def _both(one: RowRanges | None, other: RowRanges | None) -> RowRanges | None:
    if one is None or other is None:
        return other if one is None else one
    return one.intersection(other)


def _united(parts: Sequence[RowRanges]) -> RowRanges:
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.union(part)
    return rows
