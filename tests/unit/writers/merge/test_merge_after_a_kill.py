"""A merge that finishes a killed one does what it was asked for itself, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.types.model import DedupeRule
from sparkhaven.writers.merge.date_result import MergeOutcome
from tests.support.disks.model_fs import Crash, KillingFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import make, merge

BEFORE = "merge-publish:before"


def killed(root: Path, **options: Any) -> IntradayRows:
    """A table whose merge was killed before it was published."""
    db, _ = make(root, 30)
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at=BEFORE), **options)
    return db


def flags(db: IntradayRows) -> list[Any]:
    return sorted(open_table(db.root, str(TABLE)).to_arrow(["Flag"], tier="history")["Flag"].to_pylist(), key=repr)


def test_the_same_options_make_it_once(tmp_path: Path) -> None:
    db = killed(tmp_path)
    (result,) = merge(db.layout)
    assert (result.outcome, result.generation, result.rows_out) == (MergeOutcome.RESUMED, 1, 30)
    with pytest.raises(Crash):
        merge(db.layout, fs=KillingFs(crash_at=BEFORE), rewrite=True)
    (result,) = merge(db.layout, rewrite=True)
    assert (result.outcome, result.generation) == (MergeOutcome.RESUMED, 2)


def test_another_rule_of_duplicates_holds(tmp_path: Path) -> None:
    db = killed(tmp_path)
    merge(db.layout, dedupe=DedupeRule(("Flag",), "first", None, False))
    assert flags(db) == [False, None, True]


def test_another_format_of_a_merge_anew_holds(tmp_path: Path) -> None:
    db = killed(tmp_path)
    (result,) = merge(db.layout, rewrite=True, format="parquet")
    assert (result.outcome, result.format, result.rows_out) == (MergeOutcome.MERGED, "parquet", 30)


def test_rows_that_came_since_are_merged(tmp_path: Path) -> None:
    db = killed(tmp_path)
    rows = as_table([dict.fromkeys(as_table([]).column_names) | {"L": 7}])
    db.commit({("a", DAY): rows})
    (result,) = merge(db.layout)
    assert (result.outcome, result.rows_out) == (MergeOutcome.SUPPLEMENT, 1)
    assert open_table(db.root, str(TABLE)).count(tier="history") == 31
