"""The command lines of the DAGs are those that the command line has."""

from __future__ import annotations

from pathlib import Path

import pytest

from nights import commands
from nights.commands import Program
from nights.snapshots import MANIFEST
from tests.support.commands import run_json
from tests.support.places import REPOSITORY
from tests.support.tables.flight_table import ORIGINS, STREAM, write_flights

NAME, DATE = "Nyc13.Flight", "2013-01-01"
NIGHT = (  # in the order of a night
    commands.stats(NAME, ()),
    commands.merge(NAME, DATE, force=False, dry_run=True, local=False, options=("--sort", "time_hour")),
    commands.merge(NAME, DATE, force=True, dry_run=False, local=True, options=()),
    commands.validate(NAME, DATE),
    commands.truncate(NAME, DATE),
    commands.delete(NAME, DATE, grace_s=0.0),
    commands.epochs(NAME, STREAM),
    commands.verify(NAME),
    commands.status(NAME),
    commands.expire(NAME, keep_s=40_000 * 86_400, zone="America/New_York"),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("flights")
    write_flights(found, {DATE: ORIGINS})
    return found


def test_a_night_by_its_command_lines(root: Path) -> None:
    answers = [run_json(root, *words) for words in NIGHT]
    assert [code for code, _ in answers] == [0] * len(NIGHT), answers
    assert [answers[place][1]["outcome"] for place in (1, 2)] == ["planned", "merged"]
    assert run_json(root, *commands.doctor(NAME))[1]["findings"]


def test_snapshots_share_files_with_an_earlier_one(root: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run_json(root, *commands.snapshot(NAME, first, None))[0] == 0
    assert run_json(root, *commands.snapshot(NAME, second, first))[0] == 0
    assert {path.parent for path in tmp_path.rglob(MANIFEST)} == {first, second}


def test_ingest_takes_a_stream_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIGHTS_FEED", str(tmp_path))
    words = commands.ingest(REPOSITORY / "conf" / "streams" / "flights.toml")
    assert words[-1] == "--once"
    code, found = run_json(tmp_path / "db", *words, "--dry-run")
    assert (code, found["stream"]) == (0, "flights")


def test_lines_for_a_process_for_spark_submit_and_for_a_person() -> None:
    program = Program(Path("/opt/bin/sparkhaven"), Path("/data/db"))
    words = commands.validate(NAME, DATE)
    assert program.line(words) == ["/opt/bin/sparkhaven", "--root", "/data/db", *words, "--json"]
    assert program.submitted(words) == ["--root", "/data/db", NAME, "--dates", DATE, "--json"]
    assert program.by_hand(words) == f"sparkhaven --root /data/db validate {NAME} --dates {DATE} -v"


def test_a_dry_run_of_a_local_merge_is_one() -> None:
    both = commands.merge(NAME, DATE, force=False, dry_run=True, local=True, options=())
    assert both == ["merge", NAME, "--dates", DATE, "--dry-run"]
