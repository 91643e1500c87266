"""Statistics of neighbouring ranges of rows, taken together."""

from __future__ import annotations

from sparkhaven.store.types.committed_columns import RangeStats, Scalar


def join(left: RangeStats, right: RangeStats) -> RangeStats:
    """Statistics of two neighbouring ranges as one; bounds that one side does not know are unknown."""
    low, high = _join_bounds(left, right)
    exact = left.exact_us and right.exact_us
    counts = left.nulls + right.nulls, left.nans + right.nans
    return RangeStats(left.start, right.stop, *counts, low, high, exact)


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
