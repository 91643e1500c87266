"""`sparkhaven dates drop|expire`: what readers, merges and checks make of a date that is gone, and kills between."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sparkhaven import sql
from sparkhaven.ingest.settings import parse_period
from sparkhaven.jobs.date_choice import end_of
from sparkhaven.store.merges.merge_records import newest
from tests.support.commands import run
from tests.support.schemas.killing import killed_at
from tests.support.streams.dated_site import NEW, OLD, Dated, told
from tests.support.streams.schema_site import TABLE

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path: Path) -> Dated:
    return Dated.of(tmp_path)


def test_a_dropped_date_is_gone_and_its_record_stays(site: Dated) -> None:
    (planned, _) = told(site, "dates", "drop", TABLE, "--dates", OLD, "--dry-run")
    assert (planned["rows"], site.shown()) == (2, [0, 1, 2])
    (one, all_) = told(site, "dates", "drop", TABLE, "--dates", OLD, "--reason", "wrong venue")
    assert (one["rows"], all_["dates"], all_["bytes"]) == (2, 1, planned["bytes"])
    assert int(str(one["bytes"])) > 0
    assert site.shown() == [2]
    assert sql(site.root, f"SELECT count(*) AS n FROM {TABLE}")["n"].to_pylist() == [1]
    record = newest(site.place, OLD)
    assert record is not None and record.proof is not None and record.proof.holds and record.emptied
    assert (record.proof.dropped, record.run.others) == (2, {"dropped": "wrong venue"})
    (again, none) = told(site, "dates", "drop", TABLE, "--dates", OLD)
    assert (again["rows"], none["dates"]) == (0, 0)
    status = told(site, "merge", TABLE, "--status")[0]
    assert (status["unvalidated"], status["unfinished"], status["replaced"]) == (0, 0, 1)
    assert site.do("validate", TABLE, "--dates", OLD, code=2)["error"]["found"] == "history that was dropped"
    assert run(site.root, "verify", "--deep").exit_code == 0
    assert site.do("metadata", "validate", TABLE)


def test_late_rows_of_a_dropped_date_are_its_history(site: Dated) -> None:
    site.do("merge", TABLE, "--dates", OLD, "--local")
    told(site, "dates", "drop", TABLE, "--dates", OLD)
    assert told(site, "merge", TABLE, "--dates", OLD, "--rewrite", "--local")[0]["outcome"] == "nothing"
    site.late(7, OLD)
    assert site.shown() == [2, 7]
    site.over(OLD)
    assert site.shown() == [2, 7]
    told(site, "dates", "drop", TABLE, "--dates", OLD)
    assert site.shown() == [2]
    assert run(site.root, "verify", "--deep").exit_code == 0


def test_a_date_that_intraday_has_is_refused(site: Dated) -> None:
    site.late(8, NEW)
    (failed, _) = told(site, "dates", "drop", TABLE, "--dates", NEW, code=1)
    error = failed["error"]
    assert isinstance(error, dict) and error["what"] == "intraday still has the date"
    assert site.shown() == [0, 1, 2, 8]
    site.do("merge", TABLE, "--dates", NEW, "--local")
    site.do("truncate", TABLE, "--dates", NEW)
    (failed, _) = told(site, "dates", "drop", TABLE, "--dates", NEW, code=1)
    assert isinstance(failed["error"], dict) and failed["error"]["found"] == "1 location, truncated and not deleted"
    assert failed["error"]["hint"] == f"first `sparkhaven delete {TABLE} --dates {NEW}`"
    (failed, _) = told(site, "dates", "drop", TABLE, "--dates", "2031-01-01", code=2)
    assert isinstance(failed["error"], dict) and failed["error"]["what"] == "date has no history to drop"


def test_expire_drops_what_is_older(site: Dated, monkeypatch: pytest.MonkeyPatch) -> None:
    day = 86_400.0
    monkeypatch.setattr("time.time", lambda: 1_577_923_200.0 + day + 10 * day)  # ten days after OLD has ended
    assert told(site, "dates", "expire", TABLE, "--keep", "11d")[0]["dates"] == 0
    assert site.do("dates", "expire", TABLE, "--keep", "soon", code=2)["error"]["found"] == "'soon'"
    found = told(site, "dates", "expire", TABLE, "--keep", "10d", "--yes")
    assert [one.get("date") for one in found] == [OLD, None]
    assert site.shown() == [2]


def test_a_kill_at_any_step_leaves_the_date_or_drops_it(site: Dated) -> None:
    words = ["dates", "drop", TABLE, "--dates", OLD]
    kills = 0
    while killed_at(1 + kills, partial(_dropped, site, words)):
        kills += 1
        assert site.shown() in ([0, 1, 2], [2])
    assert kills > 3
    assert site.shown() == [2]
    site.do("clean", TABLE)
    assert run(site.root, "verify", "--deep").exit_code == 0


def _dropped(site: Dated, words: list[str]) -> None:
    found = run(site.root, *words)
    assert found.exit_code == 0, found.stderr


PERIODS = {
    "6M": '"6 months"',
    "6m": '"6 min"',
    "6 m": '"6 months"',
    "1.5 months": "whole number",
    "soon": "a number with a unit",
    "6": "a number with a unit",
    "6 fortnights": "a number with a unit",
}


@pytest.mark.parametrize("keep", PERIODS)
def test_a_period_that_may_mean_something_else_is_refused(site: Dated, keep: str) -> None:
    for more in ((), ("--yes",), ("--dry-run",)):
        error = site.do("dates", "expire", TABLE, "--keep", keep, *more, code=2)["error"]
        assert error["found"] == repr(keep) and PERIODS[keep] in error["hint"]
    assert site.shown() == [0, 1, 2]


def test_what_would_go_is_named_before_it_goes(site: Dated) -> None:
    for keep in ("6 months", "1 year", "180d", "4000 h", "2 y"):
        *listed, refused = told(site, "dates", "expire", TABLE, "--keep", keep, code=2)
        assert [line.get("date") for line in listed] == [OLD, NEW, None] and all(line["dry_run"] for line in listed)
        error = refused["error"]
        assert isinstance(error, dict)
        assert error["found"] == f"2 dates from {OLD} to {NEW}, 3 rows" and "--yes` drops them" in str(error["hint"])
    assert site.shown() == [0, 1, 2]
    assert told(site, "dates", "expire", TABLE, "--keep", "9000 years")[0]["dates"] == 0


@pytest.mark.parametrize(
    ("day", "keep", "gone"),
    [
        ("2026-07-01", "6 months", "2025-12-31"),
        ("2026-08-31", "6 months", "2026-02-27"),
        ("2026-03-01", "1 month", "2026-01-31"),
        ("2028-02-29", "1 year", "2027-02-27"),
    ],
)
def test_months_are_those_of_the_calendar(day: str, keep: str, gone: str) -> None:
    """``gone``: the newest date that is older on that day, at its first moment."""
    period, now = parse_period(keep), datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()
    days = [date.fromisoformat(gone) + timedelta(number) for number in (-1, 0, 1, 2)]
    ends = [end_of(str(each), ZoneInfo("UTC"), period) for each in days]
    assert [end is not None and end <= now for end in ends] == [True, True, False, False]
