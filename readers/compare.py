"""Two snapshots of a table, of two database roots, compared by digests; rows are read only where those differ.

Merge records have the digest of the rows of each location of history. Of intraday two locations are equal if the
committed lengths and checksums of their files are. What is left is read: other order, other partitions, other storage
of the same values. Digests of single columns only say which columns differ.

Rows that one of two sets of slices has more often than the other are found by hashes of whole rows. A date is read in
passes over parts of the hashes, so memory is bounded however many rows it has. A second read names the rows, a bounded
number.

A range of epochs of one stream is compared by the intraday rows that it has added. The commit log has lengths and
checksums of each file before the range and after it. Where both are the same in two roots, so are the bytes between,
and no row is read. The epoch before the range must be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sparkhaven.readers.arrow.export import cell_values
from sparkhaven.readers.arrow.opening import open_place
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.digest import add, digest_array, digest_nulls, digest_rows, from_hex, tag_of
from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SettingsError, SnapshotMovedError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import of_now
from sparkhaven.store.merges.merge_records import MergeOutput
from sparkhaven.store.native.digests import Hashes
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.ranges import ReadPlan
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import Column, Kind
from sparkhaven.store.types.null_char import has_other_null
from sparkhaven.store.types.row_ranges import Positions

STEP_ROWS = 1 << 17
PASS_ROWS = 1 << 25  # hashes in memory at once, of each side
Side = Literal["here", "there"]
Begun = Mapping[LocationKey, Mapping[str, FileState]]
"""Files of locations where a comparison begins behind their first row, as they were before it."""


@dataclass(frozen=True, slots=True)
class EpochRange:
    """Epochs ``first`` to ``last`` of a stream; None: of the only one of a table."""

    stream: str | None
    first: int
    last: int

    @staticmethod
    def parse(text: str) -> EpochRange:
        """``A..B`` or ``STREAM=A..B``. SettingsError: another form."""
        stream, equals, numbers = text.rpartition("=")
        first, dots, last = numbers.partition("..")
        if (equals and not stream) or not dots or not (first.isdecimal() and last.isdecimal()):
            raise SettingsError("--epochs is no range", expected="A..B or STREAM=A..B", found=repr(text))
        if not 1 <= int(first) <= int(last):
            raise SettingsError("--epochs is an empty range", expected="1 <= A <= B", found=repr(text))
        return EpochRange(stream or None, int(first), int(last))

    def of(self, place: TablePlace) -> str:
        """The stream of a table. SettingsError: it has several, and none is named."""
        streams = list_streams(place)
        if self.stream is not None:
            return self.stream
        if len(streams) != 1:
            raise SettingsError(
                "--epochs names no stream of a table that has several",
                where=str(place.table),
                expected="STREAM=A..B",
                found=f"{self.first}..{self.last}, streams {', '.join(streams) or 'none'}",
            )
        return streams[0]


@dataclass(frozen=True, slots=True)
class AddedRows:
    """A snapshot at the end of a range, and what the range has added: ``begun`` has the files before it by location."""

    pinned: PinnedTable
    slices: tuple[Slice, ...]
    begun: Mapping[LocationKey, Mapping[str, FileState]]


def added_rows(place: TablePlace, epochs: EpochRange) -> AddedRows:
    """The rows that a range of epochs has added to intraday, merged or not.

    TableNotFoundError: no such stream, or the epoch before the range is not kept. SnapshotMovedError: rows of a date
    were truncated since.
    """
    stream = epochs.of(place)
    pinned = pinned_of(open_place(place, epoch={stream: epochs.last}))
    before = load_stream(place.of_stream(stream), epoch=epochs.first - 1)
    begun: dict[LocationKey, Mapping[str, FileState]] = {}
    starts: dict[LocationKey, int] = {}
    for key, location in pinned.pin(stream).state.locations.items():
        if location.truncated and location.epoch >= epochs.first:
            raise SnapshotMovedError(
                "rows of these epochs were truncated",
                where=f"{place.table} {key.value}, source {key.internal}",
                expected="rows that are intraday",
                found="an empty location",
                hint=f"compare the date without --epochs: its history has the rows of {place.table}",
            )
        old = before.locations.get(key)
        if old is not None and old.since == location.since and not old.truncated:
            starts[key], begun[key] = old.rows, dict(old.files.items())
    slices = [
        _from(slice_, starts.get(slice_.key, 0))
        for slice_ in pinned.plan(tier="intraday").slices
        if slice_.stream == stream and slice_.stop > starts.get(slice_.key, 0)
    ]
    return AddedRows(pinned, tuple(slices), begun)


def _from(slice_: Slice, start: int) -> Slice:
    """The rows of a slice from a row of its location on."""
    if slice_.start >= start:
        return slice_
    selected = slice_.selected
    kept = None if selected is None else selected.within(start, slice_.stop)
    return replace(slice_, start=start, selected=kept)


class Digests:
    """Digests of some rows: of the rows, all compared columns together, and of each column by itself."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.rows = 0
        self.columns = dict.fromkeys(columns, 0)

    def add(self, other: Digests) -> None:
        self.rows = add(self.rows, other.rows)
        for name, digest in other.columns.items():
            self.columns[name] = add(self.columns[name], digest)


