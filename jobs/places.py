"""Where a stream stands in each partition of its topics: committed position, end as last heard, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SHOWN = 3  # partitions in a line of progress, those with the most left first


def ends_of(said: Mapping[str, Any]) -> dict[str, int]:
    """The ends of partitions, by ``topic/partition``, in what a source says of itself."""
    return {place: end for place, end in said.items() if "/" in place and isinstance(end, int)}


@dataclass(slots=True)
class Places:
    """The partitions of one stream, from batch to batch. ``before`` are the positions when it was opened."""

    before: Mapping[str, int]
    ends: Mapping[str, int] = field(default_factory=dict)

    def heard(self, said: Mapping[str, Any]) -> None:
        """Takes the ends over from a report of the source."""
        self.ends = ends_of(said) or self.ends

    def line(self, positions: Mapping[str, int], seconds: float, *, shown: int | None = SHOWN) -> str:
        """The partitions after a batch of so many seconds, as text; "" for a source that has none.

        ``shown`` None: all of them.
        """
        now = {place: at for place, at in positions.items() if "/" in place}
        left = {place: max(0, self.ends[place] - at) for place, at in now.items() if place in self.ends}
        order = sorted(now, key=lambda place: (-left.get(place, 0), place))[:shown]
        told = [self._told(place, now[place], left.get(place), seconds) for place in order]
        self.before = now
        return "; ".join(told) + (f"; {len(now) - len(order):,} more" if len(now) > len(order) else "")

    def _told(self, place: str, at: int, left: int | None, seconds: float) -> str:
        rate = (at - self.before.get(place, at)) / seconds if seconds else 0.0
        end = "" if left is None else f" of {self.ends[place]:,}, lag {left:,}"
        return f"{place} at {at:,}{end}, {rate:,.0f}/s"
