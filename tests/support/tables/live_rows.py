"""Rows of tables that are read live: what is expected, what comes next, and what goes."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from tests.support.streams.stream_logs import open_stream_log
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import ARROW, DAY, as_table, comparable, random_row

NOW = 1_700_000_000.0
SMALL = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/><Column name="Epoch" dataType="long"/>
  <Column name="Note" dataType="String" symbolTable="None"/></Table>"""


def rows_of(attached: Any, *, page: int = 1 << 18) -> list[tuple[Any, ...]]:
    columns = [[comparable(value) for value in attached.column(name, page=page)] for name in ARROW]
    return sorted(zip(*columns, strict=True), key=repr)


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(comparable(value) for value in row.values()) for row in rows), key=repr)


def more(db: IntradayRows, rows: list[dict[str, Any]], number: int, source: str = "a", day: str = DAY) -> None:
    fresh = [random_row(random.Random(len(rows) + n)) for n in range(number)]
    db.commit({(source, day): as_table(fresh)})
    rows += fresh


def remove(db: IntradayRows, *, also_delete: bool = True) -> None:
    truncate(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW)
    if also_delete:
        delete(States(db.place), proof=prove(db.place, DAY), clock=lambda: NOW + 4000)


def compact(db: IntradayRows) -> None:
    """Replaces the log by a shorter one."""
    db.log.close()
    place = db.place
    db.log = open_stream_log(place, db.schema, clock=lambda: NOW + db.batch, keep_epochs=0)
    assert db.log.compact_if_due(now=True)


def small(rows: int, epoch: int) -> pa.Table:
    return pa.table({"Sym": [f"s{epoch}"] * rows, "Epoch": [epoch] * rows, "Note": [f"n{epoch}"] * rows})
