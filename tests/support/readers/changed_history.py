"""A merged date of which commands change the history, and what readers have of it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sparkhaven.readers import Snapshot
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import GRACE_S, clean
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY
from tests.support.writers.merge_runs import FS

NAME = "Test.Sizes"
SCHEMA = b"""<Table namespace="Test" name="Sizes" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String" columnType="Grouping"/>
  <Column name="Size" dataType="int"/>
</Table>
"""
Rows = Counter[tuple[str, int]]

CHANGES = {  # with the date in intraday no more, and whether rows of history are others then
    "detach": (("dates", "detach", NAME, "--dates", DAY, "--out", "{out}"), True),
    "drop": (("dates", "drop", NAME, "--dates", DAY), True),
    "rows": (("delete-rows", NAME, "--dates", DAY, "--where", "Size = 3"), True),
    "column": (("rewrite-column", NAME, "--dates", DAY, "--set", "Size = Size + 1000"), True),
    "exchange": (("rewrite-column", NAME, "--dates", DAY, "--set", "Size = 11 - Size"), True),  # among the rows
    "rule": (("merge", NAME, "--dates", DAY, "--dedupe", "Sym", "--keep", "first"), True),
    "import": (("import", NAME, "--from", "{tree}", "--replace"), True),
    "move": (("dates", "move", NAME, "--dates", DAY, "--to", "0"), False),
    "rewrite": (("merge", NAME, "--dates", DAY, "--rewrite"), False),
}


def table_of(sizes: range) -> pa.Table:
    return pa.table({"Sym": [f"S{size % 3}" for size in sizes], "Size": pa.array(sizes, pa.int32())})


def rows_of(table: Snapshot, tier: str = "all") -> Rows:
    columns = table.to_arrow(["Sym", "Size"], tier=tier).to_pydict()
    assert table.count(tier=tier) == len(columns["Sym"])
    return Counter(zip(columns["Sym"], columns["Size"], strict=True))


def merged(root: Path, *, removed: bool = True) -> IntradayRows:
    db = IntradayRows(root, SCHEMA, fs=FS)
    db.commit({("a", DAY): table_of(range(12))})
    for number in range(2):
        add_partition(FS, db.layout, "Test", str(number))
    done(root, "merge", NAME, "--dates", DAY)
    if removed:
        done(root, "truncate", NAME, "--dates", DAY)
        done(root, "delete", NAME, "--dates", DAY, "--grace", "0")
    return db


def done(root: Path, *words: str) -> None:
    result = run(root, *words)
    assert result.exit_code == 0, result.output


def filled(words: tuple[str, ...], tmp_path: Path) -> list[str]:
    """The words with directories; a tree to import is written."""
    tree = tmp_path / "tree" / f"Date={DAY}"
    tree.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(range(100, 105)), tree / "part.parquet")
    return [word.format(out=tmp_path / "out", tree=tmp_path / "tree") for word in words]


def without_replaced(db: IntradayRows) -> None:
    clean(TablePlace(FS, db.layout, db.table), lambda: time.time() + GRACE_S + 60)
