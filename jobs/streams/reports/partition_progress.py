"""The progress of a stream by topic partition: committed position, end, lag and rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 3  # partitions in a line of progress, those with the most left first


@dataclass(slots=True)
class PartitionProgress:
    """The topic partitions of one stream, from batch to batch. ``before``: the positions when it was opened."""

    before: Mapping[str, int]

    def line(
        self, positions: Mapping[str, int], ends: Mapping[str, int], seconds: float, *, shown: int | None = SHOWN
    ) -> str:
        """The topic partitions after a batch of ``seconds``, as text; "" for a source without any.

        An end in ``ends`` that lies before the position is outdated and not shown. ``shown`` None: all.
        """
        now = {place: at for place, at in positions.items() if "/" in place}
        left = {place: ends[place] - at for place, at in now.items() if ends.get(place, -1) >= at}
        order = sorted(now, key=lambda place: (-left.get(place, 0), place))[:shown]
        texts = [self._text(place, now[place], left.get(place), seconds) for place in order]
        self.before = now
        return "; ".join(texts) + (f", and {len(now) - len(order):,} more" if len(now) > len(order) else "")

    def _text(self, place: str, at: int, left: int | None, seconds: float) -> str:
        rate = (at - self.before.get(place, at)) / seconds if seconds else 0.0
        end = "" if left is None else f" of {at + left:,}, lag {left:,}"
        return f"{place} at {at:,}{end}, {rate:,.0f}/s"


def total_lag(positions: Mapping[str, int], ends: Mapping[str, int]) -> int | None:
    """The lag of all topic partitions; None where the end of one is outdated."""
    left = [ends.get(place, -1) - at for place, at in positions.items() if "/" in place]
    return sum(left) if left and min(left) >= 0 else None
