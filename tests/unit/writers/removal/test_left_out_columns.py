"""Columns that are dropped after rows with values in them were left out: intraday can be removed all the same."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.operations.epoch_changes import open_log
from sparkhaven.store.epochs.undo import plan_undo
from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.merges.merge_records import newest, store_record
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import Consent
from sparkhaven.store.types.model import DedupeRule
from sparkhaven.writers.merge.date_merges import DateMerges
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.rewrites.row_deletion import delete_rows
from sparkhaven.writers.validation.date_validation import validate_date
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table, random_row
from tests.support.writers.merge_runs import FS, merge
from tests.support.writers.removals import empty, unlink

DROPPED = "I", "Note"


class Table:
    """Rows of two sources, each of which has a double; some are withdrawn before they are merged."""

    def __init__(self, root: Path, *, statistics: bool) -> None:
        self.rng = random.Random(7)
        self.db = IntradayRows(root, SCHEMA, fs=FS, statistics=statistics)
        add_partition(FS, self.db.layout, "Test", "0")
        self.rows = [random_row(self.rng) | {"L": number} for number in range(30)]
        self.commit(self.rows[:20], self.rows[20:])

    def commit(self, *parts: list[dict[str, Any]]) -> int:
        return self.db.commit({(source, DAY): as_table(part) for source, part in zip("ab", parts, strict=False)})

    def undo(self, epoch: int) -> None:
        self.db.log.withdraw(partial(plan_undo, self.db.place, [epoch]))

    def double(self) -> None:
        self.commit(self.rows[25:], self.rows[:7])

    def wrong(self) -> None:
        self.undo(self.commit([random_row(self.rng) for _ in range(6)]))
        self.commit([random_row(self.rng) for _ in range(3)])

    def delete(self) -> None:
        self.db.log.close()
        merges = DateMerges(self.db.place, MergeOptions(), LocalExecutor(1), lambda: 0.0)
        done = delete_rows(merges, "Flag", [DAY], open_log)
        assert done.rows and not done.failed
        self.db.log = self.db.open()

    def drop(self) -> None:
        lines = [line for line in SCHEMA.splitlines() if not any(f'name="{name}"' in line.decode() for name in DROPPED)]
        deploy(FS, self.db.layout, b"\n".join(lines), consent=Consent(drop=DROPPED))


@pytest.fixture(params=[False, True], ids=["read", "statistics"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(tmp_path, statistics=request.param)


def removed(table: Table) -> int:
    """Rows of intraday that were removed by proof."""
    assert validate_date(table.db.place, DAY).passed
    rows = empty(table.db).rows
    assert unlink(table.db).rows == rows
    return rows


@pytest.mark.parametrize("form", ["deephaven", "parquet", "both"])
def test_rows_that_were_deleted_from_history(table: Table, form: str) -> None:
    merge(table.db.layout, format=form)
    table.delete()
    table.drop()
    merge(table.db.layout, rewrite=True)
    assert removed(table) == 30


def test_rows_that_were_deleted_in_turns(table: Table) -> None:
    merge(table.db.layout)
    table.delete()
    table.commit([{**row, "Flag": True} for row in table.rows[:4]])
    merge(table.db.layout)
    table.delete()
    table.drop()
    merge(table.db.layout, rewrite=True)
    assert removed(table) == 34


@pytest.mark.parametrize("early", [False, True], ids=["later", "before the merge"])
def test_duplicates(table: Table, early: bool) -> None:
    table.double()
    if early:
        table.drop()
    merge(table.db.layout, dedupe=DedupeRule(("L",)))
    if not early:
        table.drop()
        merge(table.db.layout, rewrite=True)
    assert removed(table) == 42


def test_duplicates_that_history_had_when_rows_came(table: Table) -> None:
    table.double()
    merge(table.db.layout, dedupe=DedupeRule(("L",)))
    table.commit(table.rows[3:9])
    merge(table.db.layout, dedupe=DedupeRule(("L",), upsert=True))
    table.drop()
    merge(table.db.layout, rewrite=True)
    assert removed(table) == 48


@pytest.mark.parametrize("early", [False, True], ids=["later", "before the merge"])
def test_rows_that_were_withdrawn_before_they_were_merged(table: Table, early: bool) -> None:
    table.wrong()
    if early:
        table.drop()
    merge(table.db.layout)
    if not early:
        table.drop()
        merge(table.db.layout, rewrite=True)
    assert removed(table) == 39


def test_a_record_without_the_counts_is_refused_as_before(table: Table) -> None:
    merge(table.db.layout)
    table.delete()
    record = newest(table.db.place, DAY)
    assert record is not None and record.proof is not None
    assert set(record.proof.left_out.filled) == {column.id for column in table.db.schema.stored}
    left_out = replace(record.proof.left_out, filled={})
    store_record(table.db.place, replace(record, proof=replace(record.proof, left_out=left_out)))
    table.drop()
    merge(table.db.layout, rewrite=True)
    with pytest.raises(ValidationFailedError, match="history lacks columns that intraday has"):
        empty(table.db)
