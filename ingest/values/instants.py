"""Instants, exactly: from ISO texts, local texts and numbers to nanoseconds since the epoch; local time of zones.

One instant at a time is part of the definition in ``ingest.values.exact_values``: nothing is rounded.

Zones are for whole arrays at once, from the same zone data as ``zoneinfo``. Two rules decide what local texts mean. An
hour that happens twice (clocks put back) means its **first** passing, the one before the change. An hour that never
happens (clocks put forward) is an error of the row: no instant is made up for it.

Dates and times of day may come as counts: days, seconds, milli-, micro- or nanoseconds. A count is first taken as a
column of whole numbers, or of Instants, takes it: with the same rules for quotes, blanks and fractions. Then it becomes
the date since 1970-01-01, or the time since midnight, that it counts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.arrow_columns import Typed, either, some
from sparkhaven.ingest.values.typed_rows import OutOfRange, Refusal, Value, out_of_range
from sparkhaven.store.instants import DAY_NS, NS_PER_SECOND, UNIT_NS, days_of
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.codings.local_date import FIRST_DAY, LAST_DAY
from sparkhaven.store.types.datatypes import LONG_NULL, data_type

Int64s = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROBE_S = 6 * 3600  # two changes of one zone within six hours do not occur
EXAMPLE = "2013-01-01T05:00:00Z"
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?\Z",
    re.ASCII,
)
UNITS_OF = {
    "Instant": ("s", "ms", "us", "ns"),
    "Instant[]": ("s", "ms", "us", "ns"),
    "LocalDate": ("d", "s", "ms", "us", "ns"),
    "LocalTime": ("s", "ms", "us", "ns"),
}
"""The units of counts that a column of each type takes."""
_NUMBERS = {"LocalDate": data_type("long"), "LocalTime": data_type("Instant")}
INSTANT_LOW, INSTANT_HIGH = LONG_NULL + 1, 2**63 - 1


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


def check_instant(value: int, target: Target, alias: bool = False) -> Value | Refusal:
    """Nanoseconds since the epoch that fit an Instant."""
    return settled(_instant(value, alias), target)


def local_instant(value: int, target: Target, alias: bool = False) -> Value | Refusal:
    """A local time in the zone of the column, as nanoseconds since 1970-01-01 on its clocks."""
    return settled(_local(*divmod(value, UNIT_NS["s"]), target, alias), target)


def settled(instant: Value | Refusal, target: Target) -> Value | Refusal:
    """What the column makes of a far instant, by its setting ``far``; anything else stays as it is."""
    if target.far is None or not isinstance(instant, OutOfRange):
        return instant
    return None if target.far == "null" else INSTANT_HIGH if instant.above else INSTANT_LOW


def iso_instant(text: str, target: Target, alias: bool) -> Value | Refusal:
    """An ISO text, with an offset or in the zone of the column."""
    match = _ISO.match(text)
    if match is None:
        return Refusal(Reason.NOT_AN_INSTANT, f"a text like {EXAMPLE}")
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        days = days_of(int(year), int(month), int(day))
    except ValueError:
        return Refusal(Reason.NO_SUCH_DAY, f"a text like {EXAMPLE}")
    clock = [int(part or 0) for part in (hour, minute, second)]
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return Refusal(Reason.NO_SUCH_TIME, f"a text like {EXAMPLE}")
    local = days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    below = int((fraction or "0").ljust(9, "0"))
    if offset is not None:
        shift = _offset(offset)
        if shift is None:
            return Refusal(Reason.NO_SUCH_OFFSET, "an offset from -23:59 to +23:59")
        return _instant((local - shift) * UNIT_NS["s"] + below, alias)
    return _local(local, below, target, alias)


def _local(local: int, below: int, target: Target, alias: bool) -> Value | Refusal:
    """Seconds on the clocks of the column's zone, and nanoseconds below."""
    if target.zone is None:
        return Refusal(Reason.NO_ZONE, "an offset in the text, or a zone for the column")
    if not INSTANT_LOW < (local - 2 * 86_400) * UNIT_NS["s"] < (local + 2 * 86_400) * UNIT_NS["s"] < INSTANT_HIGH:
        return out_of_range(local > 0)
    utc, gap = zone_table(target.zone).to_utc(np.array([local * UNIT_NS["s"]], np.int64))
    if gap[0]:
        return Refusal(Reason.SKIPPED_TIME, f"a time that the clocks of {target.zone} have shown")
    return _instant(int(utc[0]) + below, alias)


