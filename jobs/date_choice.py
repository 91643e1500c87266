"""The dates of a command: ``--date``, ``--dates A..B``, ``--closed``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from store.epochs.state.replay import StreamState
from store.errors import SettingsError, TableNotFoundError
from store.layout import TableName, check_partition
from store.scan.selection import within
from store.types.frozen import frozen

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo  # which takes longer than all other modules here

CLOSED_GRACE_S = 300.0  # the last batches of a day are committed by then; a later row would cost a supplement
_DAY = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[-T_ ]([0-9]{2}))?(?![0-9])")


@frozen
class DateChoice:
    """One date, all known dates from ``first`` to ``last`` (both included), or all that have ended.

    A date has ended ``grace_s`` seconds after the end of its day, or its hour, in ``zone``.
    """

    date: str | None = None
    first: str | None = None
    last: str | None = None
    closed: bool = False
    zone: str = "UTC"
    grace_s: float = 0.0

    def pick(self, known: Iterable[str], now_s: float) -> list[str]:
        """The chosen ones of the known dates, in order. ``now_s``: seconds since the epoch, for ``closed``.

        A single date is returned as it is, known or not. TableNotFoundError if there is none.
        """
        if self.date is not None:
            return [self.date]
        listed = sorted(set(known))
        if self.closed:
            zone = zone_named(self.zone, "the zone of the dates is not known")
            found = [
                value for value in listed if (end := end_of(value, zone)) is not None and end + self.grace_s <= now_s
            ]
            today = datetime.fromtimestamp(now_s - self.grace_s, zone)
            wanted = f"dates that had ended at {today:%Y-%m-%d %H:%M} in {self.zone}"
        else:
            first, last = str(self.first), str(self.last)
            found = [value for value in listed if within(value, first, last)]
            wanted = f"dates from {first} to {last}"
        if not found:
            span = f"{listed[0]} to {listed[-1]}" if listed else "none"
            raise TableNotFoundError(
                "no such dates", expected=wanted, found=span, hint="`sparkhaven stats` lists the dates"
            )
        return found


def end_of(value: str, zone: ZoneInfo) -> float | None:
    """When the day (or hour) of a partition value ends, in seconds since the epoch; None if the value begins with no
    date.

    Dates are ``2013-07-04`` or ``20130704``, optionally with the hour: ``-05``, ``T05``, ``_05`` or `` 05``.
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


def zone_named(name: str, what: str, where: object = None) -> ZoneInfo:
    """The time zone of that name; an unknown one is a SettingsError that begins with ``what``."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        expected = "a name like America/New_York or UTC"
        raise SettingsError(what, where=where, expected=expected, found=repr(name)) from None


def parse_choice(
    date: str | None, dates: str | None, closed: bool = False, *, zone: str = "UTC", grace_s: float = CLOSED_GRACE_S
) -> DateChoice:
    """The choice of the options, of which exactly one must be given."""
    given = sum((date is not None, dates is not None, closed))
    if given != 1:
        raise SettingsError(
            "no dates are chosen" if not given else "dates are chosen in two ways",
            expected="one of --date D, --dates A..B, --closed",
            found=f"{given} of them",
            hint="see --help",
        )
    if date is not None:
        return DateChoice(date=check_partition("date", date))
    if closed:
        zone_named(zone, "--zone is no time zone")
        return DateChoice(closed=True, zone=zone, grace_s=grace_s)
    first, dots, last = str(dates).partition("..")
    if not dots or not first or not last:
        raise SettingsError("--dates is no range of dates", expected="A..B, like 2013-01-01..2013-12-31", found=dates)
    if first > last:
        raise SettingsError(
            "--dates ends before it begins", expected=f"{last}..{first}?", found=dates, hint="swap them"
        )
    for value in (first, last):
        check_partition("date", value)
    return DateChoice(first=first, last=last)


def intraday_dates(states: Iterable[StreamState]) -> set[str]:
    """Every date of which a stream has or had rows."""
    return {key.value for state in states for key in state.locations}


def recorded_zone(table: TableName, states: Iterable[StreamState]) -> str:
    """The time zone whose days or hours the dates of a table are, as the commit logs of its streams record it.

    Streams without dates and with a fixed date do not count; where no stream has dates it is UTC. SettingsError where
    streams differ, one has recorded no zone, or no stream takes its dates from instants.
    """
    found = {state.stream: state.zone for state in states if len(state.locations)}
    if not found:
        return "UTC"
    zones = {zone for zone in found.values() if zone != ""}
    if len(zones) == 1 and (zone := zones.pop()) is not None:
        zone_named(zone, "the time zone that a stream records is not known on this machine", table)
        return zone
    raise SettingsError(
        "the streams of this table have not recorded one time zone in which its dates end",
        where=table,
        expected="the same time zone in the commit log of every stream",
        found=", ".join(f"{stream}: {_zone_text(zone)}" for stream, zone in sorted(found.items())),
        hint="give --zone; a stream records the zone of partition.value when it starts",
    )


def _zone_text(zone: str | None) -> str:
    return "a fixed date" if zone == "" else zone or "not recorded"
