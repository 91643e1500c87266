"""A slice of a scan: rows of one location that a read opens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.types.committed_columns import FileState, RangeStats
from sparkhaven.store.types.model import NOW, Column, TableSchema
from sparkhaven.store.types.row_ranges import RowRanges

_stop = attrgetter("stop")


Stats = Mapping[str, tuple[RangeStats, ...]]


class NamesOfNow:
    """How a schema reads what locations have under names: statistics come under the names of now.

    Of a location that a later version of the schema has named it is not known whose the names are. There statistics and
    indexes count for nothing.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._names: dict[int, dict[str, str]] = {}  # by version: a plan has many locations of each

    def newer(self, named_by: int) -> bool:
        """Whether a location is named by a later version than the schema's."""
        return self._schema.version < named_by < NOW

    def stats(self, named_by: int, stats: Stats) -> Stats:
        """Statistics of a location."""
        if self.newer(named_by):
            return {}
        names = self._names.get(named_by)
        if names is None:
            names = self._names[named_by] = self._schema.names_at(named_by)
        return {names.get(name, name): ranges for name, ranges in stats.items()} if names else stats


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows ``[start, stop)`` of one location, with what is committed there: ``rows``, file sizes, statistics.

    ``path``: the directory of the location. ``newer``: a later version of the schema wrote it than the one that reads
    it. ``named_by``: the version by which its files are named; statistics are by the names of now. ``indexes``: files
    of its indexes. ``selected``: the rows of ``[start, stop)`` that are read; None: all.
    """

    tier: Literal["intraday", "history"]
    stream: str | None
    key: LocationKey
    path: str
    start: int
    stop: int
    rows: int
    files: Mapping[str, FileState]
    stats: Stats
    newer: bool = False
    indexes: Mapping[str, FileState] = field(default_factory=dict)
    selected: RowRanges | None = None
    named_by: int = NOW

    @property
    def directory(self) -> Path:
        """Made when it is asked for: a plan has ten thousands of slices, and its reader may be another program."""
        return Path(self.path)

    def placed(self, column: Column) -> Column:
        """A column under the name, and with the storage, of its files."""
        return column.at(self.named_by).within(self.files)

    @property
    def chosen(self) -> RowRanges:
        """The rows that are read."""
        return RowRanges.one(self.start, self.stop) if self.selected is None else self.selected

    def limited(self, rows: RowRanges | None) -> Slice | None:
        """The slice with those of its rows alone that are among ``rows`` (None: all); None where there is none."""
        if rows is None:
            return self
        kept = self.chosen.intersection(rows)
        if not kept:
            return None
        return replace(self, start=kept.start, stop=kept.stop, selected=kept if len(kept) > 1 else None)

    @property
    def count(self) -> int:
        return self.stop - self.start if self.selected is None else self.selected.rows

    @property
    def sizes(self) -> dict[str, int]:
        return {name: state.size for name, state in self.files.items()}

    def has_nulls(self, column: str) -> bool | None:
        """Whether the statistics say that the column has nulls in this slice; None = they do not tell."""
        covered, ranges = self.start, self.stats.get(column, ())
        for position in range(bisect_right(ranges, self.start, key=_stop), len(ranges)):
            stats = ranges[position]
            if covered >= self.stop:
                break
            if stats.start > covered:
                return None
            if stats.nulls:
                return True
            covered = stats.stop
        return False if covered >= self.stop else None
