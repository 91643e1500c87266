"""Two small tables with trees beside their history, at the same three times as the table of ``story``.

Three dates of each are intraday; the first is merged in the older tree, one more at each later time.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sparkhaven.store.layout import TableName
from tests.support.tables.intraday_rows import IntradayRows

META, HIVE = TableName("Test", "Meta"), TableName("Test", "Hive")
LAYOUTS = {META: "parquet:metadata", HIVE: "coreplus:hive"}
SCHEMA = """<Table namespace="Test" name="{name}" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
  <Column name="Sym" dataType="String"/>
  <ExtendedStorage type="{kind}"/>
</Table>
"""


def add_tables(root: Path, dates: tuple[str, ...]) -> None:
    """Deploys both tables and commits rows of each date."""
    for table, kind in LAYOUTS.items():
        db = IntradayRows(root, SCHEMA.format(name=table.table, kind=kind).encode())
        for number, date in enumerate(dates):
            numbers = range(number * 100, number * 100 + 50)
            db.commit({("a", date): pa.table({"N": pa.array(numbers, pa.int64()), "Sym": [f"s{n}" for n in numbers]})})
        db.log.close()
