"""Dates that are hours: a day names all of its hours, in every command that takes dates."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven import Database, open_table
from sparkhaven.testing import make_table
from tests.support.commands import run

TABLE, DAY, OTHER = "New.One", "2026-11-18", "2026-11-19-00"
HOURS = [f"{DAY}-05", f"{DAY}-06"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_table(tmp_path / "db", TABLE, {"Date": [*HOURS, OTHER], "A": [5, 6, 0]})
    assert run(tmp_path / "db", "partitions", "add", "New", "0").exit_code == 0
    return tmp_path / "db"


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (DAY, HOURS),
        (f"{DAY}..{DAY}", HOURS),
        (f"{DAY}-05..{DAY}", HOURS),
        (f"{DAY}-06..{DAY}", HOURS[1:]),
        (f"{DAY}-06", HOURS[1:]),
        (f"{DAY}-07..{DAY}", []),
    ],
)
def test_a_read_takes_the_hours_of_a_day(root: Path, asked: str, taken: list[str]) -> None:
    assert sorted(open_table(root, TABLE).to_arrow(dates=asked)["Date"].to_pylist()) == taken
    assert run(root, "read", TABLE, "--dates", asked).exit_code == 0


def test_a_range_that_ends_before_it_begins_is_refused(root: Path) -> None:
    assert run(root, "read", TABLE, "--dates", f"{OTHER}..{DAY}").exit_code == 2


@pytest.mark.slow
def test_commands_take_the_hours_of_a_day(root: Path, tmp_path: Path) -> None:
    (tmp_path / "tape").mkdir()
    for words in (
        ("merge", "--local"),
        ("validate",),
        ("rewrite-column", "--set", "A=A+1", "--local"),
        ("delete-rows", "--where", "A > 0", "--dry-run"),
        ("truncate",),
        ("delete", "--grace", "0"),
        ("dates", "move", "--to", "0"),
        ("export", "--out", str(tmp_path / "tree"), "--layout", "nested"),
        ("dates", "detach", "--out", str(tmp_path / "tape")),
    ):
        count = 2 if words[0] == "dates" else 1
        done = run(root, *words[:count], TABLE, "--dates", DAY, *words[count:])
        assert done.exit_code == 0, (words, done.output)
        if words[0] == "validate":
            assert [one.date for one in Database(root).table(TABLE).rewrite_columns(DAY, set={"A": "A + 0"})] == HOURS
        assert all(hour in done.output for hour in HOURS), (words, done.output)
        assert OTHER not in done.output, words
    assert open_table(root, TABLE).to_arrow()["Date"].to_pylist() == [OTHER]
