"""When the days of a market close: its time zone, hours, days off, and which dates a run is for.

A date is the market's own, never that of UTC. An instant is an aware ``datetime``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from .errors import ConfigurationError
from .sections import at_clock, clock

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
LONGEST_BREAK = 366  # days without a session after which a calendar is taken to have none
_LINE = re.compile(r"(\S+)(?:\s+close\s+(\S+))?(?:\s+(.*))?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Market:
    """A calendar. ``opens`` and ``closes`` are times since midnight of the date; ``early`` closes by date.

    With ``opens`` at or after ``closes`` a session begins on the evening before its date.
    """

    name: str
    zone: ZoneInfo
    opens: timedelta
    closes: timedelta
    days_off: frozenset[int] = frozenset()
    holidays: Mapping[date, str] = field(default_factory=dict)
    early: Mapping[date, timedelta] = field(default_factory=dict)

    def is_session(self, day: date) -> bool:
        """Whether the market trades on that date."""
        return day.weekday() not in self.days_off and day not in self.holidays

    def why_closed(self, day: date) -> str | None:
        """Why there is no session on that date; None if there is one."""
        if day in self.holidays:
            return f"{day} is a holiday of {self.name}: {self.holidays[day] or 'in its list'}"
        return None if self.is_session(day) else f"{day} is a {DAYS[day.weekday()]}, a day off of {self.name}"

    def close_of(self, day: date) -> datetime:
        """The instant at which that date closes."""
        return self._instant(day, self.early.get(day, self.closes))

    def is_open(self, now: datetime) -> bool:
        """Whether a session runs at that instant."""
        today = now.astimezone(self.zone).date()
        for day in (today, today + timedelta(days=1)):
            opened = self._instant(day - timedelta(days=self.opens >= self.closes), self.opens)
            if self.is_session(day) and opened <= now < self.close_of(day):
                return True
        return False

    def closing(self, after: datetime, until: datetime) -> Iterator[date]:
        """The dates whose close is later than ``after`` and not later than ``until``."""
        day = after.astimezone(self.zone).date() - timedelta(days=1)
        while day <= until.astimezone(self.zone).date():
            if self.is_session(day) and after < self.close_of(day) <= until:
                yield day
            day += timedelta(days=1)

    def newest(self, now: datetime) -> date:
        """The last date that has closed. ConfigurationError if the calendar has no session in a year."""
        today = now.astimezone(self.zone).date()
        for back in range(LONGEST_BREAK):
            day = today - timedelta(days=back)
            if self.is_session(day) and self.close_of(day) <= now:
                return day
        raise ConfigurationError("the calendar has no session in the year before", where=self.name, found=now)

    def between(self, first: date, last: date) -> list[date]:
        """The dates with a session from ``first`` to ``last``, both included."""
        days = (first + timedelta(days=number) for number in range((last - first).days + 1))
        return [day for day in days if self.is_session(day)]

    def _instant(self, day: date, since_midnight: timedelta) -> datetime:
        later = timedelta(days=since_midnight // timedelta(days=1))
        return datetime.combine(day + later, at_clock(since_midnight), self.zone).astimezone(UTC)


def read_holidays(file: Path) -> tuple[dict[date, str], dict[date, timedelta]]:
    """Days off and early closes of a file: a line is ``2026-12-25 Christmas`` or ``2026-12-24 close 13:00 why``."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("the holidays cannot be read", where=file, found=error) from None
    holidays: dict[date, str] = {}
    early: dict[date, timedelta] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        try:
            if match is None or not _DATE.fullmatch(match[1]):
                raise ValueError(text)
            day = date.fromisoformat(match[1])
            if day in holidays or day in early:
                raise ConfigurationError("a date stands twice", where=f"{file}:{number}", found=text)
            if match[2]:
                early[day] = clock(match[2])
            else:
                holidays[day] = match[3] or ""
        except ConfigurationError:
            raise
        except ValueError:
            raise ConfigurationError(
                "a line is not a holiday",
                where=f"{file}:{number}",
                expected="2026-12-25 Christmas, or 2026-12-24 close 13:00 Christmas Eve",
                found=text,
            ) from None
    return holidays, early


def chosen_dates(
    market: Market, dates: str | None, start: datetime | None, end: datetime | None, now: datetime
) -> list[date]:
    """The dates that a run is for.

    ``dates``: one date or ``A..B``, of which only sessions. Otherwise the dates that close in the data interval of the
    run, after ``start`` and not after ``end``; so that every date belongs to exactly one scheduled run. A run without
    an interval is for the last date that had closed at ``end`` or ``now``.
    """
    if dates:
        first, dots, last = dates.partition("..")
        try:
            days = date.fromisoformat(first), date.fromisoformat(last if dots else first)
        except ValueError:
            days = date.max, date.min
        if days[0] > days[1]:
            raise ConfigurationError(
                "the run has no valid date", where="params.date", expected="2026-01-31 or 2026-01-01..2026-01-31",
                found=dates,
            )  # fmt: skip
        return market.between(*days) if dots else [days[0]]
    if start is not None and end is not None and start < end:
        return list(market.closing(start, end))
    return [market.newest(end or now)]
