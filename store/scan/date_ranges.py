"""Dates that a command or a read names, ``D`` or ``A..B``: their form, and the error for one that is no date.

A partition value is any text. So a text is malformed only where it is no date, and the table has dates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.layout import check_partition

RANGE = ".."
_DATE = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})(?:[-T_ ]([0-9]{2}))?(?![0-9])")
_PREFIX = re.compile(r"[0-9]{4}(?:-(0[1-9]|1[0-2]))?\Z")
_SHAPE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]")


def begin_of(value: str) -> tuple[datetime, bool] | None:
    """The day or hour that a partition value begins with, without a zone, and whether it is an hour.

    Dates are ``2013-07-04`` or ``20130704``, optionally with the hour: ``-05``, ``T05``, ``_05`` or `` 05``. None for
    a value that begins with no date.
    """
    match = _DATE.match(value)
    if match is None:
        return None
    year, month, day, hour = match.groups()
    try:
        return datetime(int(year), int(month), int(day), int(hour or 0)), bool(hour)
    except ValueError:
        return None


def names(asked: str, value: str) -> bool:
    """Whether a text that is no range names a partition value: that value, or the day of which it is an hour."""
    return value == asked or day_of(value) == asked


def day_of(value: str) -> str | None:
    """The day that a partition value is an hour of, as the value has it; None for any other value."""
    match = _DATE.match(value) if len(value) > len("20130704") else None
    return value[: match.end(3)] if match is not None and match[4] is not None else None


def within(value: str, first: str, last: str) -> bool:
    """Whether a partition value is in the closed range; ``2013-01-02`` as the end takes all hours of that day."""
    return first <= value and value[: len(last)] <= last


def range_of(text: str) -> tuple[str, str] | None:
    """Both ends of ``A..B``; None for a single date. SettingsError where no value can be in it."""
    first, dots, last = text.partition(RANGE)
    if not dots:
        check_partition("date", text)
        return None
    for end in filter(None, (first, last)):
        check_partition("date", end)
    if not (first and last):
        raise SettingsError(
            "date range is missing its start or end", expected="A..B, like 2013-01-01..2013-12-31", found=repr(text)
        )
    if first[: len(last)] > last:  # as an end a day takes all of its hours
        raise SettingsError(
            "date range ends before it begins", expected=f"{last}..{first}", found=repr(text), hint="swap the ends"
        )
    return first, last


def is_well_formed(text: str) -> bool:
    """Whether it is a date, or a range of dates, whatever the table has. Ends of ranges may be a month or a year."""
    ends = range_of(text)
    if ends is None:
        return begin_of(text) is not None
    return all(begin_of(end) is not None or _PREFIX.match(end) for end in ends)


def refuse_malformed(asked: Iterable[str], known: Collection[str], *, new: bool = False) -> None:
    """SettingsError for a text that is not well-formed, and that the table does not have.

    ``known``: the partition values of the table. ``new``: a value may be new to the table, so without any known value
    only texts in the shape of a date are looked at.
    """
    for text in asked:
        if not is_well_formed(text) and not (text in known and range_of(text) is None) and not _has(text, known, new):
            raise SettingsError(
                "malformed date",
                expected=f"a date like {example(known)}, or a range of dates A..B",
                found=repr(text),
                hint="`sparkhaven stats` lists the dates of a table",
            )


def _has(text: str, known: Collection[str], new: bool) -> bool:
    if new and not known:
        return not any(_SHAPE.match(name) for name in range_of(text) or (text,))
    if known and not any(begin_of(value) is not None for value in known):
        return True  # its values are no dates
    ends = range_of(text)
    if ends is None:
        return text in known
    return all(is_well_formed(end) or any(value.startswith(end) for value in known) for end in ends)


def example(known: Iterable[str]) -> str:
    return max((value for value in known if begin_of(value) is not None), default="2026-11-20")
