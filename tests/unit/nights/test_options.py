"""What a table asks of its nights: doubles, late rows, retention, snapshots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nights import snapshots
from nights.errors import ConfigurationError
from nights.options import NightOptions, night_options
from nights.readiness import late_dates
from nights.sections import read_toml


def options(tmp_path: Path, text: str) -> NightOptions:
    path = tmp_path / "nights.toml"
    path.write_text(text, encoding="utf-8")
    section = read_toml(path, {})
    found = night_options(section)
    section.done()
    return found


def test_nothing_is_asked_for_by_default(tmp_path: Path) -> None:
    assert options(tmp_path, "") == NightOptions()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('dedupe = ["A", "B"]', ("--dedupe", "A,B")),
        ('dedupe = ["A"]\nkeep = "last"\norder_by = "At"', ("--dedupe", "A", "--keep", "last", "--order-by", "At")),
        ('last_by = ["A"]\nmerge_options = ["--sort", "At"]', ("--sort", "At", "--last-by", "A")),
        ('upsert = ["A"]', ("--upsert", "A")),
    ],
)
def test_one_row_of_a_key_is_kept(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert options(tmp_path, text).merge == words


def test_late_rows_retention_and_snapshots(tmp_path: Path) -> None:
    found = options(tmp_path, 'late = "7 d"\nretention = "400 d"\nsnapshot = "backup"\nsnapshots = 14')
    assert found == NightOptions((), timedelta(days=7), timedelta(days=400), tmp_path / "backup", 14)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('dedupe = ["A"]\nupsert = ["B"]', "one of dedupe, last_by, upsert"),
        ('keep = "last"', "with one of dedupe, last_by, upsert"),
        ('order_by = "At"', "with one of dedupe, last_by, upsert"),
        ('dedupe = ["A"]\nkeep = "newest"', "first or last"),
        ('late = "soon"', "a duration like"),
        ("snapshots = -1", "0 or more"),
    ],
)
def test_a_mistake_is_an_error_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        options(tmp_path, text)


def test_late_dates_are_merged_ones_with_rows_that_are_not() -> None:
    def line(date: str, generation: int, unmerged: int) -> dict[str, object]:
        return {"date": date, "generation": generation, "unmerged_rows": unmerged}

    status = {
        "unfinished_dates": [
            *(line("2026-01-05", 2, 7), line("2026-01-02", 1, 1), line("2026-01-06", 0, 9)),
            *(line("2026-01-07", 1, 0), line("2026-01-08", 1, 5), line("2025-12-01", 1, 5)),
        ]
    }
    assert late_dates(status, ["2026-01-08"], lambda date: date >= "2026-01-01") == ["2026-01-02", "2026-01-05"]
    assert late_dates({}, [], lambda date: True) == []


def take(directory: Path, name: str, *, whole: bool = True) -> Path:
    path = directory / name
    path.mkdir(parents=True)
    (path / "data").touch()
    if whole:
        (path / snapshots.MANIFEST).touch()
    return path


def test_snapshots_have_the_time_of_their_run_and_the_newest_are_kept(tmp_path: Path) -> None:
    name = snapshots.name_of(datetime(2026, 1, 5, 22, 30, 7, tzinfo=UTC))
    assert name == "2026-01-05T223007Z"
    assert snapshots.finished(tmp_path / "none") == [] and snapshots.remove_old(tmp_path / "none", 1) == []
    names = [f"2026-01-0{day}T223007Z" for day in range(1, 6)]
    one, rest, two, three, four = (take(tmp_path, name, whole=name != names[1]) for name in names)
    others = [take(tmp_path, "2026-01-01"), take(tmp_path, "monthly")]
    assert snapshots.finished(tmp_path) == [one, two, three, four]
    assert snapshots.remove_old(tmp_path, 0) == []
    assert snapshots.remove_old(tmp_path, 2) == [one, rest, two], "also what an earlier call has left"
    assert sorted(tmp_path.iterdir()) == sorted([three, four, *others])
    assert snapshots.remove_old(tmp_path, 2) == []


def test_what_is_in_progress_or_a_link_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "2025-01-01T000000Z").symlink_to(take(tmp_path / "elsewhere", "kept"))
    newest = take(tmp_path, "2026-01-05T223007Z")
    running = take(tmp_path, "2026-01-06T223007Z", whole=False)
    assert snapshots.remove_old(tmp_path, 1) == []
    assert newest.is_dir() and running.is_dir() and (tmp_path / "elsewhere/kept/data").is_file()
