"""Two snapshots of a table, of two database roots, compared by digests; rows are read only where those differ.

Merge records have the digests of history. Of intraday two locations are equal in a column if the committed lengths and
checksums of its files are. What is left is read: other order, other partitions, other storage of the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.compare.epoch_range import AddedRows
from sparkhaven.readers.compare.row_differences import PASS_ROWS, DifferentRow, RowSet, row_differences
from sparkhaven.readers.compare.snapshot_digests import Begun, SnapshotDigests, same_bytes
from sparkhaven.store.digest.column_digest import add
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Column, Kind

Totals = dict[str, int]


@frozen
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
        return not (self.only_here or self.only_there) and all(self.columns.values())


@frozen
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
        ids = {name: pair[0].id for name, pair in self.pairs.items()}
        self.here, self.there = SnapshotDigests(here, ids), SnapshotDigests(there, ids)
        self.limit, self.every_row, self.pass_rows, self.begun = limit, every_row, pass_rows, begun
        self.differences: list[DifferentRow] = []

    def date(self, value: str, mine: list[Slice], theirs: list[Slice]) -> DateComparison:
        rows, others = (sum(slice_.count for slice_ in slices) for slices in (mine, theirs))
        same = _same(mine, theirs, self.pairs, self.begun)
        by_source = self._by_source(mine, theirs)
        sources: dict[str, dict[str, bool]] = {}
        if by_source:
            for source, (one, other) in by_source.items():
                sources[source] = self._columns_equal(one, other, same)
            columns = {name: all(equal[name] for equal in sources.values()) for name in self.pairs}
        else:
            columns = self._columns_equal(mine, theirs, same)
        only = (0, 0)
        if rows != others or not all(columns.values()) or self.every_row:
            only = self._rows(mine, theirs, same)
            if by_source and only == (0, 0):  # the same rows, but of other sources
                columns = dict.fromkeys(columns, True)
        return DateComparison(value, rows, others, columns, sources, *only)

    def _by_source(self, mine: list[Slice], theirs: list[Slice]) -> dict[str, tuple[list[Slice], list[Slice]]]:
        if any(slice_.tier != "intraday" for slice_ in (*mine, *theirs)):
            return {}
        names = {slice_.key.internal for slice_ in mine}
        if names != {slice_.key.internal for slice_ in theirs}:
            return {}
        return {
            name: ([s for s in mine if s.key.internal == name], [s for s in theirs if s.key.internal == name])
            for name in sorted(names)
        }

    def _columns_equal(
        self, mine: list[Slice], theirs: list[Slice], same: Mapping[str, frozenset[str]]
    ) -> dict[str, bool]:
        if sum(slice_.count for slice_ in mine) != sum(slice_.count for slice_ in theirs):
            return dict.fromkeys(self.pairs, False)
        one, other = self._totals(self.here, mine, same, 0), self._totals(self.there, theirs, same, 1)
        return {name: one[name] == other[name] for name in self.pairs}

    def _totals(
        self, digests: SnapshotDigests, slices: list[Slice], same: Mapping[str, frozenset[str]], side: int
    ) -> Totals:
        totals: Totals = dict.fromkeys(self.pairs, 0)
        for slice_ in slices:
            matched = same.get(slice_.key.internal, frozenset()) if slice_.tier == "intraday" else frozenset()
            columns = [pair[side] for name, pair in self.pairs.items() if name not in matched]
            for name, digest in digests.of_slice(slice_, columns).items():
                totals[name] = add(totals[name], digest)
        return totals

    def _rows(self, mine: list[Slice], theirs: list[Slice], same: Mapping[str, frozenset[str]]) -> tuple[int, int]:
        whole = {source for source, names in same.items() if len(names) == len(self.pairs)}
        kept = [
            tuple(s for s in slices if s.tier != "intraday" or s.key.internal not in whole) for slices in (mine, theirs)
        ]
        here = RowSet("here", self.here, kept[0], tuple(pair[0] for pair in self.pairs.values()))
        there = RowSet("there", self.there, kept[1], tuple(pair[1] for pair in self.pairs.values()))
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


def _same(
    mine: list[Slice],
    theirs: list[Slice],
    pairs: Mapping[str, tuple[Column, Column]],
    begun: tuple[Begun, Begun],
) -> dict[str, frozenset[str]]:
    """By source the columns whose files are the same in intraday of both sides."""
    others = {slice_.key.internal: slice_ for slice_ in theirs if slice_.tier == "intraday"}
    return {
        slice_.key.internal: frozenset(
            name for name, pair in pairs.items() if same_bytes(slice_, others[slice_.key.internal], pair, begun)
        )
        for slice_ in mine
        if slice_.tier == "intraday" and slice_.key.internal in others
    }


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

    Digests are of columns: rows that exchange values among themselves are found with ``every_row``, which reads all.
    ``pass_rows`` bounds memory where dates differ: rows of each side that are held at once, at 8 bytes a row.
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
    """The same of the rows that a range of epochs has added on each side."""
    begun = here.begun, there.begun
    comparison = _Comparison(here.pinned, there.pinned, limit, every_row, pass_rows, begun)
    return comparison.compared(here.slices, there.slices, progress)


def _by_date(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    return {value: list(group) for value, group in groupby(slices, key=lambda slice_: slice_.key.value)}
