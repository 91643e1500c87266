"""Validations in chosen modes: which rules run over which rows, and what they are worth to a removal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.jobs.monitor.dates import DateValidation, table_status
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import Validation, binding, load_validation, store_validation
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import prove
from sparkhaven.writers.validation.date_validation import RuleChoice, validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.plain_rows import plain_rows
from tests.support.writers.removals import empty

WHOLE = '<assertSize min="20" max="20"/>'  # fails in SIMPLE_TABLE: the date has two locations
EACH = '<assertFracNull column="I" min="0" max="0" modes="SIMPLE_TABLE"/>'
INTRADAY = '<assertNotNull column="I" modes="FULL_INTRADAY, FULL_DATABASE"/>'


def table(root: Path, rules: str) -> IntradayRows:
    db = IntradayRows(root, SCHEMA.replace(b"</Table>", f"<Validator>{rules}</Validator></Table>".encode()), fs=FS)
    db.commit({("a", DAY): as_table(plain_rows()[:7]), ("b", DAY): as_table(plain_rows()[7:])})
    for name in ("0", "1"):
        add_partition(FS, db.layout, "Test", name)
    merge(db.layout)
    return db


def run(db: IntradayRows, *modes: str) -> Validation:
    validation = validate_date(db.place, DAY, choice=RuleChoice(modes))
    store_validation(db.place, validation)
    return validation


def rows(validation: Validation) -> list[tuple[str, str]]:
    return [(r.rule.removeprefix("assert"), r.mode) for r in validation.results if r.rule.startswith("assert")]


CASES: list[tuple[Sequence[str], list[tuple[str, str]], bool]] = [
    (
        (),
        [
            ("Size", "FULL_DATABASE"),
            ("FracNull", "SIMPLE_TABLE"),
            ("NotNull", "FULL_INTRADAY"),
            ("NotNull", "FULL_DATABASE"),
        ],
        True,
    ),
    (("FULL_DATABASE",), [("Size", "FULL_DATABASE"), ("NotNull", "FULL_DATABASE")], False),
    (("FULL_INTRADAY",), [("NotNull", "FULL_INTRADAY"), ("Size", "FULL_INTRADAY")], False),
    (
        ("SIMPLE_TABLE", "FULL_DATABASE"),
        [
            ("Size", "FULL_DATABASE"),
            ("FracNull", "SIMPLE_TABLE"),
            ("NotNull", "FULL_DATABASE"),
            ("Size", "SIMPLE_TABLE"),
        ],
        False,
    ),
]


@pytest.mark.parametrize(("modes", "expected", "whole"), CASES, ids=[",".join(modes) for modes, *_ in CASES])
def test_rules_run_in_chosen_modes(
    modes: Sequence[str], expected: list[tuple[str, str]], whole: bool, tmp_path: Path
) -> None:
    db = table(tmp_path, WHOLE + EACH + INTRADAY)
    found, record = run(db, *modes), newest(db.place, DAY)
    assert rows(found) == expected
    assert found.modes == (() if whole else tuple(sorted(modes)))
    assert record is not None
    assert (found.binding == binding(record, db.schema.rules)) is whole
    assert all(r.passed for r in found.results if (r.rule, r.mode) != ("assertSize", "SIMPLE_TABLE"))
    assert load_validation(db.place, record) == found


def test_validations_of_all_modes_one_after_the_other_are_whole(tmp_path: Path) -> None:
    db = table(tmp_path, WHOLE + EACH + INTRADAY)
    parts = [run(db, mode) for mode in ("SIMPLE_TABLE", "FULL_INTRADAY", "FULL_DATABASE")]
    assert [bool(part.modes) for part in parts] == [True, True, False], "the last one has the results of the others"
    assert run(db).modes == ()
    assert run(db, "SIMPLE_TABLE").modes == ()


def test_a_validation_of_some_modes_is_none_for_a_removal(tmp_path: Path) -> None:
    db = table(tmp_path / "one", WHOLE + EACH)
    assert run(db, "SIMPLE_TABLE").passed is False
    assert [s.validation for s in table_status(db.place, 0.0)] == [DateValidation.FAILED]
    with pytest.raises(ValidationFailedError, match="1 of 17 rules failed"):
        prove(db.place, DAY)
    db = table(tmp_path / "other", WHOLE + EACH)
    assert run(db, "FULL_DATABASE").passed
    assert [s.validation for s in table_status(db.place, 0.0)] == [DateValidation.STALE]
    reported: list[str] = []
    proof = prove(db.place, DAY, on_progress=reported.append)
    assert reported == [f"{DAY}: merge 1 was validated in FULL_DATABASE only. Validating it"]
    assert proof.validation.modes == () and rows(proof.validation) == [
        ("Size", "FULL_DATABASE"),
        ("FracNull", "SIMPLE_TABLE"),
    ]


def test_results_of_other_modes_stay_even_after_intraday_is_gone(tmp_path: Path) -> None:
    db = table(tmp_path, INTRADAY + WHOLE + INTRADAY.replace('"I"', '"D"'))
    first = run(db)
    empty(db)
    again = run(db, "FULL_DATABASE")
    assert again.modes == () and again.passed and rows(again) == rows(first)
    kept = [r for r in again.results if r.mode == "FULL_INTRADAY"]
    assert kept == [r for r in first.results if r.mode == "FULL_INTRADAY"] and [r.column for r in kept] == ["I", "D"]
    both = run(db, "FULL_INTRADAY")
    assert rows(both) == [*rows(first), ("Size", "FULL_INTRADAY")]
    assert both.results[-1].passed is None and "were removed" in both.results[-1].message


def test_results_of_other_rules_or_another_merge_are_not_taken(tmp_path: Path) -> None:
    db = table(tmp_path, WHOLE + INTRADAY)
    store_validation(db.place, replace(run(db), binding="00" * 32))
    assert run(db, "FULL_DATABASE").modes == ("FULL_DATABASE",)
