"""What a scheduler does after a command, and what it says: with answers of the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nights.results import Ended, Next, help_of, results_in, standing, what_next, words_of
from sparkhaven.store.errors import EXIT_BAD_DATA, EXIT_DONE, EXIT_RETRY, EXIT_USAGE
from tests.support.commands import run
from tests.support.tables.flight_table import write_flights

SPOKE = ({"error": {"what": "no", "hint": "do"}},)


def ended(root: Path, *words: str) -> Ended:
    """A command as it really ends."""
    found = run(root, *words, "--json")
    return Ended(found.exit_code, tuple(results_in(found.output.splitlines())), ())


@pytest.mark.parametrize(
    ("code", "results", "by_spark", "follows"),
    [
        (EXIT_DONE, (), False, Next.DONE),
        (EXIT_DONE, SPOKE, True, Next.DONE),
        (EXIT_DONE, (), True, Next.RETRY),  # its result was lost on the way
        (EXIT_BAD_DATA, SPOKE, False, Next.FAIL),
        (EXIT_USAGE, SPOKE, False, Next.FAIL),
        (EXIT_RETRY, SPOKE, False, Next.RETRY),
        (EXIT_BAD_DATA, (), False, Next.FAIL),  # Python could not even start it
        (EXIT_BAD_DATA, (), True, Next.RETRY),  # a cluster that is away
        (EXIT_BAD_DATA, SPOKE, True, Next.FAIL),
        (EXIT_USAGE, SPOKE, True, Next.FAIL),
        (-9, SPOKE, False, Next.RETRY),
        (137, (), True, Next.RETRY),
        (143, SPOKE, False, Next.RETRY),
        (127, (), False, Next.FAIL),
        (127, (), True, Next.FAIL),
    ],
)
def test_what_follows(code: int, results: tuple[dict[str, object], ...], by_spark: bool, follows: Next) -> None:
    assert what_next(Ended(code, results, ()), by_spark=by_spark) is follows


def test_an_error_in_its_own_words(tmp_path: Path) -> None:
    write_flights(tmp_path, {"2013-01-01": ("JFK",)})
    found = ended(tmp_path, "truncate", "Nyc13.Flight", "--date", "2013-01-01")
    assert what_next(found) is Next.FAIL
    assert words_of(found).startswith("Nyc13.Flight 2013-01-01: ")
    assert help_of(found)
    found = ended(tmp_path, "merge", "Nyc13.Fright", "--date", "2013-01-01")
    assert "Nyc13.Fright" in words_of(found) and what_next(found) is Next.FAIL


def test_rules_that_failed(tmp_path: Path) -> None:
    write_flights(tmp_path, {"2013-01-01": ("JFK",)})
    assert what_next(ended(tmp_path, "merge", "Nyc13.Flight", "--date", "2013-01-01", "--local")) is Next.DONE
    found = ended(tmp_path, "validate", "Nyc13.Flight", "--date", "2013-01-01")
    assert what_next(found) is Next.FAIL
    assert words_of(found).startswith("Nyc13.Flight 2013-01-01: rule assertSize: measured 297")
    assert words_of(found).count("\n") == 0


def test_results_among_other_lines() -> None:
    lines = ["26/11/22 WARN Utils: {", '{"a": 1}', "{no json}", "[1]", ' {"b": {"c": 2}} \n', "{", "}"]
    assert results_in(lines) == [{"a": 1}, {"b": {"c": 2}}]


def test_without_an_error_the_last_lines_are_the_words() -> None:
    lines = tuple(f"line {number}" for number in range(40))
    assert words_of(Ended(1, (), lines)).splitlines() == list(lines[-15:])
    assert words_of(Ended(1, (), ())) == "exit code 1, without output"


def test_findings_of_doctor_and_verify() -> None:
    findings = [
        {"check": "logs", "state": "wrong", "what": "a log is torn", "next": "sparkhaven recover"},
        {"check": "jdk", "state": "ok", "what": "17"},
        {"severity": "error", "what": "a checksum differs", "hint": "restore it"},
        {"severity": "note", "what": "an old file"},
    ]
    found = Ended(1, tuple(results_in([json.dumps({"findings": findings})])), ())
    assert words_of(found) == "a log is torn\na checksum differs"
    assert help_of(found) == ["sparkhaven recover", "restore it"]


def test_a_finding_stands_if_the_look_before_had_it_too(tmp_path: Path) -> None:
    write_flights(tmp_path, {"2013-01-01": ("JFK",)})
    sound = ended(tmp_path, "verify", "Nyc13.Flight", "--deep")
    column = next(tmp_path.rglob("dest.dat"))
    column.write_bytes(column.read_bytes()[:-4])
    found = ended(tmp_path, "verify", "Nyc13.Flight", "--deep")
    assert (sound.code, found.code) == (EXIT_DONE, EXIT_BAD_DATA)
    assert str(column.parent) in words_of(found)
    assert not standing(None, found) and not standing(sound, found)
    assert standing(found, found)
    assert standing(None, ended(tmp_path, "verify", "Nyc13.Fright")), "no finding: it says why by itself"


def test_a_result_behind_the_words_of_another_line_is_found() -> None:
    mixed = ['1 dates, 842 rows in 1.2 s{"table": "Nyc13.Flight", "dry_run": false}\n', "\n", "{none}", 'a {"b": 1} c']
    assert results_in(mixed) == [{"table": "Nyc13.Flight", "dry_run": False}]
