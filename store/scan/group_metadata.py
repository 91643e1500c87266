"""Grouping in the prefix or ``.ovr`` of a column file, for locations without ``Index-<Col>``.

No checksum covers it. So each key is compared with the first and the last row of its range, once per process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.expressions.predicate.lookups import Key
from sparkhaven.store.format.index.grouping import GroupRanges, key_identity
from sparkhaven.store.scan.checksums import MEMORY
from sparkhaven.store.scan.column_file import open_column, read_grouping
from sparkhaven.store.scan.index_keys import Order, key_order
from sparkhaven.store.scan.location_files import LocationFiles
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import UNKNOWN
from sparkhaven.store.types.model import Column
from sparkhaven.store.types.row_ranges import RowRanges

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
    stored = column.within(slice_.files)
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
