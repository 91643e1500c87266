"""A table that was dropped, created again and dropped, at the three times of ``story``.

The files of the second one wait for the end of their grace period. In the newer tree they are removed.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparkhaven.store.layout import TableName
from tests.support.tables.intraday_rows import IntradayRows

GONE = TableName("Test", "Gone")
SCHEMA = """<Table namespace="Test" name="{name}" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
  <Column name="Sym" dataType="String"/>
</Table>
"""


def create(root: Path, table: TableName, date: str, numbers: range, source: str = "a") -> None:
    """A table with rows of one date; one that is there gets them too."""
    db = IntradayRows(root, SCHEMA.format(name=table.table).encode())
    texts = [f"s{number}" for number in numbers]
    db.commit({(source, date): pa.table({"N": pa.array(numbers, pa.int64()), "Sym": texts})})
    db.log.close()