class SnapshotDigests:
    """One side of a comparison: a pinned snapshot, its plan, and how many rows were read for digests.

    ``columns`` are compared. Digests depend on ids and first types of columns: ``like`` are those of one side, in the
    same order, to which both are brought. Not ``recorded``: all rows are read, whatever merge records say.
    """

    def __init__(
        self, pinned: PinnedTable, columns: Sequence[Column], like: Sequence[Column], *, recorded: bool
    ) -> None:
        self.pinned, self.columns = pinned, tuple(columns)
        self._hashed = [replace(c, id=one.id, forms=one.forms) for c, one in zip(columns, like, strict=True)]
        self.plan: ReadPlan = pinned.plan()
        self.rows_read = 0
        self._outputs: dict[LocationKey, MergeOutput] = {}
        if recorded and len(columns) == len(pinned.schema.stored) and all(map(self._is_recorded, columns, like)):
            for record in self.plan.records:
                for output in record.outputs:
                    self._outputs[LocationKey(output.internal, record.value)] = of_now(output, pinned.schema)

    def _is_recorded(self, column: Column, like: Column) -> bool:
        return column.id == like.id and tag_of(column) == tag_of(like) and not has_other_null(column)

    def of_slice(self, slice_: Slice) -> Digests:
        """Those of the rows of a slice."""
        digests = Digests(column.name for column in self.columns)
        output = self._outputs.get(slice_.key) if slice_.tier == "history" else None
        if output is not None and slice_.count == output.rows:
            digests.rows = from_hex(output.row_digest)
            for column in self.columns:
                known = output.digests.get(column.name)
                digests.columns[column.name] = digest_nulls(column, output.rows) if known is None else from_hex(known)
            return digests
        for arrays in self.arrays(slice_):
            digests.rows = add(digests.rows, digest_rows(self.hashes(arrays, digests.columns)))
        return digests

    def arrays(self, slice_: Slice) -> Iterator[list[pa.Array]]:
        """The compared columns of a slice, in steps."""
        return self.pinned.arrays([slice_], self.columns, None, STEP_ROWS, self._count)

    def hashes(self, arrays: Sequence[pa.Array], digests: dict[str, int] | None = None) -> Hashes:
        """The hash of each row; the digests of the columns are added to ``digests``."""
        hashes = np.zeros(len(arrays[0]) if arrays else 0, np.uint64)
        for column, array in zip(self._hashed, arrays, strict=True):
            digest = digest_array(column, array, hashes)
            if digests is not None:
                digests[column.name] = add(digests[column.name], digest)
        return hashes

    def _count(self, rows: int) -> None:
        self.rows_read += rows


def same_bytes(one: Slice, other: Slice, pair: tuple[Column, Column], begun: tuple[Begun, Begun]) -> bool:
    """Whether the records of two slices of intraday have the same lengths and checksums for all files of a column.

    That is of all rows up to the last one, and of those before the first where there are any. Files have the names,
    and the storage, of each location.
    """
    mine, theirs = one.placed(pair[0]), other.placed(pair[1])
    whole = all(part.stop == part.rows and part.count == part.stop - part.start for part in (one, other))
    if not whole or any(part.tier != "intraday" for part in (one, other)):
        return False
    if (one.key, one.start, one.rows) != (other.key, other.start, other.rows) or any(map(has_other_null, pair)):
        return False
    if (mine.storage, mine.encoding, len(mine.files)) != (theirs.storage, theirs.encoding, len(theirs.files)):
        return False
    states = [(one.files, other.files)]
    if one.start:
        if one.key not in begun[0] or other.key not in begun[1]:
            return False
        states.append((begun[0][one.key], begun[1][other.key]))
    return all(
        here.get(a) == there.get(b) for here, there in states for a, b in zip(mine.files, theirs.files, strict=True)
    )


