"""Days of ``merge --dates`` without history: ``--fill-missing`` writes empty locations, ``--strict`` names the days."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, SettingsError
from sparkhaven.store.merges.merge_records import all_values, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.date_ranges import begin_of, range_of

MOST_DAYS = 36_600  # a hundred years
SHOWN = 20


def asked_days(dates: Sequence[str] | None, *, fill: bool, strict: bool) -> list[str]:
    """The dates that are named, and each calendar day of their ranges, spelled as the ends are; none without an option.

    SettingsError: no dates are named, or a range is not from day to day.
    """
    if not fill and not strict:
        return []
    option = "--fill-missing" if fill else "--strict"
    if not dates:
        raise SettingsError(f"no days are named for {option}", expected="--dates D, or A..B", found="no --dates")
    days: set[str] = set()
    for text in dates:
        ends = range_of(text)
        days.update([text] if ends is None else _days(*ends, option))
    return sorted(days)


def _days(first: str, last: str, option: str) -> list[str]:
    begin, end = begin_of(first), begin_of(last)
    compact = "-" not in first
    length = len("20260102" if compact else "2026-01-02")
    if begin is None or end is None or {len(first), len(last)} != {length} or compact != ("-" not in last):
        raise SettingsError(
            f"the range of {option} is not from day to day",
            expected="A..B from day to day, like 2026-01-01..2026-01-31",
            found=f"{first}..{last}",
        )
    count = (end[0] - begin[0]).days + 1
    if count > MOST_DAYS:
        raise SettingsError(
            f"the range of {option} has too many days", expected=f"at most {MOST_DAYS:,}", found=f"{count:,}"
        )
    form = "%Y%m%d" if compact else "%Y-%m-%d"
    return [(begin[0] + timedelta(days=number)).strftime(form) for number in range(count)]


def days_without_history(place: TablePlace, days: Sequence[str], planned: Collection[str] = ()) -> list[str]:
    """Those of the days of which no date, or hour, was merged. A date that was dropped by command is not missing.

    ``planned``: dates that are about to be merged.
    """
    if not days:
        return []
    values = [value for value in all_values(place) if newest(place, value) is not None]
    known = {*values, *planned}
    begins = {begin[0].date() for value in known if (begin := begin_of(value)) is not None}
    return [d for d in days if d not in known and ((begin := begin_of(d)) is None or begin[0].date() not in begins)]


def report_missing(cli: CliContext, name: str, missing: Sequence[str], dry_run: bool) -> int:
    """Says which days have no history, and returns the exit code."""
    if not missing:
        return EXIT_DONE
    more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
    text = f"{len(missing):,} days without history: {', '.join(missing[:SHOWN])}{more}"
    record = {"table": name, "outcome": "missing", "dates": list(missing), "dry_run": dry_run}
    cli.result(record, text)
    cli.note("merge with --fill-missing writes an empty location for each of them")
    return EXIT_BAD_DATA