def _offset(text: str) -> int | None:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def epoch_instant(value: Decimal, target: Target, alias: bool) -> Value | Refusal:
    """A number in the unit of the column."""
    scale = UNIT_NS[target.unit]
    if not value.is_finite() or (value and value.adjusted() > 20):
        return out_of_range(value > 0)
    if value and value.adjusted() < -10:
        return Refusal(Reason.TOO_FINE, f"a number in {target.unit}, exact to the nanosecond")
    if not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > 200:
        return Refusal(Reason.TOO_MANY_DIGITS, f"a number in {target.unit}, exact to the nanosecond")
    scaled = int("".join(map(str, digits))) * scale * (-1 if sign else 1)
    if exponent >= 0:
        return _instant(scaled * 10**exponent, alias)
    whole, rest = divmod(scaled, 10**-exponent)
    if rest:
        return Refusal(Reason.TOO_FINE, f"a number in {target.unit}, exact to the nanosecond")
    return _instant(whole, alias)


def _instant(value: int, alias: bool) -> Value | Refusal:
    if value == LONG_NULL:
        return None if alias else Refusal(Reason.NULL_ALIAS, "an instant from 1677 to 2262")
    return value if INSTANT_LOW <= value <= INSTANT_HIGH else out_of_range(value > 0)


def is_counted(target: Target) -> bool:
    """Whether the column is a date or a time of day that comes as a count."""
    return target.unit != "iso" and target.column.type.name in _NUMBERS


def count_target(target: Target) -> Target:
    """The column that a count is taken as first: days since 1970, counts of a unit, or nanoseconds."""
    name = target.column.type.name
    column = replace(target.column, type=_NUMBERS[name])
    return replace(target, column=column, unit="iso" if name == "LocalDate" else target.unit)


def with_ways(value: Value | Refusal, target: Target) -> Value | Refusal:
    """A refusal of a date or a time of day, with the settings that would take other forms of it."""
    name = target.column.type.name
    if not isinstance(value, Refusal) or name not in _NUMBERS or value.reason is not Reason.NO_VALUE_OF_TYPE:
        return value
    return replace(value, expected=f"{value.expected}, or unit or format for column {target.column.name}")


def counted_value(count: Value | Refusal, target: Target) -> Value | Refusal:
    """What a count stands for, or why it stands for none."""
    if not isinstance(count, int):
        return count
    coding = target.column.type.coding
    assert coding is not None  # noqa: S101  a date or a time
    if target.column.type.name == "LocalDate":
        days, rest = divmod(count, _per_day(target))
        if rest:
            return Refusal(Reason.NO_WHOLE_DAY, f"a whole day in {target.unit}")
        return days if FIRST_DAY <= days <= LAST_DAY else Refusal(Reason.OVERFLOW, coding.domain)
    if not 0 <= count < DAY_NS:
        return Refusal(Reason.NO_TIME_OF_DAY, "a time before 24:00, since midnight")
    fits = coding.unstorable(pa.array([count], pa.int64()).view(coding.arrow)) is None
    return count if fits else Refusal(Reason.NOT_EXACT, coding.domain)


def counted_column(counts: Typed, target: Target) -> Typed:
    """What a column of counts stands for; a count that stands for no date or time is in doubt."""
    array, doubt = counts
    coding = target.column.type.coding
    assert coding is not None  # noqa: S101  a date or a time
    null = ~np.asarray(array.is_valid())
    values = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if target.column.type.name == "LocalDate":
        days, rest = np.divmod(values, _per_day(target))
        bad = ((rest != 0) | (days < FIRST_DAY) | (days > LAST_DAY)) & ~null
        dates = pa.array(np.where(bad, 0, days).astype(np.int32), mask=null | bad)
        return dates.view(coding.arrow), either(doubt, some(bad))
    bad = ((values < 0) | (values >= DAY_NS)) & ~null
    times = pa.array(np.where(bad, 0, values), mask=null | bad).view(coding.arrow)
    return times, either(either(doubt, some(bad)), coding.unstorable(times))


def _per_day(target: Target) -> int:
    return 1 if target.unit == "d" else DAY_NS // UNIT_NS[target.unit]