@dataclass(frozen=True, slots=True)
class DifferentRow:
    """A row that one side has, or has more often. ``row`` is its number in the location of its source."""

    side: Side
    date: str
    source: str
    row: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowSet:
    """Slices of one side, whose columns are in the same order on both sides."""

    side: Side
    digests: SnapshotDigests
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        return sum(slice_.count for slice_ in self.slices)

    def hashed(self) -> Iterator[tuple[Slice, Positions, list[pa.Array], Hashes]]:
        """Batches of rows: slice, numbers of its rows from there on, arrays of the columns, hashes of the rows."""
        for slice_ in self.slices:
            rows, done = slice_.chosen.positions if slice_.selected is not None else None, 0
            for arrays in self.digests.arrays(slice_):
                hashes = self.digests.hashes(arrays)
                numbers = np.arange(done, done + len(hashes)) + slice_.start if rows is None else rows[done:]
                yield slice_, numbers, arrays, hashes
                done += len(hashes)


def row_differences(
    here: RowSet, there: RowSet, limits: tuple[int, int], pass_rows: int = PASS_ROWS
) -> tuple[int, int, list[DifferentRow]]:
    """How many rows only one side has, here and there, and those within ``limits`` by name."""
    passes = max(here.rows, there.rows) // pass_rows + 1
    counts, named = [0, 0], list[DifferentRow]()
    extras: list[list[tuple[Hashes, np.ndarray[Any, Any]]]] = [[], []]
    for part in range(passes):
        net, hashes = _net(_collected(here, part, passes), _collected(there, part, passes))
        for side, sign in enumerate((1, -1)):
            chosen = net * sign > 0
            counts[side] += int(net[chosen].sum()) * sign
            kept = sum(len(extra) for extra, _ in extras[side])
            if chosen.any() and kept < limits[side]:
                extras[side].append((hashes[chosen][: limits[side]], np.abs(net[chosen][: limits[side]])))
    for row_set, extra, limit in zip((here, there), extras, limits, strict=True):
        named += _named(row_set, extra, limit)
    return counts[0], counts[1], named


def _collected(row_set: RowSet, part: int, passes: int) -> Hashes:
    parts = [hashes[hashes % np.uint64(passes) == part] if passes > 1 else hashes for *_, hashes in row_set.hashed()]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _net(here: Hashes, there: Hashes) -> tuple[np.ndarray[Any, Any], Hashes]:
    """How often more each hash is here than there, and the hashes."""
    (mine, counts), (theirs, others) = (np.unique(hashes, return_counts=True) for hashes in (here, there))
    hashes, inverse = np.unique(np.concatenate((mine, theirs)), return_inverse=True)
    net = np.zeros(len(hashes), np.int64)
    np.add.at(net, inverse, np.concatenate((counts, -others)))
    return net, hashes


def _named(row_set: RowSet, extra: Sequence[tuple[Hashes, np.ndarray[Any, Any]]], limit: int) -> list[DifferentRow]:
    wanted = {int(key): int(count) for hashes, counts in extra for key, count in zip(hashes, counts, strict=True)}
    named: list[DifferentRow] = []
    if not wanted:
        return named
    sought = np.array(sorted(wanted), np.uint64)
    for slice_, numbers, arrays, hashes in row_set.hashed():
        for row in np.flatnonzero(np.isin(hashes, sought)).tolist():
            key = int(hashes[row])
            if wanted[key] and len(named) < limit:
                wanted[key] -= 1
                columns = zip(row_set.digests.columns, arrays, strict=True)
                values = {column.name: cell_values(array[row : row + 1])[0] for column, array in columns}
                where = slice_.key.value, slice_.key.internal, int(numbers[row])
                named.append(DifferentRow(row_set.side, *where, values))
        if len(named) == limit or not any(wanted.values()):
            break
    return named


