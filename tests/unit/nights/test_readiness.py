"""When a date may be merged, and limits of ingest: decided on real answers of ``stats``, ``epochs``, ``doctor``."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nights.health import Limits, Measured, breaches, measured, slice_of
from nights.readiness import closed, complete, healthy, removed
from tests.support.commands import run_json
from tests.support.tables.flight_table import ORIGINS, STREAM, write_flights

DATE, NEXT = "2013-01-01", "2013-01-02"
NAME = "Nyc13.Flight"
CLOSE = datetime(2026, 1, 5, 21, tzinfo=UTC)
NONE = Limits(None, None, None, timedelta(hours=1))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("flights")
    write_flights(found, {DATE: ORIGINS})
    return found


@pytest.fixture
def stats(root: Path) -> dict[str, Any]:
    code, found = run_json(root, "stats", NAME)
    assert code == 0
    return found


def test_a_market_has_closed_only_when_late_rows_had_their_time() -> None:
    settle = timedelta(minutes=15)
    assert not closed(CLOSE, settle, CLOSE + settle - timedelta(seconds=1)).ready
    assert closed(CLOSE, settle, CLOSE + settle).ready


def test_rows_that_are_there(stats: dict[str, Any]) -> None:
    found = complete(stats, DATE, streams=(), min_rows=842)
    assert (found.ready, found.intraday, found.history) == (True, 842, 0)
    found = complete(stats, DATE, streams=(), min_rows=843)
    assert not found.ready and found.why == "842 rows of 2013-01-01 are there, expected 843 or more"
    found = complete(stats, NEXT, streams=(), min_rows=0)
    assert not found.ready and found.empty, "no rows are not a complete date"


def test_what_waits_at_the_source(stats: dict[str, Any]) -> None:
    line = stats["streams"][0]
    for counts, why in (
        ({"waiting_files": 3}, "3 files wait at the source of stream flights"),
        ({"waiting_messages": 1200}, "1,200 messages wait at the source of stream flights"),
    ):
        found = complete(stats | {"streams": [line | counts]}, DATE, streams=(STREAM,), min_rows=1)
        assert not found.ready and found.why == why
    assert complete(stats | {"streams": [line | {"waiting_files": 0}]}, DATE, streams=(STREAM,), min_rows=1).ready
    assert "has not run" in complete(stats, DATE, streams=("other",), min_rows=1).why
    lost = complete(stats | {"streams": [line | {"positionsUnknown": {"rowsUpTo": 3}}]}, DATE, streams=(), min_rows=1)
    assert not lost.ready and "positions" in lost.why


def test_a_date_that_is_in_history_and_nowhere_else_is_ready(tmp_path: Path) -> None:
    write_flights(tmp_path, {DATE: ORIGINS})
    for words in (("merge", "--local"), ("validate",), ("truncate",)):
        assert not removed(run_json(tmp_path, "stats", NAME)[1], DATE)
        assert run_json(tmp_path, words[0], NAME, "--date", DATE, *words[1:])[0] == 0
    numbers = run_json(tmp_path, "stats", NAME)[1]
    assert removed(numbers, DATE) and not removed(numbers, NEXT)
    found = complete(numbers, DATE, streams=("gone",), min_rows=10_000)
    assert (found.ready, found.intraday, found.history) == (True, 0, 842)


def test_rows_that_came_after_the_merge_wait_for_those_at_the_source(stats: dict[str, Any]) -> None:
    late = stats | {"dates": [stats["dates"][0] | {"intraday": 10, "history": 842}]}
    assert complete(late, DATE, streams=(STREAM,), min_rows=600).ready
    late["streams"] = [stats["streams"][0] | {"waiting_files": 1}]
    assert not complete(late, DATE, streams=(STREAM,), min_rows=600).ready


def test_only_what_stops_a_merge_is_waited_for(root: Path) -> None:
    _, found = run_json(root, "doctor", NAME)
    assert {each["check"] for each in found["findings"]} >= {"logs", "locks", "file system", "free space", "clock"}
    sound = [each for each in found["findings"] if each["state"] != "wrong"]
    assert healthy(sound).ready
    torn = {"check": "logs", "state": "wrong", "what": "a log is torn", "next": "sparkhaven recover"}
    assert healthy([*sound, torn]).why == "a log is torn (next: sparkhaven recover)"
    assert healthy([*sound, torn | {"check": "dates"}]).ready, "a failed validation of another date"


def test_lag_age_and_rejected_rows_are_measured(root: Path, stats: dict[str, Any]) -> None:
    _, epochs = run_json(root, "epochs", "list", NAME, STREAM)
    newest = epochs["epochs"][-1]
    now = datetime.fromtimestamp(newest["time_ms"] / 1000 + 60, UTC)
    listed = [*epochs["epochs"][:-1], newest | {"counts": {"rejected": 7}}]
    lines = [stats["streams"][0] | {"waiting_files": 2}]
    answers = {STREAM: epochs | {"epochs": listed}}
    found = measured(stats | {"streams": lines}, answers, timedelta(hours=1), now)
    assert found == [Measured(STREAM, 2, "files", timedelta(seconds=60), 7)]
    assert measured(stats, answers, timedelta(seconds=59), now)[0].rejected == 0, "before the window"
    rolled = {STREAM: epochs | {"epochs": [each | {"live": False} for each in listed]}}
    assert measured(stats, rolled, timedelta(hours=1), now)[0].age is None


def test_limits() -> None:
    one = Measured("s", 5, "files", timedelta(minutes=10), 3)
    assert breaches("NS.T", [one], NONE, market_open=True) == []
    at = Limits(5, timedelta(minutes=10), 3, timedelta(hours=1))
    assert breaches("NS.T", [one], at, market_open=True) == []
    low = Limits(4, timedelta(minutes=9), 2, timedelta(hours=2))
    assert breaches("NS.T", [one], low, market_open=True) == [
        "NS.T s: 5 files wait at the source, limit 4",
        "NS.T s: the newest epoch is 10 min old, limit 9 min while the market is open",
        "NS.T s: 3 rows were rejected in 2 h, limit 2",
    ]
    assert len(breaches("NS.T", [one], low, market_open=False)) == 2
    assert breaches("NS.T", [replace(one, age=None)], at, market_open=True)[0].startswith("NS.T s: there is no epoch")
    assert breaches("NS.T", [], at, market_open=True) == ["NS.T: no stream has run"]


def test_each_table_has_its_turn_once_in_so_many_nights() -> None:
    tables = [f"NS.T{number:02d}" for number in range(23)]
    for first in (0, 739_000):
        slices = [slice_of(tables, 7, first + number) for number in range(7)]
        assert sorted(name for each in slices for name in each) == tables
        assert {len(each) for each in slices} == {3, 4}
    assert slice_of(["NS.T"], 7, 1) == []
