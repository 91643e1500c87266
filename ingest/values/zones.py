"""Local time of a zone for whole arrays at once, from the same zone data as ``zoneinfo``.

Two rules decide what local texts mean. An hour that happens twice (clocks put back) means its **first** passing,
the one before the change. An hour that never happens (clocks put forward) is an error of the row: no instant is
made up for it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from sparkhaven.store.instants import NS_PER_SECOND

Int64s = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROBE_S = 6 * 3600  # two changes of one zone within six hours do not occur


@lru_cache(maxsize=64)
def zone_table(name: str) -> ZoneTable:
    """The table of a zone, one for a process."""
    return ZoneTable(ZoneInfo(name))


class ZoneTable:
    """Offsets of one zone, found year by year as they are asked for."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._years: dict[int, list[tuple[int, int]]] = {}
        self._starts: Int64s = np.empty(0, np.int64)
        self._offsets: Int64s = np.empty(0, np.int64)

    def offset_s(self, utc_ns: Int64s) -> Int64s:
        """Seconds to add to each instant for local time."""
        if not len(utc_ns):
            return np.empty(0, np.int64)
        seconds = utc_ns // NS_PER_SECOND
        self._cover(int(seconds.min()), int(seconds.max()))
        return self._at(seconds)

    def one_stretch(self, first_ns: int, last_ns: int, step: int) -> bool:
        """Whether all instants between two have one offset, and are in one step of so many seconds of local time."""
        ends = np.array([first_ns, last_ns]) // NS_PER_SECOND
        first, last = (self.offset_s(ends * NS_PER_SECOND) + ends) // step
        stretches = np.searchsorted(self._starts, ends, side="right")
        return bool(first == last and stretches[0] == stretches[1])

    def to_utc(self, local_ns: Int64s) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        """Instants of local times (ns as if UTC), and a mask of those that never happened."""
        if not len(local_ns):
            return local_ns, np.zeros(0, np.bool_)
        local = local_ns // NS_PER_SECOND
        self._cover(int(local.min()) - 2 * 86_400, int(local.max()) + 2 * 86_400)
        # Offsets of a day before and after enclose any change near by; the earlier reading that is consistent wins.
        before = self._at(local - 86_400)
        after = self._at(local + 86_400)
        first, second = local - np.maximum(before, after), local - np.minimum(before, after)
        first_fits = self._at(first) == local - first
        second_fits = self._at(second) == local - second
        utc = np.where(first_fits, first, second)
        gap = ~(first_fits | second_fits)
        return utc * NS_PER_SECOND + (local_ns - local * NS_PER_SECOND), gap

    def _at(self, seconds: Int64s) -> Int64s:
        return self._offsets[np.searchsorted(self._starts, seconds, side="right") - 1]

    def _cover(self, low: int, high: int) -> None:
        wanted = range(_year(low) - 1, _year(high) + 2)
        missing = [year for year in wanted if year not in self._years]
        if not missing:
            return
        for year in missing:
            self._years[year] = self._changes(year)
        rows = sorted(row for changes in self._years.values() for row in changes)
        self._starts = np.array([start for start, _ in rows], np.int64)
        self._offsets = np.array([offset for _, offset in rows], np.int64)

    def _changes(self, year: int) -> list[tuple[int, int]]:
        """(first second, offset) of each stretch of one offset within a UTC year."""
        start, stop = _year_start(year), _year_start(year + 1)
        offset = self._offset(start)
        stretches = [(start, offset)]
        low = start
        while low < stop:
            high = min(low + _PROBE_S, stop)
            if high < stop and self._offset(high) != offset:
                left, right = low, high
                while right - left > 1:
                    middle = (left + right) // 2
                    left, right = (middle, right) if self._offset(middle) == offset else (left, middle)
                offset = self._offset(right)
                stretches.append((right, offset))
                high = right
            low = high
        return stretches

    def _offset(self, second: int) -> int:
        utc_offset = (_EPOCH + timedelta(seconds=second)).astimezone(self._zone).utcoffset()
        return 0 if utc_offset is None else round(utc_offset.total_seconds())


def _year(second: int) -> int:
    return (_EPOCH + timedelta(seconds=second)).year


def _year_start(year: int) -> int:
    return round((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
