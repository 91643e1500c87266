"""Where a stream stands in each partition of its topics: committed position, end as the broker told it, how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 3  # partitions in a line of progress, those with the most left first


@dataclass(slots=True)
class PartitionProgress:
    """The partitions of one stream, from batch to batch. ``before`` are the positions when it was opened."""

    before: Mapping[str, int]

    def line(
        self, positions: Mapping[str, int], ends: Mapping[str, int], seconds: float, *, shown: int | None = SHOWN
    ) -> str:
        """The partitions after a batch of so many seconds, as text; "" for a source that has none.

        ``ends`` as last told; where a partition has moved on since, none is shown. ``shown`` None: all of them.
        """
        now = {place: at for place, at in positions.items() if "/" in place}
        left = {place: ends[place] - at for place, at in now.items() if ends.get(place, -1) >= at}
        order = sorted(now, key=lambda place: (-left.get(place, 0), place))[:shown]
        told = [self._told(place, now[place], left.get(place), seconds) for place in order]
        self.before = now
        return "; ".join(told) + (f"; {len(now) - len(order):,} more" if len(now) > len(order) else "")

    def _told(self, place: str, at: int, left: int | None, seconds: float) -> str:
        rate = (at - self.before.get(place, at)) / seconds if seconds else 0.0
        end = "" if left is None else f" of {at + left:,}, lag {left:,}"
        return f"{place} at {at:,}{end}, {rate:,.0f}/s"


def total_lag(positions: Mapping[str, int], ends: Mapping[str, int]) -> int | None:
    """Offsets that are left in all partitions; None where one has moved on since its end was told."""
    left = [ends.get(place, -1) - at for place, at in positions.items() if "/" in place]
    return sum(left) if left and min(left) >= 0 else None
