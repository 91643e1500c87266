"""History in Parquet, as the Spark reader in Java divides it among tasks, and the row groups that it leaves out."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.partitions import add_partition
from tests.support.spark.pushed_queries import Java, Planned, literal
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_runs import FS, merge

pytestmark = pytest.mark.jvm
DAY = "2024-03-05"
SCHEMA = b"""<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/><Column name="Row" dataType="long"/>
  <DataIndex columns="N"/>
</Table>
"""
ROWS, GROUP = 60_000, 7_000
EDGES = [*range(0, ROWS, GROUP), ROWS]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One file with nine row groups; ``N`` is a number of each thousand of rows."""
    db = IntradayRows(tmp_path, SCHEMA, fs=FS)
    noise = random.Random(1)
    rows = {
        "N": [row // 1000 for row in range(ROWS)],
        "Row": [row << 32 | noise.getrandbits(30) for row in range(ROWS)],
    }
    db.commit({("a", DAY): pa.table(rows)})
    add_partition(FS, db.layout, "NS", "0")
    merge(db.layout, DAY, table=db.table, format="parquet", sizes=BlockSizes(group_rows=GROUP))
    (path,) = tmp_path.rglob("T/table.parquet")
    groups = pq.ParquetFile(path).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [
        stop - start for start, stop in pairwise(EDGES)
    ]
    return path


def ranges(edges: list[int]) -> list[tuple[int, int]]:
    return list(zip(edges[::2], edges[1::2], strict=True))


def numbers(answer: dict[str, Any]) -> list[int]:
    return [int(text) >> 32 for (text,) in answer["values"]]


@pytest.mark.parametrize("task_bytes", [1, 100_000, 250_000, 1 << 30])
def test_tasks_end_where_row_groups_do(task_bytes: int, file: Path, java: Java, tmp_path: Path) -> None:
    Planned(tmp_path, java, task_bytes=task_bytes)
    answer = java.ask(columns=["Row"])
    tasks = [ranges(task) for task in answer["tasks"]]
    assert [edge for task in tasks for part in task for edge in part] == [
        edge for pair in pairwise([0, *(task[-1][1] for task in tasks)]) for edge in pair
    ]
    assert {edge for task in tasks for part in task for edge in part} <= set(EDGES)
    expected = {1: 9, 100_000: range(4, 9), 250_000: range(2, 4), 1 << 30: 1}[task_bytes]
    assert len(tasks) == expected or len(tasks) in (expected if isinstance(expected, range) else ())
    assert numbers(answer) == list(range(ROWS))


@pytest.mark.parametrize("task_bytes", [1, 1 << 30])
def test_row_groups_between_rows_that_are_asked_for_are_not_read(
    task_bytes: int, file: Path, java: Java, tmp_path: Path
) -> None:
    Planned(tmp_path, java, task_bytes=task_bytes)
    asked = ["IN", ["N", *(literal(number, "bigint") for number in (3, 8, 30, 59))]]
    metadata = pq.ParquetFile(file).metadata
    data = bytearray(file.read_bytes())
    for group in (2, 3, 5, 6, 7):  # neither the first, nor those of rows 3000, 8000, 30000, 59000
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    file.write_bytes(data)
    answer = java.ask(predicates=[asked], columns=["Row"])
    assert numbers(answer) == [row for row in range(ROWS) if row // 1000 in (3, 8, 30, 59)]
