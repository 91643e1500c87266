"""The dates of a command: ``--dates D|A..B`` (also spelled ``--date``), ``--closed``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sparkhaven.ingest.settings import Period
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from sparkhaven.store.layout import TableName
from sparkhaven.store.scan.selection import begin_of, is_well_formed, names, range_of, refuse_malformed, within

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo  # which takes longer than all other modules here

NO_PERIOD = Period()
CLOSED_GRACE_S = 300.0  # the last batches of a day are committed by then; a later row would cost a supplement


@dataclass(frozen=True, slots=True)
class DateChoice:
    """Single dates and ranges ``A..B`` of known dates (both ends included), or all dates that have ended.

    A date has ended ``grace_s`` seconds after the end of its day, or its hour, in ``zone``.
    """

    dates: tuple[str, ...] = ()
    closed: bool = False
    zone: str = "UTC"
    grace_s: float = 0.0

    def pick(
        self, known: Iterable[str], now_s: float, others: Callable[[], Iterable[str]] = tuple, kind: str = ""
    ) -> list[str]:
        """The chosen ones of the known dates, in order. ``now_s``: seconds since the epoch, for ``closed``.

        ``others`` gives dates that the table has beside them; it is asked only where a text is no date. A single date
        is returned as it is, known or not. TableNotFoundError if there is none; its text has ``kind``, like
        ``"merged "``. SettingsError for a text that is no date, if the table does not have it.
        """
        listed = sorted(set(known))
        if not all(map(is_well_formed, self.dates)):
            refuse_malformed(self.dates, {*listed, *others()})
        if self.closed:
            zone = zone_named(self.zone, "the zone of the dates is not known")
            chosen = [
                value for value in listed if (end := end_of(value, zone)) is not None and end + self.grace_s <= now_s
            ]
            today = datetime.fromtimestamp(now_s - self.grace_s, zone)
            wanted = f"{kind}dates that had ended at {today:%Y-%m-%d %H:%M} in {self.zone}"
        else:
            chosen = sorted({value for asked in self.dates for value in _taken(asked, listed)})
            wanted = f"{kind}dates in {', '.join(self.dates)}"
        if not chosen:
            span = f"{listed[0]} to {listed[-1]}" if listed else "none"
            raise TableNotFoundError(
                f"no such {kind}dates", expected=wanted, found=span, hint="`sparkhaven stats` lists the dates"
            )
        return chosen


def _taken(asked: str, listed: list[str]) -> list[str]:
    ends = range_of(asked)
    if ends is None:
        return [value for value in listed if names(asked, value)] or [asked]
    return [value for value in listed if within(value, *ends)]


def end_of(value: str, zone: ZoneInfo, period: Period = NO_PERIOD) -> float | None:
    """When the day (or hour) of a partition value ends, and a period after that, in seconds since the epoch.

    None if the value begins with no date, or for a time beyond the year 9999.
    """
    begin = begin_of(value)
    if begin is None:
        return None
    try:
        end = period.after(begin[0] + (timedelta(hours=1) if begin[1] else timedelta(days=1)))
    except OverflowError:
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
    dates: Sequence[str] | None, closed: bool | None = None, *, zone: str = "UTC", grace_s: float = CLOSED_GRACE_S
) -> DateChoice:
    """The choice of the options, of which exactly one must be given. ``closed``: None where a command has none."""
    given = bool(dates) + bool(closed)
    if given != 1:
        raise SettingsError(
            "no dates are chosen" if not given else "dates are chosen in two ways",
            expected="--dates D|A..B" if closed is None else "--dates D|A..B or --closed",
            found="both" if given else "neither" if closed is not None else "none",
            hint="see --help",
        )
    if closed:
        zone_named(zone, "--zone is not a time zone")
        return DateChoice(closed=True, zone=zone, grace_s=grace_s)
    for text in dates or ():
        range_of(text)
    return DateChoice(tuple(dates or ()))


def intraday_dates(states: Iterable[StreamState]) -> set[str]:
    """Every date of which a stream has or had rows."""
    return {key.value for state in states for key in state.locations}


def recorded_zone(table: TableName, states: Iterable[StreamState]) -> str:
    """The time zone whose days or hours the dates of a table are, as the commit logs of its streams record it.

    Streams without dates and with a fixed date do not count; where no stream has dates it is UTC. SettingsError where
    streams differ, one has recorded no zone, or no stream takes its dates from instants.
    """
    zone_of = {state.stream: state.zone for state in states if len(state.locations)}
    if not zone_of:
        return "UTC"
    zones = {zone for zone in zone_of.values() if zone != ""}
    if len(zones) == 1 and (zone := zones.pop()) is not None:
        zone_named(zone, "the time zone that a stream records is not known on this machine", table)
        return zone
    raise SettingsError(
        "the streams of this table have not recorded one time zone in which its dates end",
        where=table,
        expected="the same time zone in the commit log of every stream",
        found=", ".join(f"{stream}: {_zone_text(zone)}" for stream, zone in sorted(zone_of.items())),
        hint="give --zone. A stream records the zone of partition.value when it starts",
    )


def _zone_text(zone: str | None) -> str:
    return "a fixed date" if zone == "" else zone or "not recorded"
