"""Commits small epochs at odd moments in a process of its own, and notes when each was committed."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from sparkhaven.store.epochs.state.log_values import Batch
from tests.support.tables.intraday_rows import IntradayRows

SCHEMA = b"""<Table namespace="Bench" name="NAME" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/><Column name="Price" dataType="double"/><Column name="Size" dataType="long"/>
</Table>"""
COLUMNS = ["N", "Price", "Size"]
DAY = "2026-11-20"
OWN = "w"  # the source whose location is there
PAUSE_SECONDS = 0.03, 0.17  # between commits: never in step with a cycle
SETTLE_SECONDS = 1.0  # after the first commit, which makes the stream

Kind = Literal["epoch", "source", "date", "stream"]


def schema(name: str) -> bytes:
    """The schema of one table of the benchmark."""
    return SCHEMA.replace(b"NAME", name.encode())


def rows(first: int, count: int) -> pa.Table:
    """``N`` counts up from ``first``; sums of all columns are exact in a double."""
    n = np.arange(first, first + count, dtype=np.int64)
    return pa.table({"N": n, "Price": n % 997 / 4, "Size": n * 7_919 % 10_007})


class TimedRows(IntradayRows):
    """Notes when the commit record was durable: number of the row -> seconds of the machine's monotonic clock."""

    def one(self, number: int, source: str = OWN, value: str = DAY) -> float:
        """Commits one row, and says when."""
        plain, committed = self.log.commit, [0.0]

        def timed(batch: Batch) -> int:
            epoch = plain(batch)
            committed[0] = time.monotonic()
            return epoch

        self.log.commit = timed  # type: ignore[method-assign]
        try:
            self.commit({(source, value): rows(number, 1)})
        finally:
            self.log.commit = plain  # type: ignore[method-assign]
        return committed[0]


def write(root: Path, table: str, plan: Mapping[Kind, int], first: int, pipe: Connection) -> None:
    """After a first row (number 0) so many epochs of each kind in mixed order; sends number -> (kind, time)."""
    chance = random.Random(first)  # noqa: S311  no secret
    db = TimedRows(root, schema(table), stream="writer")
    db.one(0)
    time.sleep(SETTLE_SECONDS)
    times: dict[int, tuple[Kind, float]] = {}
    kinds: list[Kind] = [kind for kind, count in plan.items() for _ in range(count)]
    chance.shuffle(kinds)
    for number, kind in enumerate(kinds, first):
        time.sleep(chance.uniform(*PAUSE_SECONDS))
        if kind == "stream":
            opened = TimedRows(root, schema(table), stream=f"new{number}")
            committed_s = opened.one(number, source=f"s{number}")
            opened.log.close()
        elif kind == "date":
            committed_s = db.one(number, source=f"s{number}", value="2026-11-21")
        else:
            committed_s = db.one(number, source=f"s{number}" if kind == "source" else OWN)
        times[number] = kind, committed_s
    db.log.close()
    pipe.send(times)
