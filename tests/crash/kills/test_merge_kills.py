"""Merges killed at every phase and change of the disk: readers see old or new, and a second run ends well."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.examples import some_of
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, naive_order, read_location
from tests.support.writers.merge_runs import PHASE_STEPS, check_tree, make, merge, same

pytestmark = pytest.mark.slow


def kill_then_run_again(root: Path, fs: KillingFs, **options: Any) -> bool:
    """Whether the kill happened; checks what a reader sees after it, and that a second run ends well."""
    db, rows = make(root, 120, seed=9)
    killed = False
    try:
        merge(db.layout, fs=fs, **options)
    except Crash:
        killed = True
    seen = newest(db.place, DAY)
    if seen is not None:  # the new state: all of it must be there
        found = [r for o in seen.outputs for r in read_location(db.layout, db.schema, LocationKey(o.internal, DAY))]
        assert len(found) == 120
    (again,) = merge(db.layout, **options)
    assert again.outcome in ("merged", "resumed", "nothing")
    record = newest(db.place, DAY)
    assert record is not None
    assert record.phase == "clean"
    found = [r for o in record.outputs for r in read_location(db.layout, db.schema, LocationKey(o.internal, DAY))]
    assert len(found) == 120
    by_sym = [row for o in record.outputs for row in _expected(db, o.internal, rows)]
    same(found, by_sym)
    check_tree(db.layout)
    return killed


def _expected(db: IntradayRows, internal: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    syms = {row["Sym"] for row in read_location(db.layout, db.schema, LocationKey(internal, DAY))}
    return naive_order([row for row in rows if row["Sym"] in syms], [])


@pytest.mark.campaign
@pytest.mark.parametrize("step", PHASE_STEPS)
def test_killed_at_a_phase_it_ends_well_when_run_again(tmp_path: Path, step: str) -> None:
    assert kill_then_run_again(tmp_path, KillingFs(crash_at=step))


@pytest.mark.parametrize(
    "step", ["merge-stage:after", "merge-check:before", "merge-publish:after", "merge-clean:before"]
)
def test_killed_at_a_phase_of_a_merge_into_parquet(tmp_path: Path, step: str) -> None:
    assert kill_then_run_again(tmp_path, KillingFs(crash_at=step), format="parquet")


@pytest.mark.parametrize(("format_", "number"), [("deephaven", 12), ("parquet", 8)])
def test_killed_at_any_change_of_the_disk(tmp_path: Path, format_: str, number: int) -> None:
    counting = KillingFs()
    kill_then_run_again(tmp_path / "count", counting, format=format_)
    assert set(PHASE_STEPS) <= set(counting.steps)
    chosen = random.Random(7).sample(range(1, counting.changes + 1), number)
    for call in some_of(sorted({*chosen, *range(counting.changes - number + 1, counting.changes + 1)}), 5):
        assert kill_then_run_again(tmp_path / str(call), KillingFs(crash_after=call - 1), format=format_), call


def test_a_killed_re_merge_in_another_format_keeps_the_old_one_readable(tmp_path: Path) -> None:
    keep_old_generation(tmp_path, "merge-publish:after", format="parquet")


@pytest.mark.campaign
@pytest.mark.parametrize("step", PHASE_STEPS)
def test_a_killed_re_merge_keeps_the_old_generation_readable(tmp_path: Path, step: str) -> None:
    keep_old_generation(tmp_path, step)


def keep_old_generation(tmp_path: Path, step: str, **options: Any) -> None:
    """Kills a second merge of a date at a step, with ``options`` that the first did not have."""
    db, _ = make(tmp_path, 90)
    merge(db.layout)
    before = newest(db.place, DAY)
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at=step), rewrite=True, **options)
    seen = newest(db.place, DAY)
    assert seen is not None
    assert sum(len(read_location(db.layout, db.schema, LocationKey(o.internal, DAY))) for o in seen.outputs) == 90
    (again,) = merge(db.layout, rewrite=True, **options)
    assert again.outcome in ("merged", "resumed")
    assert before is not None
    last = newest(db.place, DAY)
    assert last is not None
    assert last.generation > before.generation
    assert {o.internal for o in last.outputs}.isdisjoint({o.internal for o in before.outputs})
