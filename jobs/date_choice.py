"""Which dates a command means: ``--date``, ``--dates A..B``, ``--closed``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from store.epochs.load import list_streams, load_stream
from store.errors import SettingsError, TableNotFoundError
from store.fs import Fs
from store.layout import Layout, TableName, check_partition
from store.selection import within

CLOSED_GRACE_S = 300.0  # the last batches of a day are committed by then; a later row would cost a supplement
_DAY = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[-T_ ]([0-9]{2}))?(?![0-9])")


@dataclass(frozen=True, slots=True)
class DateChoice:
    """One date, all known dates from ``first`` to ``last`` (both included), or all that are over.

    A date is over ``grace_s`` seconds after its day, or its hour, has ended in ``zone``.
    """

    date: str | None = None
    first: str | None = None
    last: str | None = None
    closed: bool = False
    zone: str = "UTC"
    grace_s: float = 0.0

    def pick(self, known: Iterable[str], now_s: float) -> list[str]:
        """The dates meant, of those that are known, in order. ``now_s``: seconds since the epoch, for ``closed``.

        A single date is taken as it is, known or not. No date found is a TableNotFoundError.
        """
        if self.date is not None:
            return [self.date]
        listed = sorted(set(known))
        if self.closed:
            zone = ZoneInfo(self.zone)
            found = [
                value for value in listed if (end := end_of(value, zone)) is not None and end + self.grace_s <= now_s
            ]
            today = datetime.fromtimestamp(now_s - self.grace_s, zone)
            wanted = f"dates that were over at {today:%Y-%m-%d %H:%M} in {self.zone}"
        else:
            first, last = str(self.first), str(self.last)
            found = [value for value in listed if within(value, first, last)]
            wanted = f"dates from {first} to {last}"
        if not found:
            span = f"{listed[0]} to {listed[-1]}" if listed else "none"
            raise TableNotFoundError("no such dates", expected=wanted, found=span, hint="`sparkhaven stats` lists them")
        return found


def end_of(value: str, zone: ZoneInfo) -> float | None:
    """When the day (or hour) of a partition value ends, in seconds since the epoch; None if it begins with no date.

    Known are ``2013-07-04`` and ``20130704``, and after either the hour: ``-05``, ``T05``, ``_05`` or a blank and it.
    """
    match = _DAY.match(value)
    if match is None:
        return None
    year, month, day, hour = match.groups()
    try:
        begin = datetime(int(year), int(month), int(day), int(hour or 0))
        end = begin + (timedelta(hours=1) if hour else timedelta(days=1))
    except (ValueError, OverflowError):
        return None
    return end.replace(tzinfo=zone).timestamp()


def parse_choice(
    date: str | None, dates: str | None, closed: bool = False, *, zone: str = "UTC", grace_s: float = CLOSED_GRACE_S
) -> DateChoice:
    """The choice that options make; exactly one of them must be given."""
    given = sum((date is not None, dates is not None, closed))
    if given != 1:
        raise SettingsError(
            "which dates?",
            expected="one of --date D, --dates A..B, --closed",
            found=f"{given} of them",
            hint="see --help",
        )
    if date is not None:
        return DateChoice(date=check_partition("date", date))
    if closed:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            expected = "a name like America/New_York or UTC"
            raise SettingsError("--zone is no time zone", expected=expected, found=repr(zone)) from None
        return DateChoice(closed=True, zone=zone, grace_s=grace_s)
    first, dots, last = str(dates).partition("..")
    if not dots or not first or not last:
        raise SettingsError("--dates is not understood", expected="A..B, like 2013-01-01..2013-12-31", found=dates)
    if first > last:
        raise SettingsError(
            "--dates ends before it begins", expected=f"{last}..{first}?", found=dates, hint="swap them"
        )
    for value in (first, last):
        check_partition("date", value)
    return DateChoice(first=first, last=last)


def intraday_dates(fs: Fs, layout: Layout, table: TableName) -> set[str]:
    """Every date that a stream of the table has rows of, emptied ones too."""
    states = (load_stream(fs, layout, table, stream) for stream in list_streams(fs, layout, table))
    return {key.value for state in states for key in state.locations}
