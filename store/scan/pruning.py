"""Slices without the row ranges of which statistics say that no row can match a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sparkhaven.store.expressions.predicate.lookups import Lookup
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.committed_columns import RangeStats, Scalar
from sparkhaven.store.types.model import TableSchema

MayMatch = Callable[[Mapping[str, RangeStats]], bool]


@dataclass(frozen=True, slots=True)
class Filter:
    """A predicate as the scan sees it: the columns it names, and whether a row range may hold a match.

    ``lookup``: what of it an index answers.
    """

    columns: frozenset[str]
    may_match: MayMatch
    lookup: Lookup | None = None


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
        if not where.may_match(stats):
            continue
        if kept and kept[-1].stop == start:
            kept[-1] = replace(kept[-1], stop=stop)
        else:
            kept.append(replace(slice_, start=start, stop=stop))
    return kept
