"""A day on its way from intraday to history: at every station a reader of all tiers sees each row once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.readers import open_table
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, TABLE, as_table, comparable, random_row
from tests.support.writers.merge_runs import make, merge
from tests.support.writers.removals import empty, unlink


def shown(table: pa.Table) -> list[str]:
    """Rows as sorted text, Instants as nanoseconds."""
    columns = {
        name: (table[name].cast(pa.int64()) if pa.types.is_timestamp(table[name].type) else table[name]).to_pylist()
        for name in table.schema.names
        if name != "Date"
    }
    return sorted(str([comparable(v) for v in row]) for row in zip(*columns.values(), strict=True))


def expected(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str([comparable(v) for v in row.values()]) for row in rows)


def read(db: IntradayRows, tier: str = "all") -> list[str]:
    return shown(open_table(db.root, str(TABLE)).to_arrow(tier=tier))


@pytest.mark.slow
def test_each_row_once_at_every_station(tmp_path: Path) -> None:
    rng = random.Random(11)
    db, rows = make(tmp_path, 120)
    other = [random_row(rng) for _ in range(10)]
    db.commit({("a", "2024-03-06"): as_table(other)})

    def check(history: int) -> None:
        assert read(db) == expected(rows + other)
        assert len(read(db, "history")) == history

    check(0)
    merge(db.layout)
    check(120)
    late = [random_row(rng) for _ in range(9)]
    rows += late
    db.commit({("b", DAY): as_table(late)})
    check(120)
    merge(db.layout)  # a supplement
    check(129)
    merge(db.layout, rewrite=True)
    check(129)
    empty(db)
    check(129)
    assert len(read(db, "intraday")) == 10
    unlink(db)
    check(129)
    merge(db.layout, rewrite=True)  # from history
    check(129)
    later = [random_row(rng) for _ in range(4)]
    rows += later
    db.log.close()
    db.log = db.open()
    db.commit({("a", DAY): as_table(later)})  # a new life of a deleted location
    check(129)
    merge(db.layout)
    check(133)
    empty(db)
    check(133)