@dataclass(frozen=True, slots=True)
class DateComparison:
    """One date: rows on both sides, and by column whether the values are equal.

    ``sources``: the same by source, where neither side has merged the date and both have the same sources.
    ``only_here`` and ``only_there``: rows that one side has, or has more often.
    """

    date: str
    rows: int
    other_rows: int
    columns: Mapping[str, bool]
    sources: Mapping[str, Mapping[str, bool]]
    only_here: int = 0
    only_there: int = 0

    @property
    def equal(self) -> bool:
        same = self.rows == self.other_rows and not (self.only_here or self.only_there)
        return same and all(self.columns.values())


@dataclass(frozen=True, slots=True)
class TableComparison:
    """``columns``: what differs in the columns themselves. ``rows_read``: of both sides, a row once a read."""

    epochs: Mapping[str, int]
    other_epochs: Mapping[str, int]
    columns: Mapping[str, str]
    dates: tuple[DateComparison, ...]
    differences: tuple[DifferentRow, ...]
    rows_read: int

    @property
    def equal(self) -> bool:
        return not self.columns and all(date.equal for date in self.dates)


@dataclass(frozen=True, slots=True)
class _Equal:
    """Whether the rows of both sides are equal, and the values of each column by itself."""

    rows: bool
    columns: dict[str, bool]


class _Comparison:
    def __init__(
        self,
        here: PinnedTable,
        there: PinnedTable,
        limit: int,
        every_row: bool,
        pass_rows: int,
        begun: tuple[Begun, Begun],
    ) -> None:
        mine, theirs = _columns(here), _columns(there)
        self.unlike = dict.fromkeys(mine.keys() - theirs.keys(), "only here")
        self.unlike |= dict.fromkeys(theirs.keys() - mine.keys(), "only there")
        self.pairs = {name: (mine[name], theirs[name]) for name in mine if name in theirs}
        for name, (one, other) in list(self.pairs.items()):
            if one.type != other.type:
                self.unlike[name] = f"{one.type.name} here, {other.type.name} there"
                del self.pairs[name]
        like, others = [pair[0] for pair in self.pairs.values()], [pair[1] for pair in self.pairs.values()]
        self.here = SnapshotDigests(here, like, like, recorded=not every_row)
        self.there = SnapshotDigests(there, others, like, recorded=not every_row)
        self.limit, self.every_row, self.pass_rows, self.begun = limit, every_row, pass_rows, begun
        self.differences: list[DifferentRow] = []

    def date(self, value: str, mine: list[Slice], theirs: list[Slice]) -> DateComparison:
        rows, others = _count(mine), _count(theirs)
        same = frozenset() if self.every_row else _same(mine, theirs, self.pairs, self.begun)
        kept = _without(mine, same), _without(theirs, same)
        by_source = _by_source(mine, theirs)
        if by_source:
            parts = {
                source: self._digests(*(_without(side, by_source - {source}) for side in kept)) for source in by_source
            }
        else:
            parts = {"": self._digests(*kept)}
        columns = {name: all(equal.columns[name] for equal in parts.values()) for name in self.pairs}
        only = (0, 0)
        if not all(part.rows for part in parts.values()):
            only = self._rows(*kept)
            if by_source and only == (0, 0) and rows == others:  # the same rows, but of other sources
                columns = dict.fromkeys(columns, True)
        sources = {source: part.columns for source, part in parts.items()} if by_source else {}
        return DateComparison(value, rows, others, columns, sources, *only)

    def _digests(self, mine: Sequence[Slice], theirs: Sequence[Slice]) -> _Equal:
        """Digests of single columns count where those of the rows differ."""
        if _count(mine) != _count(theirs):
            return _Equal(False, dict.fromkeys(self.pairs, False))
        here, there = (Digests(self.pairs) for _ in range(2))
        for slices, of_side, total in ((mine, self.here, here), (theirs, self.there, there)):
            for slice_ in slices:
                total.add(of_side.of_slice(slice_))
        equal = here.rows == there.rows
        return _Equal(equal, {name: equal or here.columns[name] == there.columns[name] for name in self.pairs})

    def _rows(self, mine: Sequence[Slice], theirs: Sequence[Slice]) -> tuple[int, int]:
        here, there = RowSet("here", self.here, tuple(mine)), RowSet("there", self.there, tuple(theirs))
        known = [sum(row.side == side for row in self.differences) for side in ("here", "there")]
        only_here, only_there, named = row_differences(
            here, there, (self.limit - known[0], self.limit - known[1]), self.pass_rows
        )
        self.differences += named
        return only_here, only_there

    def compared(
        self, mine: Sequence[Slice], theirs: Sequence[Slice], progress: Callable[[str], object]
    ) -> TableComparison:
        """All dates of these slices."""
        sides, dates = [_by_date(slices) for slices in (mine, theirs)], []
        here, there = self.here.pinned, self.there.pinned
        for value in sorted(sides[0].keys() | sides[1].keys()):
            dates.append(self.date(value, *(side.get(value, []) for side in sides)))
            progress(f"{here.name} {value}: {'equal' if dates[-1].equal else 'different'}")
        read = self.here.rows_read + self.there.rows_read
        unlike, differences = dict(sorted(self.unlike.items())), tuple(self.differences)
        return TableComparison(here.epochs, there.epochs, unlike, tuple(dates), differences, read)


