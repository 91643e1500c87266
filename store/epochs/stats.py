"""Statistics of a location: ranges of rows per column, merged so that their number follows the data, not the epochs.

After each append the last two ranges are merged while together they span at most ``MERGE_ROWS`` rows, so any two
neighbours span more than that, and a location of n rows has at most about 2 n / ``MERGE_ROWS`` ranges a column.
"""

from __future__ import annotations

from store.epochs.state import RangeStats, Scalar

MERGE_ROWS = 65_536
MAX_BOUND_CHARS = 64


def extend(ranges: tuple[RangeStats, ...], new: RangeStats) -> tuple[RangeStats, ...]:
    """The ranges of one column after an append; ``new`` starts where the last range stops, or later."""
    if new.stop <= new.start:
        return ranges
    last = _bounded(new)
    kept = len(ranges)
    while kept and ranges[kept - 1].stop == last.start and last.stop - ranges[kept - 1].start <= MERGE_ROWS:
        last = join(ranges[kept - 1], last)
        kept -= 1
    return (*ranges[:kept], last)


def join(left: RangeStats, right: RangeStats) -> RangeStats:
    """Statistics of two neighbouring ranges as one; bounds that one side does not know are unknown."""
    low, high = _join_bounds(left, right)
    return RangeStats(
        left.start,
        right.stop,
        left.nulls + right.nulls,
        left.nans + right.nans,
        low,
        high,
        left.exact_us and right.exact_us,
    )


def _bare(stats: RangeStats) -> bool:
    """Whether no row of the range has a value that a bound could speak of."""
    return stats.nulls + stats.nans >= stats.stop - stats.start


def _join_bounds(left: RangeStats, right: RangeStats) -> tuple[Scalar | None, Scalar | None]:
    if _bare(left):
        return right.low, right.high
    if _bare(right):
        return left.low, left.high
    if left.low is None or left.high is None or right.low is None or right.high is None:
        return None, None
    return min(left.low, right.low), max(left.high, right.high)


def _bounded(stats: RangeStats) -> RangeStats:
    for bound in (stats.low, stats.high):
        if isinstance(bound, str) and len(bound) > MAX_BOUND_CHARS:
            return RangeStats(stats.start, stats.stop, stats.nulls, stats.nans, None, None, stats.exact_us)
    return stats
