"""Merges of small dates against a naive sort, and what they leave on disk."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.epochs.files.removals import write_removals
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.errors import CorruptFileError, LockLostError, SettingsError, TableExistsError, TableNotFoundError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import lock_table, newest, store_record
from sparkhaven.store.scan.column_file import read_grouping
from sparkhaven.writers.merge.date_merges import DateMerges, merge_dates
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from tests.support.disks.contents import flip
from tests.support.disks.model_fs import Crash, KillingFs, QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import (
    DAY,
    SCHEMA,
    TABLE,
    as_table,
    comparable,
    naive_order,
    random_row,
    read_location,
)
from tests.support.writers.merge_runs import FS, check_tree, history_bytes, make, merge, same

SORTS: list[list[tuple[str, bool]]] = [
    [],
    [("D", False)],
    [("D", True), ("L", False)],
    [("Note", False)],
    [("Venue", True), ("F", False)],
    [("Flag", False), ("T", True)],
    [("C", False), ("B", True)],
]


@pytest.mark.slow
@pytest.mark.parametrize("sort", SORTS, ids=str)
def test_rows_come_out_as_a_naive_sort_puts_them(tmp_path: Path, sort: list[tuple[str, bool]]) -> None:
    db, rows = make(tmp_path, 400)
    (result,) = merge(db.layout, sort=tuple(SortKey(name, descending) for name, descending in sort))
    assert (result.outcome, result.phase, result.rows_in, result.rows_out) == ("merged", "clean", 400, 400)
    parts = [read_location(db.layout, db.schema, LocationKey(name, DAY)) for name, _ in result.destinations]
    groups = [{row["Sym"] for row in part} for part in parts]
    assert len(parts) == 2
    assert not groups[0] & groups[1]
    for part, syms in zip(parts, groups, strict=True):
        same(part, naive_order([row for row in rows if row["Sym"] in syms], sort))
    record = newest(db.place, DAY)
    assert record is not None
    assert record.proof is not None
    assert record.proof.holds


@pytest.mark.slow
def test_same_input_gives_the_same_bytes_however_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = BlockSizes(rows=64, chunk_rows=50, stretch_rows=100)
    results: dict[int, dict[str, bytes]] = {}
    for pieces in (1, 2, 7, 40):
        # 7: ordered in pieces, then written column by column, by tasks over all workers
        monkeypatch.setattr(MergePlan, "by_columns", lambda plan, pieces=pieces: pieces == 7)
        root = tmp_path / str(pieces)
        db, _ = make(root, 500, seed=4)
        monkeypatch.setattr(MergePlan, "ranges", lambda plan, pieces=pieces: pieces)
        least = 1 if pieces == 7 else 1 << 20  # tasks over all workers
        sort = SortKey("Venue"), SortKey("D", True), SortKey("Note")
        (result,) = merge(db.layout, sort=sort, workers=pieces % 3, parallel_rows=least, sizes=sizes)
        assert result.pieces == pieces
        results[pieces] = history_bytes(db.layout)
    assert results[1]
    for pieces in (2, 7, 40):
        assert results[pieces] == results[1]


def test_one_giant_group_is_cut_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    rows = [random_row(rng) | {"Sym": "one"} for _ in range(600)]
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    db.commit({("a", DAY): as_table(rows[:300]), ("b", DAY): as_table(rows[300:])})
    monkeypatch.setattr(MergePlan, "ranges", lambda plan: 9)
    monkeypatch.setattr(MergePlan, "by_columns", lambda plan: False)
    merge(db.layout, sort=(SortKey("L"),), sizes=BlockSizes(rows=64))
    same(read_location(db.layout, db.schema, LocationKey("0", DAY)), naive_order(rows, [("L", False)]))


def test_late_rows_become_a_supplement_and_later_a_re_merge(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60)
    merge(db.layout)
    assert merge(db.layout)[0].outcome == "nothing"
    rng = random.Random(8)
    for number in range(1, 4):
        more = [random_row(rng) for _ in range(5)]
        db.commit({("a", DAY): as_table(more)})
        rows += more
        (result,) = merge(db.layout, max_supplements=2)
        assert result.outcome == ("supplement" if number <= 2 else "merged"), number
        assert result.rows_in == (5 if number <= 2 else 75)
        record = newest(db.place, DAY)
        assert record is not None
        assert record.proof is not None
        assert record.proof.rows_out == len(rows)
        assert sum(i.rows for i in record.inputs) == len(rows)
    assert [name for name, _ in result.destinations] == ["0.g4", "1.g4"]


def test_an_old_generation_is_retired_after_its_grace(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    merge(db.layout, rewrite=True)
    old = db.layout.history_location(TABLE, LocationKey("0", DAY))
    assert old.is_dir()
    later = list(merge_dates(db.place, [DAY], MergeOptions(), executor=LocalExecutor(), clock=lambda: 1_700_003_601.0))
    assert later[0].outcome == "nothing"
    assert not old.exists()
    check_tree(db.layout)


def test_rows_that_come_while_it_merges_wait_for_the_next_run(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60)
    more = [random_row(random.Random(5)) for _ in range(7)]

    class Meanwhile(QuickFs):
        def step(self, name: str) -> None:
            if name == "merge-sync:before":
                db.commit({("a", DAY): as_table(more)})

    (result,) = merge(db.layout, fs=Meanwhile())
    assert result.rows_out == 60
    (second,) = merge(db.layout)
    assert (second.outcome, second.rows_out) == ("supplement", 7)
    record = newest(db.place, DAY)
    assert record is not None
    found = [r for o in record.outputs for r in read_location(db.layout, db.schema, LocationKey(o.internal, DAY))]
    key = sorted(str([comparable(v) for v in row.values()]) for row in found)
    assert key == sorted(str([comparable(v) for v in row.values()]) for row in rows + more)


def test_a_rollback_while_it_merges_is_refused(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60)

    class Meanwhile(QuickFs):
        def step(self, name: str) -> None:
            if name == "merge-stage:after":
                with pytest.raises(LockLostError, match="another merge"):
                    db.log.rollback(1)

    assert merge(db.layout, fs=Meanwhile())[0].rows_out == len(rows)
    check_tree(db.layout)


def test_a_rollback_after_a_killed_merge_waits_until_it_has_ended(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60)
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at="merge-publish:before"))
    with pytest.raises(TableExistsError, match="to finish it"):
        db.log.rollback(1)
    (again,) = merge(db.layout)
    assert (again.outcome, again.rows_out, again.generation) == ("resumed", len(rows), 1)
    check_tree(db.layout)


def test_a_rollback_does_not_take_merged_rows_back(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60)
    merge(db.layout)
    with pytest.raises(TableExistsError, match="rows that are in history") as refused:
        db.log.rollback(1)
    assert refused.value.expected == f"at least the 20 merged rows of a/{DAY}"
    assert refused.value.found == "10 rows at epoch 1"
    assert db.log.rollback(db.log.state.epoch) == db.log.state.epoch


def test_empty_dates_and_dry_run(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    with pytest.raises(TableNotFoundError, match="no committed rows"):
        merge(db.layout, "2024-01-01")
    assert merge(db.layout, "2024-01-01", allow_empty=True)[0].outcome == "empty"
    (planned,) = DateMerges(db.place, MergeOptions(), LocalExecutor(), lambda: 0.0).planned([DAY])
    assert (planned.outcome, planned.rows_in) == ("planned", 30)
    assert [name for name, _ in planned.destinations] == ["0", "1"]
    assert newest(db.place, DAY, complete=False) is None


def test_a_failing_date_does_not_stop_the_others(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 30)
    db.commit({("a", "2024-03-06"): as_table(rows)})
    broken = db.layout.intraday_location(TABLE, LocationKey("a", DAY)) / "I.dat"
    flip(broken, 4100)
    first, second = merge_dates(
        db.place, [DAY, "2024-03-06"], MergeOptions(), executor=LocalExecutor(), clock=lambda: 1_700_000_000.0
    )
    assert first.outcome == "failed"
    assert isinstance(first.error, CorruptFileError)
    assert "I.dat" in str(first.error)
    assert (second.outcome, second.rows_out) == ("merged", 30)
    assert newest(db.place, DAY) is None


def test_a_second_merge_of_the_table_is_refused(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 30)
    lock = lock_table(db.place)
    with pytest.raises(LockLostError, match="another merge"):
        merge(db.layout)
    lock.release()


def test_grouping_lies_in_the_prefix_or_beside_it(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    rng = random.Random(2)
    rows = [random_row(rng) | {"Sym": f"symbol-{i % 300}"} for i in range(900)]
    db.commit({("a", DAY): as_table(rows), ("b", "2024-03-06"): as_table(rows[:3])})
    merge(db.layout, DAY, "2024-03-06")
    sym = db.schema.column("Sym")
    assert sym is not None
    for day, beside, number, total in ((DAY, True, 300, 900), ("2024-03-06", False, 3, 3)):
        place = db.layout.history_location(TABLE, LocationKey("0", day))
        assert (place / "Sym.ovr").exists() is beside
        ranges = read_grouping(FS, place, sym, total)
        assert ranges is not None
        assert len(ranges) == number
    size = table_size.load(FS, place)
    assert size is not None
    assert dict(size.sorted_columns) == {"Sym": "Ascending"}
    assert set(size.checksums) == set(size.data_file_sizes)


def test_history_is_the_source_once_intraday_is_gone(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60)
    merge(db.layout)
    for key in list(db.log.state.locations):
        remove_for_test(db, key)
    more = [random_row(random.Random(3)) for _ in range(4)]
    db.log.close()
    db.log = db.open()
    db.commit({("c", DAY): as_table(more)})
    (result,) = merge(db.layout, rewrite=True)
    assert (result.outcome, result.rows_out) == ("merged", 64)
    record = newest(db.place, DAY)
    assert record is not None
    assert record.source == "history"
    assert sum(i.rows for i in record.inputs) == 64
    found = [r for o in record.outputs for r in read_location(db.layout, db.schema, LocationKey(o.internal, DAY))]
    key_of = sorted(str([comparable(v) for v in row.values()]) for row in found)
    assert key_of == sorted(str([comparable(v) for v in row.values()]) for row in rows + more)


def remove_for_test(db: IntradayRows, key: LocationKey) -> None:
    """Records a location as emptied, as truncate does."""
    location = db.log.state.locations[key]
    removal = Removal(key, location.since, location.rows, "truncate", location.epoch)
    write_removals(db.place, [removal])


def test_a_rewrite_keeps_the_order_of_the_last_merge(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60, partitions=1)
    keys = (SortKey("S", descending=True), SortKey("T"))
    merge(db.layout, sort=keys)
    (again,) = merge(db.layout, rewrite=True)
    assert again.sort == ("S:desc", "T")
    found = read_location(db.layout, db.schema, LocationKey("0.g2", DAY))
    same(found, naive_order(rows, [("S", True), ("T", False)]))
    more = [random_row(random.Random(9)) for _ in range(30)]
    db.commit({("c", DAY): as_table(more)})
    (supplement,) = merge(db.layout)
    assert (supplement.outcome, supplement.sort) == ("supplement", ("S:desc", "T"))
    found = read_location(db.layout, db.schema, LocationKey("0.s3", DAY))
    same(found, naive_order(more, [("S", True), ("T", False)]))


def test_a_rewrite_without_order_is_asked_for(tmp_path: Path) -> None:
    db, rows = make(tmp_path, 60, partitions=1)
    merge(db.layout, sort=(SortKey("S"),))
    (again,) = merge(db.layout, rewrite=True, sort=())
    assert again.sort == ()
    same(read_location(db.layout, db.schema, LocationKey("0.g2", DAY)), naive_order(rows, []))
    assert merge(db.layout, rewrite=True)[0].sort == ()


def test_a_recorded_order_by_a_column_that_is_gone_is_reported(tmp_path: Path) -> None:
    db, _ = make(tmp_path, 60, partitions=1)
    merge(db.layout, sort=(SortKey("S"),))
    record = newest(db.place, DAY)
    assert record is not None
    store_record(db.place, replace(record, run=replace(record.run, sort=("Gone:desc",))))
    with pytest.raises(SettingsError, match="can no longer be used for sorting") as caught:
        merge(db.layout, rewrite=True)
    assert caught.value.found == "Gone:desc"
    assert "--sort none" in str(caught.value)
    assert merge(db.layout, rewrite=True, sort=())[0].outcome == "merged"
