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
        now = {source: offset for source, offset in positions.items() if "/" in source}
        lags = {source: ends[source] - offset for source, offset in now.items() if ends.get(source, -1) >= offset}
        order = sorted(now, key=lambda source: (-lags.get(source, 0), source))[:shown]
        texts = [self._text(source, now[source], lags.get(source), seconds) for source in order]
        self.before = now
        return "; ".join(texts) + (f", and {len(now) - len(order):,} more" if len(now) > len(order) else "")

    def _text(self, source: str, offset: int, lag: int | None, seconds: float) -> str:
        rate = (offset - self.before.get(source, offset)) / seconds if seconds else 0.0
        end = "" if lag is None else f" of {offset + lag:,}, lag {lag:,}"
        return f"{source} at {offset:,}{end}, {rate:,.0f}/s"


def total_lag(positions: Mapping[str, int], ends: Mapping[str, int]) -> int | None:
    """The lag of all topic partitions; None where the end of one is outdated."""
    lags = [ends.get(source, -1) - offset for source, offset in positions.items() if "/" in source]
    return sum(lags) if lags and min(lags) >= 0 else None
