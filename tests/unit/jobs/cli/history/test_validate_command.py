"""`sparkhaven validate`: functions of users, chosen modes, and the removal that may follow."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.epochs.reading.stream_state import load_stream
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE
from tests.support.writers.merge_runs import make, merge

NAME = str(TABLE)
CHECKS = """
import sparkhaven

@sparkhaven.validator(columns=["I", "Sym"])
def sound(batches):
    return [] if sum(batch.num_rows for batch in batches) == 60 else ["other rows"]

@sparkhaven.validator(columns=["Sym"])
def failing(batches):
    yield "one\\ntwo"

@sparkhaven.validator(columns=["Sym"])
def raising(batches):
    return next(batches)["Nope"]
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    directory = tmp_path / "code"
    directory.mkdir()
    (directory / "night_checks.py").write_text(CHECKS, encoding="utf-8")
    yield directory
    sys.modules.pop("night_checks", None)


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    made, _ = make(tmp_path / "root", 60)
    merge(made.layout)
    made.log.close()
    return made


def results(db: IntradayRows, *words: str | Path, code: int = 0) -> list[dict[str, Any]]:
    found = run(db.root, "validate", NAME, "--date", DAY, *words, "--json")
    assert found.exit_code == code, found.stdout + found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]


def checks(code: Path, *names: str) -> list[str]:
    chosen = [word for name in names for word in ("--validator", f"night_checks:{name}")]
    return [*chosen, "--validator-path", str(code)]


def test_a_function_is_a_rule_like_others_and_blocks_removal(db: IntradayRows, code: Path) -> None:
    (passed,) = results(db, *checks(code, "sound"))
    rule = passed["rules"][-1]
    assert passed["passed"] and (rule["rule"], rule["column"], rule["measured"]) == ("night_checks:sound", "I,Sym", 0)
    found = run(db.root, "validate", NAME, "--date", DAY, *checks(code, "sound", "failing"))
    assert found.exit_code == 1
    assert "FAILED (1 failed)" in found.stdout and "night_checks:failing" in found.stdout
    refused = run(db.root, "truncate", NAME, "--date", DAY)
    assert refused.exit_code == 1 and "night_checks:failing Sym: 1 finding: one" in refused.stderr
    results(db)
    assert run(db.root, "truncate", NAME, "--date", DAY).exit_code == 0


def test_an_error_of_a_function_fails_with_its_place_and_a_traceback_only_with_v(db: IntradayRows, code: Path) -> None:
    found = run(db.root, "validate", NAME, "--date", DAY, *checks(code, "raising"))
    assert found.exit_code == 1
    place = f"at {code / 'night_checks.py'}:14 in raising"
    assert place in found.stdout and "Traceback" not in found.stdout + found.stderr
    loud = run(db.root, "validate", NAME, "--date", DAY, *checks(code, "raising"), "-v")
    assert loud.exit_code == 1 and "Traceback (most recent call last)" in loud.stderr
    waived = run(db.root, "validate", NAME, "--date", DAY, *checks(code, "raising"), "--allow-unevaluated")
    assert waived.exit_code == 1, "an error is no rule that cannot be evaluated"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--validator", "night_checks:nothing", "--validator-path", "{code}"], "no such validator"),
        (["--validator", "checks.py"], "is no name of a function"),
        (["--validator-path", "{code}"], "--validator-path has no validator"),
        (["--validator", "night_checks:sound", "--validator-path", "{root}/Schemas"], "below the database root"),
        (["--modes", "FULL_HISTORY"], "--modes has no such mode"),
        (["--modes", "simple_table"], "write SIMPLE_TABLE"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_wrong_words_are_wrong_usage(db: IntradayRows, code: Path, words: list[str], message: str) -> None:
    found = run(db.root, "validate", NAME, "--date", DAY, *(word.format(code=code, root=db.root) for word in words))
    assert found.exit_code == 2 and message in found.stderr, found.stderr


def test_modes_are_chosen_by_a_list_or_by_repetition(db: IntradayRows, code: Path) -> None:
    (one,) = results(db, "--modes", "SIMPLE_TABLE,FULL_INTRADAY", *checks(code, "failing"), code=1)
    (two,) = results(db, "--modes", "SIMPLE_TABLE", "--modes", "FULL_INTRADAY", *checks(code, "failing"), code=1)
    assert one == two
    assert [rule["mode"] for rule in one["rules"] if ":" in rule["rule"]] == ["SIMPLE_TABLE", "FULL_INTRADAY"]


def test_delete_after_does_what_can_be_done_and_reports_what_waits(db: IntradayRows, code: Path) -> None:
    assert len(results(db, "--delete-after", *checks(code, "failing"), code=1)) == 1
    (_, plan) = results(db, "--delete-after", "--dry-run")
    assert (plan["dry_run"], plan["waiting"]) == (True, ["a", "b"])
    assert all(not location.truncated for location in load_stream(db.place).locations.values())
    (validated, first) = results(db, "--delete-after")
    assert validated["passed"] and first["phase"] == "removal"
    assert [location["rows"] for location in first["truncated"]] == [20, 40]
    assert (first["deleted"], first["waiting"], first["reason"]) == ([], ["a", "b"], "run it again in 3600 s")
    text = run(db.root, "validate", NAME, "--date", DAY, "--delete-after").stdout
    assert f"{DAY}: 2 sources wait for readers: run it again in " in text
    (_, last) = results(db, "--delete-after", "--grace", "0")
    assert (last["truncated"], [location["rows"] for location in last["deleted"]]) == ([], [20, 40])
    assert "no intraday rows are left" in run(db.root, "validate", NAME, "--date", DAY, "--delete-after").stdout
