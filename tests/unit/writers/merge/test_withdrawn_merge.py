"""Merges of dates with withdrawn rows: outputs, proof, validation, and removal; against the rows that are left."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.epochs.undo import plan_undo
from sparkhaven.store.errors import TableExistsError
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import DedupeRule
from sparkhaven.writers.merge.date_result import MergeOutcome
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, PHASE_STEPS, merge
from tests.support.writers.removals import empty, unlink

Row = dict[str, Any]


def in_order(rows: list[Row]) -> list[str]:
    return sorted(repr({name: comparable(value) for name, value in row.items()}) for row in rows)


def shown(root: Path, **options: Any) -> list[str]:
    names = [*as_table([]).column_names]
    table = open_table(root, str(TABLE)).to_arrow(names, **options)
    rows = [
        {name: int(v.value) if name == "T" and v.is_valid else v.as_py() for name, v in zip(names, row, strict=True)}
        for row in zip(*(table[name] for name in names), strict=True)
    ]
    return in_order(rows)


class Day:
    """One date of a stream: epochs of rows in two sources, some of which are undone."""

    def __init__(self, root: Path) -> None:
        self.root, self.rng = root, random.Random(3)
        self.db = IntradayRows(root, SCHEMA, fs=FS)
        self.kept: list[Row] = []
        for name in ("0", "1"):
            add_partition(FS, self.db.layout, "Test", name)

    def add(self, *, wrong: bool = False, **counts: int) -> int:
        rows = {source: [random_row(self.rng) for _ in range(count)] for source, count in counts.items()}
        epoch = self.db.commit({(source, DAY): as_table(listed) for source, listed in rows.items()})
        if not wrong:
            self.kept += [row for listed in rows.values() for row in listed]
        return epoch

    def undo(self, epoch: int) -> int:
        return self.db.log.withdraw(partial(plan_undo, self.db.place, [epoch]))


@pytest.fixture
def day(tmp_path: Path) -> Day:
    day = Day(tmp_path)
    day.add(a=20, b=15)
    wrong = day.add(wrong=True, a=7, b=4)
    day.add(a=11)
    assert day.undo(wrong) == 4
    return day


@pytest.mark.parametrize("format_", ["deephaven", "parquet", "both"])
def test_a_merge_leaves_them_out_and_its_record_proves_it(day: Day, format_: str) -> None:
    result = merge(day.db.layout, format=format_)[0]
    assert (result.rows_in, result.rows_out, result.left_out, result.withdrawn) == (57, 46, 11, 11)
    assert shown(day.root) == shown(day.root, tier="history") == in_order(day.kept)
    record = newest(day.db.place, DAY)
    assert record is not None and record.proof is not None
    assert [(taken.internal, taken.rows, taken.withdrawn) for taken in record.inputs] == [("a", 38, 7), ("b", 19, 4)]
    assert (record.proof.left_out.rows, record.proof.left_out.withdrawn, record.proof.left_out.identical) == (11, 11, 0)
    assert validate_date(day.db.place, DAY).passed
    assert merge(day.db.layout)[0].outcome is MergeOutcome.NOTHING
    assert empty(day.db).rows == 57
    assert shown(day.root) == in_order(day.kept)
    assert unlink(day.db).rows == 57
    assert validate_date(day.db.place, DAY).passed
    assert shown(day.root) == in_order(day.kept)


def test_late_rows_come_as_a_supplement_and_a_rewrite_reads_intraday_again(day: Day) -> None:
    merge(day.db.layout)
    day.add(b=5)
    wrong = day.add(wrong=True, b=3)
    day.undo(wrong)
    assert merge(day.db.layout)[0].outcome is MergeOutcome.SUPPLEMENT
    assert validate_date(day.db.place, DAY).passed
    assert shown(day.root) == in_order(day.kept)
    result = merge(day.db.layout, rewrite=True)[0]
    assert (result.rows_out, result.withdrawn) == (51, 14)
    assert shown(day.root) == in_order(day.kept)
    empty(day.db)
    result = merge(day.db.layout, rewrite=True)[0]  # from history, which has none of them
    assert (result.rows_in, result.rows_out) == (65, 51)
    assert validate_date(day.db.place, DAY).passed
    assert shown(day.root) == in_order(day.kept)


def test_a_rule_for_duplicates_sees_only_the_rows_that_are_left(day: Day) -> None:
    rule = DedupeRule(("Sym", "S"), "last")
    merge(day.db.layout, dedupe=rule)
    left: dict[tuple[Any, ...], Row] = {}
    order = [row for part in (slice(0, 20), slice(35, 46), slice(20, 35)) for row in day.kept[part]]
    for row in order:
        left[row["Sym"], row["S"]] = row
    assert shown(day.root) == in_order([*left.values()])
    record = newest(day.db.place, DAY)
    assert record is not None and record.proof is not None
    assert record.proof.left_out.withdrawn == 11
    assert record.proof.left_out.rows == 57 - len(left)
    assert validate_date(day.db.place, DAY).passed
    assert empty(day.db).rows == 57


def test_a_date_without_any_row_that_is_left(tmp_path: Path) -> None:
    day = Day(tmp_path)
    day.undo(day.add(wrong=True, a=6))
    merge(day.db.layout)
    assert shown(tmp_path) == []
    assert validate_date(day.db.place, DAY).passed
    day.add(a=3)
    day.undo(day.add(wrong=True, b=2))
    assert merge(day.db.layout)[0].rows_out == 3
    assert shown(tmp_path) == in_order(day.kept)
    day.undo(day.add(wrong=True, b=2))
    merge(day.db.layout)  # a supplement of nothing
    assert shown(tmp_path) == in_order(day.kept)
    assert empty(day.db).rows == 13


def test_an_epoch_that_is_merged_is_not_undone_and_one_that_is_undone_does_not_return(day: Day) -> None:
    merge(day.db.layout)
    with pytest.raises(TableExistsError, match="rows that are in history"):
        day.undo(3)
    with pytest.raises(TableExistsError, match="other withdrawn rows than those"):
        day.db.log.rollback(3)
    late = day.add(wrong=True, a=2)
    assert day.undo(late) == 6
    day.add(a=1)
    assert shown(day.root) == in_order(day.kept)
    assert day.db.log.rollback(4) == 8
    day.kept.pop()
    assert shown(day.root) == in_order(day.kept)


@pytest.mark.campaign
@pytest.mark.parametrize("step", PHASE_STEPS)
def test_a_merge_that_is_killed_shows_them_at_no_step(day: Day, step: str) -> None:
    with pytest.raises(Crash):
        merge(day.db.layout, fs=KillingFs(crash_at=step))
    assert shown(day.root) == in_order(day.kept)
    merge(day.db.layout)
    assert shown(day.root) == in_order(day.kept)
    assert validate_date(TablePlace(FS, day.db.layout, TABLE), DAY).passed


def test_a_rule_is_remembered_by_a_date_whose_rows_are_all_gone(tmp_path: Path) -> None:
    day, rule = Day(tmp_path), DedupeRule(("Sym", "S"), "last")
    day.undo(day.add(wrong=True, a=6))
    merge(day.db.layout)
    empty(day.db)
    merge(day.db.layout, dedupe=rule)
    record = newest(day.db.place, DAY)
    assert record is not None
    assert record.run.dedupe == rule
    assert validate_date(day.db.place, DAY).passed
    assert merge(day.db.layout, dedupe=rule)[0].outcome is MergeOutcome.NOTHING
    assert shown(tmp_path) == []
