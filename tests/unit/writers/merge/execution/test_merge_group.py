"""Small dates that are merged together: they wait for the disk together, and fail or go on one by one."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.index.tlmi import decode_tlmi
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan import merge_plan
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from tests.support.disks.contents import flip, hidden
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import SCHEMA, TABLE, as_table, random_row, read_location
from tests.support.writers.merge_runs import FS, PHASE_STEPS, history_bytes

DAYS = [f"2024-03-{day:02d}" for day in range(1, 7)]
ROWS = 20
ONE_GROUP = MergeOptions(sizes=BlockSizes(groups=1))


def make(root: Path, days: Iterable[str] = DAYS) -> Layout:
    db = IntradayRows(root, SCHEMA, fs=FS)
    rng = random.Random(3)
    for day in days:
        db.commit({("a", day): as_table([random_row(rng) for _ in range(ROWS)])})
    db.log.close()
    return db.layout


def run(layout: Layout, fs: Fs, days: Iterable[str] = DAYS) -> list[DateResult]:
    options, executor = ONE_GROUP, LocalExecutor()
    return list(merge_dates(TablePlace(fs, layout, TABLE), list(days), options, executor=executor, clock=lambda: 1.7e9))


def check_all(layout: Layout, days: Iterable[str]) -> None:
    """Every date is merged, read back and indexed; nothing is staged any more."""
    schema = IntradayRows(layout.root, SCHEMA, fs=FS).schema
    indexed = {e.key for e in decode_tlmi(layout.metadata_index(TABLE).read_bytes(), "index")}
    expected = set()
    for day in days:
        record = newest(TablePlace(FS, layout, TABLE), day)
        assert record is not None
        assert record.phase == "clean"
        keys = [LocationKey(output.internal, day) for output in record.outputs]
        assert sum(len(read_location(layout, schema, key)) for key in keys) == ROWS
        expected.update(keys)
    assert indexed == expected
    assert hidden(layout.system("Test")) == []


def damage(layout: Layout, day: str) -> None:
    broken = layout.intraday_location(TABLE, LocationKey("a", day)) / "I.dat"
    flip(broken, 4100)


@pytest.mark.slow
def test_one_date_fails_and_the_others_of_its_group_do_not(tmp_path: Path) -> None:
    layout = make(tmp_path)
    damage(layout, DAYS[2])
    found = {result.value: result for result in run(layout, FS)}
    assert isinstance(found[DAYS[2]].error, CorruptFileError)
    assert {value: result.outcome for value, result in found.items() if value != DAYS[2]} == dict.fromkeys(
        [day for day in DAYS if day != DAYS[2]], "merged"
    )
    assert newest(TablePlace(FS, layout, TABLE), DAYS[2]) is None
    check_all(layout, [day for day in DAYS if day != DAYS[2]])


def test_data_in_the_way_of_one_date_leave_the_others(tmp_path: Path) -> None:
    layout = make(tmp_path, DAYS[:3])

    class Blocking(QuickFs):
        def step(self, name: str) -> None:
            if name == "merge-publish:before":
                layout.history_location(TABLE, LocationKey("0", DAYS[1])).mkdir(parents=True)

    found = run(layout, Blocking(), DAYS[:3])
    assert sorted(result.outcome for result in found) == ["failed", "merged", "merged"]
    layout.history_location(TABLE, LocationKey("0", DAYS[1])).rmdir()
    assert sorted(result.outcome for result in run(layout, FS, DAYS[:3])) == ["nothing", "nothing", "resumed"]
    check_all(layout, DAYS[:3])


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("step", PHASE_STEPS)
def test_a_group_that_was_killed_ends_well_when_it_is_run_again(tmp_path: Path, step: str) -> None:
    layout = make(tmp_path)
    with pytest.raises(Crash):
        run(layout, KillingFs(crash_at=step))
    assert {result.outcome for result in run(layout, FS)} <= {"merged", "resumed", "nothing"}
    check_all(layout, DAYS)


@pytest.mark.slow
def test_a_group_writes_the_bytes_of_dates_on_their_own(tmp_path: Path) -> None:
    together, apart = make(tmp_path / "together"), make(tmp_path / "apart")
    run(together, FS)
    for day in DAYS:
        run(apart, FS, [day])
    assert history_bytes(together) == history_bytes(apart)


@pytest.mark.slow
def test_a_disk_that_cannot_sync_fails_all_and_publishes_none(tmp_path: Path) -> None:
    layout = make(tmp_path)

    class Failing(QuickFs):
        failing = False

        def step(self, name: str) -> None:
            self.failing = name == "merge-sync:before"

        def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
            if self.failing:
                raise OSError(5, "Input/output error")

    found = run(layout, Failing())
    assert {result.outcome for result in found} == {"failed"}
    assert [newest(TablePlace(FS, layout, TABLE), day) for day in DAYS] == [None] * len(DAYS)
    run(layout, FS)
    check_all(layout, DAYS)


@pytest.mark.slow
def test_more_dates_do_not_wait_for_the_disk_more_often(tmp_path: Path) -> None:
    class Waiting(QuickFs):
        def __init__(self) -> None:
            self.calls = 0

        def sync(self, paths: Iterable[Path]) -> None:
            self.calls += 1
            super().sync(paths)

        def sync_dirs(self, paths: Iterable[Path]) -> None:
            self.calls += 1
            super().sync_dirs(paths)

        def _sync_file_system(self, path: Path, descriptor: int | None) -> None:
            self.calls += 1

    few, many = Waiting(), Waiting()
    run(make(tmp_path / "few", DAYS[:2]), few, DAYS[:2])
    run(make(tmp_path / "many"), many)
    assert many.calls <= few.calls


@pytest.mark.parametrize(
    ("rows", "pieces"),
    [
        ([200], [2]),
        ([100, 100], [1, 1]),
        ([200, 30, 30], [2, 1, 1]),  # two workers would wait for the first
        ([120, 110, 100], [1, 1, 1]),
        ([30, 200, 40, 180], [1, 1, 1, 1]),
    ],
)
def test_only_a_date_beyond_a_share_of_all_rows_is_cut_over_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[int], pieces: list[int]
) -> None:
    assert pieces_of(tmp_path, rows, workers=2) == pieces


def test_a_date_that_does_not_fit_the_memory_of_a_worker_is_cut_over_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_plan.MergePlan, "usable", lambda _: 4000)
    assert pieces_of(tmp_path, [100, 100, 100, 100], workers=3) == [3, 3, 3, 3]


def pieces_of(root: Path, rows: list[int], workers: int) -> list[int]:
    """In how many pieces dates of so many rows are merged, where 100 rows are enough for all workers."""
    db, rng = IntradayRows(root, SCHEMA, fs=FS), random.Random(4)
    days = DAYS[: len(rows)]
    for day, number in zip(days, rows, strict=True):
        db.commit({("a", day): as_table([random_row(rng) for _ in range(number)])})
    where = db.place, days, replace(ONE_GROUP, workers=workers, parallel_rows=100)
    found = {each.value: each for each in merge_dates(*where, executor=LocalExecutor(2), clock=lambda: 1.7e9)}
    assert [found[day].rows_out for day in days] == rows
    return [found[day].pieces for day in days]
