"""Several workers read the columns of a small date while its rows are put in order: each file once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar

import pytest

from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import Storage
from sparkhaven.writers.merge.plan.merge_plan import MergePlan
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.merge.write import staging
from sparkhaven.writers.merge.write.row_order import Keys
from sparkhaven.writers.partitions import add_partition
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, random_row
from tests.support.writers.merge_runs import FS, history_bytes, merge

T = TypeVar("T")
SOURCES = 6
SORT = (SortKey("D", True), SortKey("Venue"))


def make(root: Path) -> IntradayRows:
    rng = random.Random(5)
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({(f"s{n}", DAY): as_table([random_row(rng) for _ in range(40 + n)]) for n in range(SOURCES)})
    add_partition(FS, db.layout, "Test", "0")
    return db


class NotingFs(QuickFs):
    """Counts how often files of a name are read together with others."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()

    def read_together(self, paths: Sequence[str], read: Callable[[], T]) -> T:
        self.reads.update(Path(path).name for path in paths)
        return super().read_together(paths, read)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that were read ahead."""
    found: list[str] = []
    keep = Keys.keep

    def noted(self: Any, column: Any) -> None:
        found.append(column.name)
        keep(self, column)

    monkeypatch.setattr(Keys, "keep", noted)
    return found


def test_two_workers_read_each_column_once_and_write_the_same(tmp_path: Path, ahead: list[str]) -> None:
    one, two = make(tmp_path / "one").layout, make(tmp_path / "two").layout
    merge(one, sort=SORT)
    assert ahead == []
    fs = NotingFs()
    merge(two, sort=SORT, workers=2, fs=fs)
    assert history_bytes(one) == history_bytes(two)
    schema = load_deployed(TablePlace(FS, two, TABLE))
    ordering = {key.column for key in SORT} | {column.name for column in schema.grouping}
    read = [column for column in schema.stored if column.storage is not Storage.BLOB]
    assert sorted(ahead) == sorted(column.name for column in read if column.name not in ordering)
    for column in read:
        with_prefix = 2 if column.storage is Storage.SYMBOL else 1  # once for the prefix, before the symbols
        assert fs.reads[f"{column.name}.dat"] == with_prefix * SOURCES, column.name


@pytest.mark.parametrize("workers", [1, 2])
def test_symbols_are_ranked_by_who_puts_rows_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    steps: list[tuple[str, int]] = []

    def noted(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def work(*arguments: Any, **options: Any) -> Any:
            steps.append((name, get_ident()))
            return step(*arguments, **options)

        return work

    for name in ("complete", "select"):
        monkeypatch.setattr(staging, name, noted(name, getattr(staging, name)))
    merge(make(tmp_path).layout, sort=SORT, workers=workers)
    (one, ranked), (other, ordered) = steps
    assert (one, other) == ("complete", "select")
    assert ranked == ordered
    assert (ranked == get_ident()) == (workers == 1)


def test_columns_that_do_not_fit_beside_the_order_are_read_one_by_one(
    tmp_path: Path, ahead: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make(tmp_path / "one").layout, make(tmp_path / "two").layout
    merge(one, sort=SORT)
    usable = MergePlan.usable
    monkeypatch.setattr(MergePlan, "usable", lambda plan: plan.rows * (plan.row_cost() + 8))
    merge(two, sort=SORT, workers=2)
    assert ahead == []
    assert history_bytes(one) == history_bytes(two)
    monkeypatch.setattr(MergePlan, "usable", usable)
    merge(make(tmp_path / "three").layout, sort=SORT, workers=2)
    assert ahead != []
