"""Which dates a run is for: closes by time zone, days off, early closes, and each date in exactly one run."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nights.errors import ConfigurationError
from nights.markets import Market, chosen_dates, read_holidays
from tests.support.places import REPOSITORY

H = timedelta(hours=1)
WEEKEND = frozenset({5, 6})
NEW_YORK = Market("new-york", ZoneInfo("America/New_York"), 9.5 * H, 16 * H, WEEKEND)
TOKYO = Market("tokyo", ZoneInfo("Asia/Tokyo"), 9 * H, 15 * H, WEEKEND)
FUTURES = Market("futures", ZoneInfo("America/Chicago"), 17 * H, 16 * H, WEEKEND)
ALWAYS = Market("always", ZoneInfo("UTC"), 0 * H, 24 * H)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_date_closes_in_its_own_zone_also_when_clocks_change() -> None:
    assert NEW_YORK.close_of(date(2026, 1, 5)) == at("2026-01-05T21:00")
    assert NEW_YORK.close_of(date(2026, 7, 6)) == at("2026-07-06T20:00")
    assert TOKYO.close_of(date(2026, 1, 5)) == at("2026-01-05T06:00")
    assert ALWAYS.close_of(date(2026, 1, 5)) == at("2026-01-06T00:00")


def test_the_date_is_the_markets_and_not_that_of_utc() -> None:
    noon = at("2026-01-06T12:00")
    assert chosen_dates(TOKYO, None, noon - 24 * H, noon, noon) == [date(2026, 1, 6)]
    assert chosen_dates(NEW_YORK, None, noon - 24 * H, noon, noon) == [date(2026, 1, 5)]
    west = Market("west", ZoneInfo("Etc/GMT+12"), 0 * H, 24 * H)
    assert chosen_dates(west, None, noon - 24 * H, noon, noon) == [date(2026, 1, 5)]


def test_a_run_over_a_weekend_or_holiday_has_no_date() -> None:
    closed = Market("new-york", NEW_YORK.zone, 9 * H, 16 * H, WEEKEND, {date(2026, 1, 1): "New Year's Day"})
    sunday, new_year = at("2026-01-05T03:00"), at("2026-01-02T03:00")
    assert chosen_dates(closed, None, sunday - 24 * H, sunday, sunday) == []
    assert chosen_dates(closed, None, new_year - 24 * H, new_year, new_year) == []
    assert closed.why_closed(date(2026, 1, 1)) == "2026-01-01 is a holiday of new-york: New Year's Day"
    assert closed.why_closed(date(2026, 1, 3)) == "2026-01-03 is a saturday, a day off of new-york"
    assert closed.why_closed(date(2026, 1, 2)) is None


def test_a_run_without_an_interval_has_the_last_date_that_has_closed() -> None:
    assert chosen_dates(NEW_YORK, None, None, None, at("2026-01-05T20:59")) == [date(2026, 1, 2)]
    assert chosen_dates(NEW_YORK, None, None, None, at("2026-01-05T21:00")) == [date(2026, 1, 5)]
    east = Market("east", ZoneInfo("Pacific/Kiritimati"), 0 * H, 1 * H)
    assert chosen_dates(east, None, None, None, at("2026-01-05T12:00")) == [date(2026, 1, 6)]
    same = at("2026-01-05T21:00")
    assert chosen_dates(NEW_YORK, None, same, same, at("2026-01-30T21:00")) == [date(2026, 1, 5)]


def test_a_calendar_without_sessions_is_an_error_and_no_endless_search() -> None:
    never = Market("never", ZoneInfo("UTC"), 0 * H, 24 * H, frozenset(range(7)))
    with pytest.raises(ConfigurationError, match="no session in the year"):
        chosen_dates(never, None, None, None, at("2026-01-05T21:00"))


def test_dates_that_are_asked_for() -> None:
    now = at("2026-01-05T21:00")
    assert chosen_dates(NEW_YORK, "2013-01-05", None, None, now) == [date(2013, 1, 5)], "also a saturday"
    assert chosen_dates(NEW_YORK, "2013-01-04..2013-01-07", None, None, now) == [date(2013, 1, 4), date(2013, 1, 7)]
    for wrong in ("today", "2013-01-07..2013-01-04", "2013-02-30", "2013-01-04..", "..2013-01-04"):
        with pytest.raises(ConfigurationError, match="the run has no valid date"):
            chosen_dates(NEW_YORK, wrong, None, None, now)


def test_open_hours_also_of_a_session_that_begins_the_evening_before() -> None:
    assert not NEW_YORK.is_open(at("2026-01-05T14:29")) and NEW_YORK.is_open(at("2026-01-05T14:30"))
    assert not NEW_YORK.is_open(at("2026-01-05T21:00")) and not NEW_YORK.is_open(at("2026-01-03T15:00"))
    assert FUTURES.is_open(at("2026-01-04T23:00")), "sunday evening belongs to monday"
    assert not FUTURES.is_open(at("2026-01-02T22:30")), "friday evening belongs to saturday"
    assert ALWAYS.is_open(at("2026-01-03T00:00"))


@pytest.mark.slow
@given(
    st.sampled_from([NEW_YORK, TOKYO, FUTURES, ALWAYS]),
    st.lists(st.integers(0, 24 * 20), min_size=2, max_size=30).map(sorted),
    st.dates(date(2025, 1, 1), date(2027, 1, 1)),
)
def test_consecutive_intervals_have_each_session_once(market: Market, cuts: list[int], first: date) -> None:
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    instants = [begin + timedelta(hours=cut) for cut in cuts]
    pieces = [
        day
        for start, end in itertools.pairwise(instants)
        if start < end
        for day in chosen_dates(market, None, start, end, end)
    ]
    whole = list(market.closing(instants[0], instants[-1]))
    assert pieces == whole
    days = (first + timedelta(days=number) for number in range(-2, 30))
    naive = [d for d in days if market.is_session(d) and instants[0] < market.close_of(d) <= instants[-1]]
    assert whole == [day for day in naive if day <= instants[-1].astimezone(market.zone).date()]


def test_holidays_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "days.txt"
    path.write_text("# days\n2026-12-25 Christmas Day  # off\n\n2026-12-24 close 13:00 Christmas Eve\n2026-01-01\n")
    holidays, early = read_holidays(path)
    assert holidays == {date(2026, 12, 25): "Christmas Day", date(2026, 1, 1): ""}
    assert early == {date(2026, 12, 24): 13 * H}
    market = Market("m", NEW_YORK.zone, 9 * H, 16 * H, WEEKEND, holidays, early)
    assert market.close_of(date(2026, 12, 24)) == at("2026-12-24T18:00")
    assert not market.is_session(date(2026, 12, 25))


@pytest.mark.parametrize("line", ["25.12.2026 Christmas", "20261225", "2026-02-30 none", "2026-12-24 close 25:00"])
def test_a_wrong_line_is_reported_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "days.txt"
    path.write_text(f"2026-01-01 fine\n{line}\n")
    with pytest.raises(ConfigurationError, match=f"a line is not a holiday\n  where: {path}:2\n"):
        read_holidays(path)


def test_a_date_that_stands_twice_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "days.txt"
    path.write_text("2026-01-01 once\n2026-01-01 close 13:00 twice\n")
    with pytest.raises(ConfigurationError, match="a date stands twice"):
        read_holidays(path)
    with pytest.raises(ConfigurationError, match="the holidays cannot be read"):
        read_holidays(tmp_path / "none.txt")


def test_the_shipped_calendar_is_accepted() -> None:
    holidays, early = read_holidays(REPOSITORY / "conf" / "airflow" / "new-york-stock-exchange.txt")
    assert len(holidays) == 10 and len(early) == 2
    assert all(day.weekday() < 5 for day in (*holidays, *early))
