"""Small tables in two sources, merged without waiting for the disk."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from sparkhaven.store.format.index.tlmi import decode_tlmi
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.date_merges import merge_dates
from sparkhaven.writers.merge.date_result import DateResult
from sparkhaven.writers.merge.executor import LocalExecutor
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.partitions import add_partition
from tests.support.disks.contents import hidden
from tests.support.disks.model_fs import QuickFs
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table, comparable, random_row

FS = QuickFs()


def make(root: Path, number: int, *, seed: int = 1, partitions: int = 2) -> tuple[IntradayRows, list[dict[str, Any]]]:
    """Rows in two sources; returned in tie order."""
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(number)]
    cut = number // 3
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): as_table(rows[: cut // 2]), ("b", DAY): as_table(rows[cut:])})
    db.commit({("a", DAY): as_table(rows[cut // 2 : cut])})
    for name in range(partitions):
        add_partition(FS, db.layout, "Test", str(name))
    return db, rows


def merge(
    layout: Layout, *values: str, table: TableName = TABLE, fs: Fs = FS, workers: int = 1, **options: Any
) -> list[DateResult]:
    chosen = MergeOptions(**options)
    executor = LocalExecutor(workers)
    days = values or (DAY,)
    results = list(
        merge_dates(TablePlace(fs, layout, table), days, chosen, executor=executor, clock=lambda: 1_700_000_000.0)
    )
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [{k: comparable(v) for k, v in row.items()} for row in found] == [
        {k: comparable(v) for k, v in row.items()} for row in expected
    ]


def history_bytes(layout: Layout) -> dict[str, bytes]:
    """Every file of history by its path below the namespace, without times."""
    base = layout.partitions("Test")
    found = {}
    for path in sorted(base.rglob("*")):
        if path.is_file() and path.name != "table.size":
            found[str(path.relative_to(base))] = path.read_bytes()
    return found


PHASE_STEPS = [
    f"merge-{phase}:{when}"
    for phase in ("plan", "stage", "sync", "check", "publish", "index", "record", "clean")
    for when in ("before", "after")
]


def check_tree(layout: Layout) -> None:
    """Nothing but complete locations that record and index both name; no staging left."""
    record = newest(TablePlace(FS, layout, TABLE), DAY)
    assert record is not None
    base = layout.partitions("Test")
    tree = sorted(p.parent.parent.parent.name for p in base.glob(f"*/{DAY}/Every/table.size"))
    named = sorted(output.internal for output in record.outputs)
    index = sorted(e.key.internal for e in decode_tlmi(layout.metadata_index(TABLE).read_bytes(), "index"))
    assert tree == named == index
    assert [p for p in base.glob("*/*") if not any(p.iterdir())] == []
    assert hidden(layout.system("Test")) == []
