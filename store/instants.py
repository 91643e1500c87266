"""Instants, days and times of day as text, of any year: ISO 8601. Instants are counted from 1970-01-01T00:00:00Z."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_FORM = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)\Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_0 = date(1970, 1, 1).toordinal()
_SECOND = timedelta(seconds=1)
NS_PER_SECOND = 1_000_000_000
DAY_NS = 86_400 * NS_PER_SECOND
UNIT_NS = {"s": NS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
MIN_NS, MAX_NS = -(2**63) + 1, 2**63 - 1  # the smallest long is the null


def parse_instant(text: str) -> int:
    """Nanoseconds of an instant such as ``2013-01-01T05:00:00.123456789-05:00`` or ``…Z``.

    Raises ValueError when the form is another, the zone is missing or the time is outside the range of a long.
    """
    match = _FORM.match(text)
    if match is None:
        raise ValueError("an instant with zone, such as 2013-01-01T05:00:00Z")
    day, clock, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone}")
    nanos = (moment - _EPOCH) // _SECOND * NS_PER_SECOND + int((fraction or "").ljust(9, "0"))
    if not MIN_NS <= nanos <= MAX_NS:
        raise ValueError("an instant from 1677-09-21T00:12:43.145224193Z to 2262-04-11T23:47:16.854775807Z")
    return nanos


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the years 0 to 9999. ValueError: there is no such day."""
    if year:
        return date(year, month, day).toordinal() - _DAY_0
    return date(400, month, day).toordinal() - _DAY_0 - 146_097  # Python has no year 0, whose days are those of 400


def day_text(days: int) -> str:
    """Days since 1970 as a date of any year, in the calendar of ISO 8601; a year has four digits at least."""
    cycle, day = divmod(days + 719_468, 146_097)  # of 400 years that begin on 1 March
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += cycle * 400 + (month >= 10)
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{(month + 2) % 12 + 1:02d}-{day:02d}"


def clock_text(ns: int) -> str:
    """A time of day."""
    seconds, below = divmod(ns, NS_PER_SECOND)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction_text(below)}"


def fraction_text(ns: int) -> str:
    """Nanoseconds below a second with their point: 3, 6 or 9 digits, none for 0."""
    digits = f"{ns:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def timestamp_text(count: int, unit: str) -> str:
    """A count of units since 1970, without a zone."""
    days, rest = divmod(count * UNIT_NS[unit], DAY_NS)
    return f"{day_text(days)}T{clock_text(rest)}"
