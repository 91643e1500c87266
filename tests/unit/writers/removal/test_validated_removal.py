"""Truncate and delete as one job: what is done at once, what waits, and that a call goes on where one has stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.removal.history_removal import RemovedDate, truncate_and_delete
from sparkhaven.writers.removal.removal_proof import States, prove
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import FS, make, merge
from tests.support.writers.plain_rows import plain_rows
from tests.support.writers.removals import NOW, empty

ROWS = (("rows", "a", 20), ("rows", "b", 40))


def remove(
    db: IntradayRows, now: float = NOW, *, fs: Fs = FS, grace_s: float = 3600, dry_run: bool = False
) -> RemovedDate:
    place = TablePlace(fs, db.layout, TABLE)
    pins, states = Pins(place), States(place)
    proof = prove(place, DAY, pins=pins, dry_run=dry_run)
    options = {"grace_s": grace_s, "dry_run": dry_run}
    return truncate_and_delete(
        states,
        proof=proof,
        clock=lambda: now,
        pins=pins,
        **options,  # type: ignore[arg-type]
    )


def locations(db: IntradayRows) -> list[tuple[str, int, bool]]:
    state = load_stream(db.place)
    return [(key.internal, loc.rows, loc.truncated) for key, loc in sorted(state.locations.items())]


def left_below(db: IntradayRows) -> list[Path]:
    return list(db.layout.intraday(TABLE).rglob(f"{DAY}*"))


def test_what_waits_for_readers_is_deleted_by_the_next_call(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    assert remove(db) == RemovedDate(ROWS, (), ("a", "b"), "run it again in 3600 s")
    assert locations(db) == [("a", 0, True), ("b", 0, True)]
    assert remove(db, NOW + 60) == RemovedDate((), (), ("a", "b"), "run it again in 3540 s")
    assert remove(db, NOW + 3600) == RemovedDate((), ROWS)
    assert locations(db) == [] and left_below(db) == []
    assert remove(db, NOW + 3601) == RemovedDate()
    assert [removal.phase for _, removal in read_removals(db.place).entries] == [*["truncate"] * 2, *["delete"] * 2]


def test_without_a_grace_period_one_call_does_both(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    assert remove(db, grace_s=0) == RemovedDate(ROWS, ROWS)
    assert locations(db) == []


def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    assert remove(db, dry_run=True) == RemovedDate(ROWS, (), ("a", "b"), "run it again in 3600 s")
    assert remove(db, grace_s=0, dry_run=True) == RemovedDate(ROWS, ROWS)
    assert locations(db) == [("a", 20, False), ("b", 40, False)] and not read_removals(db.place).entries
    empty(db, source="a")
    assert remove(db, NOW + 3600, dry_run=True) == RemovedDate(ROWS[1:], ROWS[:1], ("b",), "run it again in 3600 s")
    assert locations(db) == [("a", 0, True), ("b", 40, False)]


def test_each_source_goes_when_its_own_time_is_over(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    empty(db, source="a")
    assert remove(db, NOW + 3600) == RemovedDate(ROWS[1:], ROWS[:1], ("b",), "run it again in 3600 s")
    assert remove(db, NOW + 7200) == RemovedDate((), ROWS[1:])


def test_rows_that_came_after_the_merge_block_it(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    db.commit({("b", DAY): as_table(plain_rows(1))})
    with pytest.raises(ValidationFailedError, match="intraday has rows that history does not have"):
        remove(db)
    assert ("b", 41, False) in locations(db)


@pytest.mark.slow
@pytest.mark.parametrize("grace_s", [0, 3600])
def test_killed_anywhere_the_next_calls_finish_it(tmp_path: Path, grace_s: float) -> None:
    call = 0
    while True:
        call += 1
        db, _ = make(tmp_path / str(call), 30, partitions=1)
        merge(db.layout)
        prove(db.place, DAY)
        fs, killed = KillingFs(crash_after=call - 1), False
        try:
            remove(db, fs=fs, grace_s=grace_s)
        except Crash:
            killed = True
        last = remove(db, NOW + 1, grace_s=grace_s)
        if grace_s:
            assert last.waiting and locations(db) == [("a", 0, True), ("b", 0, True)]
            remove(db, NOW + 7200)
        assert locations(db) == [] and left_below(db) == []
        assert LocationKey("a", DAY) in {removal.key for _, removal in read_removals(db.place).entries}
        if not killed:
            break
    assert call > 5
