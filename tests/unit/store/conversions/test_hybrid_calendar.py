"""Days of the calendar of old Java classes: the same year, month and day in today's, by counting them one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.store.conversions.hybrid_calendar import (
    GREGORIAN_DAY,
    HybridCalendar,
    hybrid_calendar,
    in_todays_calendar,
    todays_days,
)

EPOCH = date(1970, 1, 1).toordinal()
ALL = HybridCalendar(True, True, True, "UTC")


def julian_days() -> Iterator[tuple[int, int, int, int]]:
    """Each day of the Julian calendar from 1582-10-04 back to 0001-01-01, with its number."""
    number, year, month, day = GREGORIAN_DAY - 1, 1582, 10, 4
    while year:
        yield number, year, month, day
        number, day = number - 1, day - 1
        if not day:
            month -= 1
            if not month:
                year, month = year - 1, 12
            day = 29 if month == 2 and year % 4 == 0 else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def test_every_day_is_the_one_of_the_same_name() -> None:
    numbers, expected = [], []
    for number, year, month, day in julian_days():
        missing = (month, day) == (2, 29) and year % 100 == 0 and year % 400 != 0
        numbers.append(number)
        expected.append((date(year, 3, 1) if missing else date(year, month, day)).toordinal() - EPOCH)
    assert len(numbers) == 577_737
    np.testing.assert_array_equal(todays_days(np.array(numbers)), expected)
    later = np.arange(GREGORIAN_DAY, GREGORIAN_DAY + 200_000)
    np.testing.assert_array_equal(todays_days(later), later)


def test_years_before_the_first() -> None:
    one, leap = -719_164, -719_164 - 366  # 0001-01-01, and 1 BC has a leap day in both calendars
    days = todays_days(np.array([one - 1, leap, leap - 1])).astype("datetime64[D]")
    assert [str(day) for day in days] == ["0000-12-31", "0000-01-01", "-001-12-31"]


FOOTERS: dict[str, tuple[dict[str, str], tuple[bool, bool, bool] | None]] = {
    "no writer": ({}, None),
    "Spark 2.4": ({"version": "2.4.8"}, (True, True, True)),
    "Spark 3.0": ({"version": "3.0.3"}, (False, False, True)),
    "Spark 3.1": ({"version": "3.1.0"}, None),
    "Spark 10": ({"version": "10.0.0"}, None),
    "Spark 4 told to": ({"version": "4.0.1", "legacyDateTime": ""}, (True, True, False)),
    "Spark 4 told to, INT96": ({"version": "4.0.1", "legacyINT96": ""}, (False, False, True)),
    "Spark before it wrote a version": ({"sql.parquet.row.metadata": "{}"}, (True, True, True)),
}


@pytest.mark.parametrize("writer", FOOTERS)
def test_what_a_footer_says(writer: str) -> None:
    keys, expected = FOOTERS[writer]
    footer = {f"org.apache.spark.{name}".encode(): value.encode() for name, value in keys.items()}
    calendar = hybrid_calendar(footer)
    assert (calendar and (calendar.dates, calendar.timestamps, calendar.int96)) == expected


def test_hive_says_it_of_dates_alone() -> None:
    assert hybrid_calendar({b"writer.date.proleptic": b"false"}) == HybridCalendar(True, False, False)
    assert hybrid_calendar({b"writer.date.proleptic": b"true"}) is None


D = pa.array([-719_164, None, 0], pa.int32()).cast(pa.date32())
MOVED = pa.array([-719_162, None, 0], pa.int32()).cast(pa.date32())
NESTED = {
    "list": lambda days: pa.ListArray.from_arrays(pa.array([0, 1, None, 3]), days),
    "large list": lambda days: pa.LargeListArray.from_arrays(pa.array([0, 1, None, 3], pa.int64()), days),
    "struct": lambda days: pa.StructArray.from_arrays([days, days], ["a", "b"], mask=pa.array([False, True, False])),
    "map": lambda days: pa.MapArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", "b"]), days.slice(0, 2)),
    "dictionary": lambda days: pa.DictionaryArray.from_arrays(pa.array([0, 2, None]), days),
    "list of structs": lambda days: pa.ListArray.from_arrays(
        pa.array([0, 2, 3]), pa.StructArray.from_arrays([days], ["a"])
    ),
    "days in ms": lambda days: days.cast(pa.date64()),
}


@pytest.mark.parametrize("kind", NESTED)
def test_dates_within_values_of_any_type(kind: str) -> None:
    array, expected = NESTED[kind](D), NESTED[kind](MOVED)
    found, doubt = in_todays_calendar(array, ALL)
    assert (found.equals(expected), doubt) == (True, None)
    assert in_todays_calendar(array.slice(1), ALL)[0].equals(expected.slice(1))


def test_instants_that_are_in_doubt() -> None:
    early, sure = -2_208_988_801, -2_208_988_800
    instants = pa.array([early, sure, None, -62_135_769_600], pa.timestamp("s", "UTC"))
    for zone, doubt in (
        ("UTC", None),
        ("America/New_York", [True, False, False, True]),
        (None, [True, False, False, True]),
    ):
        found, rows = in_todays_calendar(instants, HybridCalendar(True, True, True, zone))
        assert found.cast(pa.int64()).to_pylist() == [early, sure, None, -62_135_596_800]
        assert (None if rows is None else rows.tolist()) == doubt
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 2, 4]), instants)
    assert in_todays_calendar(lists, HybridCalendar(True, True, True))[1].tolist() == [False, True, True]  # type: ignore[union-attr]
    local = instants.cast(pa.timestamp("s"))
    assert in_todays_calendar(local, ALL)[0] is local
    assert in_todays_calendar(instants, HybridCalendar(True, False, True))[0] is instants
    assert in_todays_calendar(instants, HybridCalendar(True, False, True), int96=True)[1] is not None
