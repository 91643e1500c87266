"""Rewrites of a column killed at every phase and change of the disk: old or new values, and no value computed twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import PHASE_STEPS, make, merge
from tests.support.writers.rewrite_runs import rewrite

pytestmark = pytest.mark.slow
CHANGE = {"S": "S * 2", "Sym": "CASE WHEN Flag THEN 'moved' ELSE Sym END", "Note": "coalesce(Note, 'none')"}
STEPS = [*PHASE_STEPS, "merge-prepare:before", "merge-prepare:after"]


def numbers(root: Path) -> list[int | None]:
    """The values of the column that would tell of a second change."""
    found: list[int | None] = open_table(root, "Test.Every").to_arrow(["S"])["S"].to_pylist()
    return sorted(found, key=repr)


def kill_then_run_again(root: Path, fs: KillingFs, form: str) -> bool:
    """Whether the kill happened; what readers see after it, and after the command was repeated twice."""
    db, rows = make(root, 60, seed=4)
    merge(db.layout, format=form)
    old = sorted((row["S"] for row in rows), key=repr)
    new = sorted((None if row["S"] is None else row["S"] * 2 for row in rows), key=repr)
    killed = False
    try:
        rewrite(db.layout, CHANGE, fs=fs)
    except Crash:
        killed = True
    record = newest(db.place, DAY)
    assert record is not None
    assert numbers(root) == (new if record.generation == 2 else old)
    assert rewrite(db.layout, CHANGE).outcome in ("rewritten", "resumed", "nothing")
    assert rewrite(db.layout, CHANGE).outcome == "nothing"
    assert numbers(root) == new
    record = newest(db.place, DAY)
    assert record is not None and (record.phase, record.generation, len(record.corrections)) == ("clean", 2, 3)
    assert validate_date(db.place, DAY).passed
    assert not list(root.rglob(".computed"))
    return killed


@pytest.mark.campaign
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_phase_it_ends_well_when_run_again(tmp_path: Path, step: str) -> None:
    assert kill_then_run_again(tmp_path, KillingFs(crash_at=step), "parquet" if "check" in step else "deephaven")


@pytest.mark.parametrize("form", ["deephaven", "both"])
def test_killed_at_any_change_of_the_disk(tmp_path: Path, form: str) -> None:
    counting = KillingFs()
    kill_then_run_again(tmp_path / "count", counting, form)
    assert set(STEPS) <= set(counting.steps)
    for call in some_of(random.Random(3).sample(range(1, counting.changes + 1), 12)):
        assert kill_then_run_again(tmp_path / str(call), KillingFs(crash_after=call - 1), form), call


@pytest.mark.parametrize("step", ["merge-check:after", "merge-publish:after"])
def test_a_killed_rewrite_is_published_by_the_next_merge(tmp_path: Path, step: str) -> None:
    db, rows = make(tmp_path, 60, seed=4)
    merge(db.layout)
    with pytest.raises(Crash):
        rewrite(db.layout, CHANGE, fs=KillingFs(crash_at=step))
    (merged,) = merge(db.layout)
    record = newest(db.place, DAY)
    assert record is not None
    assert (merged.outcome, record.generation) == (("resumed", 2) if record.corrections else ("nothing", 1))
    changed = bool(record.corrections)
    assert numbers(tmp_path) == sorted((s and s * 2 if changed else s for s in (r["S"] for r in rows)), key=repr)


def test_a_killed_merge_is_published_before_the_rewrite(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60, seed=4)
    merge(db.layout)
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at="merge-publish:after"), rewrite=True)
    done = rewrite(db.layout, CHANGE)
    assert (done.outcome, done.generation) == ("rewritten", 3)
    assert numbers(tmp_path) == sorted((None if r["S"] is None else r["S"] * 2 for r in rows), key=repr)