def _columns(pinned: PinnedTable) -> dict[str, Column]:
    return {c.name: c for c in pinned.schema.columns if c.kind is not Kind.PARTITIONING}


def _count(slices: Sequence[Slice]) -> int:
    return sum(slice_.count for slice_ in slices)


def _without(slices: Sequence[Slice], sources: Collection[str]) -> list[Slice]:
    """The slices but for those of intraday of some sources."""
    return [slice_ for slice_ in slices if slice_.tier != "intraday" or slice_.key.internal not in sources]


def _by_source(mine: Sequence[Slice], theirs: Sequence[Slice]) -> frozenset[str]:
    """The sources of a date, if neither side has merged it and both have the same ones."""
    if any(slice_.tier != "intraday" for slice_ in (*mine, *theirs)):
        return frozenset()
    here, there = (frozenset(slice_.key.internal for slice_ in slices) for slices in (mine, theirs))
    return here if here == there else frozenset()


def _same(
    mine: Sequence[Slice],
    theirs: Sequence[Slice],
    pairs: Mapping[str, tuple[Column, Column]],
    begun: tuple[Begun, Begun],
) -> frozenset[str]:
    """The sources whose files are the same in intraday of both sides."""
    others = {slice_.key.internal: slice_ for slice_ in theirs if slice_.tier == "intraday"}
    return frozenset(
        slice_.key.internal
        for slice_ in mine
        if slice_.tier == "intraday"
        and (other := others.get(slice_.key.internal)) is not None
        and all(same_bytes(slice_, other, pair, begun) for pair in pairs.values())
    )


def compare_tables(
    here: PinnedTable,
    there: PinnedTable,
    *,
    limit: int = 20,
    every_row: bool = False,
    pass_rows: int = PASS_ROWS,
    progress: Callable[[str], object] = lambda _: None,
) -> TableComparison:
    """Compares two snapshots date by date; names at most ``limit`` rows that only one has, of each.

    ``every_row``: nothing is taken from records, all rows of both sides are read. ``pass_rows`` bounds memory where
    dates differ: rows of each side that are held at once, at 8 bytes a row.
    """
    comparison = _Comparison(here, there, limit, every_row, pass_rows, ({}, {}))
    return comparison.compared(comparison.here.plan.slices, comparison.there.plan.slices, progress)


def compare_epochs(
    here: AddedRows,
    there: AddedRows,
    *,
    limit: int = 20,
    every_row: bool = False,
    pass_rows: int = PASS_ROWS,
    progress: Callable[[str], object] = lambda _: None,
) -> TableComparison:
    """Compares the rows that a range of epochs has added on each side, date by date."""
    begun = here.begun, there.begun
    comparison = _Comparison(here.pinned, there.pinned, limit, every_row, pass_rows, begun)
    return comparison.compared(here.slices, there.slices, progress)


def _by_date(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    return {value: list(group) for value, group in groupby(slices, key=lambda slice_: slice_.key.value)}
