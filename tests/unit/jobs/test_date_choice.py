"""Which dates a merge takes: when a date is closed, and that there may be none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sparkhaven.jobs.cli.options import split_dates
from sparkhaven.jobs.date_choice import DateChoice, end_of, parse_choice
from sparkhaven.store.errors import SettingsError, TableNotFoundError
from tests.support.commands import run, run_json
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import make

NAME = str(TABLE)


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("2013-07-04", "2013-07-05T00:00"),
        ("20130704", "2013-07-05T00:00"),
        ("2013-07-04-23", "2013-07-05T00:00"),
        ("2013-07-04T05", "2013-07-04T06:00"),
        ("2013-11-03", "2013-11-04T00:00"),
        ("2013-13-45", None),
        ("fixed", None),
        ("201307041", None),
    ],
)
def test_when_a_date_ends(value: str, end: str | None) -> None:
    zone = ZoneInfo("America/New_York")
    expected = None if end is None else datetime.fromisoformat(end).replace(tzinfo=zone).timestamp()
    assert end_of(value, zone) == expected


def test_a_date_is_closed_when_its_day_is_over_in_its_zone() -> None:
    known = ["2013-07-03", "2013-07-04", "2013-07-05", "zz"]
    midnight = datetime(2013, 7, 5, 0, 0, tzinfo=UTC).timestamp()
    york = DateChoice(closed=True, zone="America/New_York", grace_s=300.0)
    assert york.pick(known, midnight + 300) == ["2013-07-03"]
    assert york.pick(known, midnight + 4 * 3600 + 299) == ["2013-07-03"]
    assert york.pick(known, midnight + 4 * 3600 + 300) == ["2013-07-03", "2013-07-04"]
    assert parse_choice(None, True).pick(known, midnight + 300) == ["2013-07-03", "2013-07-04"]
    tokyo = DateChoice(closed=True, zone="Asia/Tokyo")
    assert tokyo.pick(known, midnight - 9 * 3600) == ["2013-07-03", "2013-07-04"]
    with pytest.raises(TableNotFoundError, match="2013-07-01 20:00 in America/New_York"):
        DateChoice(closed=True, zone="America/New_York").pick(known, midnight - 3 * 86400)
    for zone in ("Mars/Base", "../etc/passwd", ""):
        with pytest.raises(SettingsError, match="not a time zone"):
            parse_choice(None, True, zone=zone)


def test_nothing_closed_is_no_error_where_that_is_allowed(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    db.commit({("a", "2199-01-01"): as_table(rows)})
    db.log.close()
    later = ["merge", NAME, "--dates", "2190-01-01..2190-12-31", "--local"]
    assert run_json(tmp_path, *later)[0] == 2
    code, value = run_json(tmp_path, *later, "--allow-empty")
    assert (code, value["outcome"], value["dates"]) == (0, "nothing", 0)
    assert "no such dates" in value["message"]
    found = run(tmp_path, "merge", NAME, "--closed", "--zone", "UTC", "--local", "--json")
    assert [json.loads(line)["date"] for line in found.stdout.splitlines()] == [DAY]
    for words in (["truncate", NAME, "--date", DAY], ["delete", NAME, "--date", DAY, "--grace", "0"]):
        assert run_json(tmp_path, *words)[0] == 0
    code, value = run_json(tmp_path, "merge", NAME, "--closed", "--zone", "UTC", "--allow-empty", "--local")
    assert (code, value["outcome"]) == (0, "nothing")
    assert run_json(tmp_path, "merge", NAME, "--closed", "--zone", "UTC", "--local")[0] == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["2013-07-04,2013-07-05"], ["2013-07-04", "2013-07-05"]),
        (["2013-07-01..2013-07-03,2013-07-05", "2013-07-09"], ["2013-07-01..2013-07-03", "2013-07-05", "2013-07-09"]),
        (["2013-07-04, cold", "a,b"], ["2013-07-04, cold", "a,b"]),
        (["2013-07-04,"], ["2013-07-04,"]),
        (None, None),
    ],
)
def test_dates_apart_by_commas(given: list[str] | None, expected: list[str] | None) -> None:
    assert split_dates(given) == expected


def test_a_range_of_dates_that_are_not_merged_says_so(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    db.log.close()
    code, value = run_json(tmp_path, "validate", NAME, "--dates", f"{DAY}..{DAY}")
    assert (code, value["error"]["what"]) == (2, "no such merged dates")
