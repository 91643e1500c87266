"""What history has taken in, no rollback takes back, and no power cut: each row once, whatever comes after a merge."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import (
    LockLostError,
    SettingsError,
    SnapshotMovedError,
    TableExistsError,
    TableNotFoundError,
    TooEarlyError,
    ValidationFailedError,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import lock_table, newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.publish import staged_locations
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, merge

NOW = 1_700_000_000.0


def db_of(root: Path, durability: str = "fsync") -> IntradayRows:
    return IntradayRows(root, SCHEMA, fs=FS, durability=durability)


def rows(number: int) -> object:
    rng = random.Random(number)
    return as_table([random_row(rng) for _ in range(number)])


def commit(db: IntradayRows, **sources: int) -> int:
    return db.commit({(name, DAY): rows(number) for name, number in sources.items()})


def remove(db: IntradayRows, *, files: bool) -> None:
    proof = prove(db.place, DAY)
    truncate(States(db.place), proof=proof, clock=lambda: NOW)
    if files:
        delete(States(db.place), proof=proof, clock=lambda: NOW + 4000)


def count(db: IntradayRows) -> int:
    return open_table(db.root, str(TABLE)).count()


@pytest.mark.parametrize("removed", ["nothing", "rows", "files", "files, new rows"])
def test_a_rollback_does_not_bring_back_rows_of_removed_locations(tmp_path: Path, removed: str) -> None:
    db = db_of(tmp_path)
    first = commit(db, other=1)
    second = commit(db, a=5)
    merge(db.layout)
    if removed != "nothing":
        remove(db, files="files" in removed)
    if "new rows" in removed:
        db.log.refresh()
        db.log.close()
        db.log = db.open()
        last = commit(db, a=2)
    before = count(db)
    with pytest.raises(TableExistsError, match="rows that are in history"):
        db.log.rollback(first)
    assert count(db) == before
    if "new rows" in removed:
        assert db.log.rollback(second) == last + 1  # only rows that no merge has seen
        assert count(db) == before - 2


def test_a_rollback_waits_for_a_merge_and_for_one_that_was_killed_while_it_published(tmp_path: Path) -> None:
    db = db_of(tmp_path)
    first = commit(db, a=1)
    commit(db, a=5)
    lock = lock_table(db.place)
    with pytest.raises(LockLostError, match="another merge"):
        db.log.rollback(first)
    lock.release()
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at="merge-index:before"))
    record = newest(db.place, DAY, complete=False)
    assert record is not None and record.phase == "check"
    with pytest.raises(TableExistsError, match="Run `sparkhaven merge"):
        db.log.rollback(first)
    merge(db.layout)
    assert count(db) == 6


@pytest.mark.parametrize("durability", ["periodic", "none"])
def test_a_merge_takes_only_what_a_power_cut_leaves(tmp_path: Path, durability: str) -> None:
    db = db_of(tmp_path, durability)
    commit(db, a=5)
    with pytest.raises(TooEarlyError, match="rows of this date are not synced yet") as caught:
        merge(db.layout)
    assert (caught.value.found, caught.value.exit_code) == ("5 unsynced rows", 3)
    assert f"`sparkhaven recover {TABLE}`" in str(caught.value.hint)
    db.log.sync_now()
    commit(db, a=3, b=2)
    db.commit({("a", "2024-03-06"): rows(1)})
    first = merge(db.layout)[0]
    assert (first.rows_in, first.waiting, count(db)) == (5, 5, 11)
    again = merge(db.layout)[0]
    assert (again.outcome, again.waiting) == ("nothing", 5)
    db.log.sync_now()
    last = merge(db.layout)[0]
    assert (last.rows_in, last.waiting, count(db)) == (5, 0, 11)


def test_a_date_without_rows_is_reported_as_such_even_while_other_rows_wait(tmp_path: Path) -> None:
    db = db_of(tmp_path, "periodic")
    commit(db, a=5)
    executor = LocalExecutor(1)
    (result,) = merge_dates(db.place, ["2024-03-06"], MergeOptions(), executor=executor, clock=lambda: NOW)
    assert isinstance(result.error, TableNotFoundError) and "no committed rows to merge" in str(result.error)
    assert "recover" not in str(result.error)


def test_rows_that_a_power_cut_could_bring_again_are_not_truncated(tmp_path: Path) -> None:
    db = db_of(tmp_path, "periodic")
    commit(db, a=5)
    db.log.sync_now()
    merge(db.layout)
    db.commit({("a", DAY): rows(0)})  # no new row, but a new epoch of the location
    proof = prove(db.place, DAY)
    with pytest.raises(ValidationFailedError, match="not synced yet"):
        truncate(States(db.place), proof=proof, clock=lambda: NOW)
    db.log.sync_now()
    remove(db, files=False)
    assert count(db) == 5


def test_readers_have_the_grace_from_the_switch_on_however_long_the_merge_took(tmp_path: Path) -> None:
    db = db_of(tmp_path)
    commit(db, a=5)
    merge(db.layout)
    old = db.layout.history_location(TABLE, LocationKey("0", DAY))
    options, executor = MergeOptions(rewrite=True), LocalExecutor(1)
    now = [NOW]

    class Slow(QuickFs):
        def step(self, name: str) -> None:
            if name == "merge-sync:before":
                now[0] += 2 * GRACE_S

    def again() -> None:
        (result,) = merge_dates(
            TablePlace(Slow(), db.layout, TABLE), [DAY], options, executor=executor, clock=lambda: now[0]
        )
        assert (result.error, result.outcome) == (None, "merged")

    again()
    assert old.is_dir()
    again()
    assert not old.exists()


@pytest.mark.slow
@pytest.mark.parametrize("other_device", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_a_reader_of_a_retired_generation_gets_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_device: bool, killed: bool
) -> None:
    """The second column of a read finds its location retired, or half removed when the process was killed."""
    db = db_of(tmp_path)
    commit(db, a=5)
    merge(db.layout)
    if other_device:
        monkeypatch.setattr(staged_locations, "_device", lambda fs, path: hash(path))
    options, executor = MergeOptions(rewrite=True), LocalExecutor(1)

    class HalfRemoving(QuickFs):
        def remove_tree(self, path: Path) -> None:
            files = list(path.glob("*.dat"))  # of a location, whatever its name is by now
            for file in files if killed else ():
                file.unlink()
            if files and killed:
                raise Crash
            super().remove_tree(path)

    def again(fs: Fs, now: float) -> None:
        (result,) = merge_dates(TablePlace(fs, db.layout, TABLE), [DAY], options, executor=executor, clock=lambda: now)
        assert result.error is None

    class Meanwhile(Fs):
        done = False

        def map(self, path: Path, length: int) -> pa.Buffer:
            found = super().map(path, length)
            if not self.done and path.suffix == ".dat":
                self.done = True
                again(QuickFs(), NOW)
                with contextlib.suppress(Crash):
                    again(HalfRemoving(), NOW + GRACE_S + 1)
            return found

    with pytest.raises(SnapshotMovedError, match="history of the date was changed since the table was opened"):
        open_table(db.root, str(TABLE), fs=Meanwhile()).to_batches(tier="history").read_all()
    assert count(db) == 5
    again(QuickFs(), NOW + 3 * GRACE_S)
    assert count(db) == 5
    if other_device:
        assert not list(db.root.rglob(".retired-*"))


def test_epoch_between_two_merges_is_refused_once_its_rows_have_left(tmp_path: Path) -> None:
    db = db_of(tmp_path)
    for number in (1, 2, 3):
        commit(db, a=number)
        if number != 2:
            merge(db.layout)
    for epoch, count_then in ((1, 1), (2, 3), (3, 6)):
        assert open_table(db.root, str(TABLE), epoch=epoch).count() == count_then
    remove(db, files=False)
    assert [open_table(db.root, str(TABLE), epoch=epoch).count() for epoch in (1, 3)] == [1, 6]
    with pytest.raises(SettingsError, match="can no longer be read"):  # an older merge has its first row, and no more
        open_table(db.root, str(TABLE), epoch=2).count()
