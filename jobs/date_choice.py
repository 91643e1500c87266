"""Which dates a command means: ``--date``, ``--dates A..B``, ``--closed``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from store.epochs.load import list_streams, load_stream
from store.errors import SettingsError, TableNotFoundError
from store.fs import Fs
from store.layout import Layout, TableName, check_partition
from store.selection import within


@dataclass(frozen=True, slots=True)
class DateChoice:
    """One date, all known dates from ``first`` to ``last`` (both included), or all that are over."""

    date: str | None = None
    first: str | None = None
    last: str | None = None
    closed: bool = False

    def pick(self, known: Iterable[str], now_s: float) -> list[str]:
        """The dates meant, of those that are known, in order. ``now_s``: seconds since the epoch, for ``closed``.

        A single date is taken as it is, known or not. No date found is a TableNotFoundError.
        """
        if self.date is not None:
            return [self.date]
        listed = sorted(set(known))
        if self.closed:
            today = datetime.fromtimestamp(now_s, UTC).date().isoformat()
            found = [value for value in listed if value[: len(today)] < today]
            wanted = f"dates before {today} (UTC)"
        else:
            first, last = str(self.first), str(self.last)
            found = [value for value in listed if within(value, first, last)]
            wanted = f"dates from {first} to {last}"
        if not found:
            span = f"{listed[0]} to {listed[-1]}" if listed else "none"
            raise TableNotFoundError("no such dates", expected=wanted, found=span, hint="`sparkhaven stats` lists them")
        return found


def parse_choice(date: str | None, dates: str | None, closed: bool = False) -> DateChoice:
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
        return DateChoice(closed=True)
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
