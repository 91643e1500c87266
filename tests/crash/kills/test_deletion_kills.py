"""Deletions of merged and late rows, killed at every phase and change of the disk: each step is whole, and once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.rewrites.row_deletion import DeletedRows, delete_rows
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.writers.merge_cases import DAY, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, PHASE_STEPS, make, merge

pytestmark = pytest.mark.slow
WHERE = "Flag OR S < 0"
STEPS = [*PHASE_STEPS, "withdraw-publish:before", "withdraw-publish:after"]


class Night:
    """A merged date in two sources with late rows, which match like the merged ones."""

    def __init__(self, root: Path, form: str) -> None:
        self.root = root
        self.db, rows = make(root, 60, seed=4)
        merge(self.db.layout, format=form)
        late = [random_row(random.Random(9)) for _ in range(5)]
        self.db.commit({("a", DAY): as_table(late)})
        self.db.log.close()
        self.merged = [row["S"] for row in rows if not _matches(row)]
        self.late = [row["S"] for row in late if not _matches(row)]
        self.before = [row["S"] for row in (*rows, *late)]
        self.withdrawn = [row["S"] for row in rows] + self.late

    def delete(self, fs: KillingFs | None = None) -> DeletedRows:
        place = TablePlace(fs or FS, self.db.layout, TABLE)
        executor = LocalExecutor(1)
        return delete_rows(DateMerges(place, MergeOptions(), executor, lambda: 1_700_000_000.0), WHERE, None, open_log)

    def shown(self) -> list[int | None]:
        return _sorted(open_table(self.root, str(TABLE)).to_arrow(["S"])["S"].to_pylist())


def _matches(row: dict[str, Any]) -> bool:
    return bool(row["Flag"]) or (row["S"] is not None and row["S"] < 0)


def _sorted(values: list[int | None]) -> list[int | None]:
    return sorted(values, key=repr)


def kill_then_run_again(root: Path, fs: KillingFs, form: str) -> bool:
    """Whether the kill happened; what readers see after it, and after the command was repeated twice."""
    night, killed = Night(root, form), False
    try:
        night.delete(fs)
    except Crash:
        killed = True
    states = [_sorted(values) for values in (night.before, night.withdrawn, night.merged + night.late)]
    assert night.shown() in (states if killed else states[2:])
    record = newest(night.db.place, DAY)
    assert record is not None
    done = night.delete()
    assert not done.failed and (record.generation == 2 or done.history[DAY].generation == 2)
    assert night.shown() == states[2]
    again = night.delete()
    assert (again.rows, again.epochs, again.history) == (0, {}, {})
    record = newest(night.db.place, DAY)
    assert record is not None and (record.generation, len(record.deletions)) == (2, 1)
    assert validate_date(night.db.place, DAY).passed
    (merged,) = merge(night.db.layout)
    assert merged.outcome == "supplement" and night.shown() == states[2]
    assert validate_date(night.db.place, DAY).passed
    return killed


@pytest.mark.campaign
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_it_ends_well_when_run_again(tmp_path: Path, step: str) -> None:
    assert kill_then_run_again(tmp_path, KillingFs(crash_at=step), "parquet" if "check" in step else "deephaven")


@pytest.mark.parametrize("form", ["deephaven", "both"])
def test_killed_at_any_change_of_the_disk(tmp_path: Path, form: str) -> None:
    counting = KillingFs()
    kill_then_run_again(tmp_path / "count", counting, form)
    assert set(STEPS) <= set(counting.steps)
    for call in some_of(random.Random(3).sample(range(1, counting.changes + 1), 10)):
        assert kill_then_run_again(tmp_path / str(call), KillingFs(crash_after=call - 1), form), call


@pytest.mark.parametrize("step", ["merge-check:after", "merge-publish:after"])
def test_a_killed_deletion_is_published_by_the_next_merge_or_has_no_effect(tmp_path: Path, step: str) -> None:
    night = Night(tmp_path, "deephaven")
    with pytest.raises(Crash):
        night.delete(KillingFs(crash_at=step))
    merge(night.db.layout)
    record = newest(night.db.place, DAY)
    assert record is not None
    deleted = night.merged + night.late
    assert night.shown() == _sorted(deleted if record.deletions else night.withdrawn)
    assert bool(record.deletions) == (step == "merge-publish:after")
    assert validate_date(night.db.place, DAY).passed
