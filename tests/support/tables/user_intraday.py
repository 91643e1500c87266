"""Intraday data of a user table as another program appends it: locations with their own definition and size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

from sparkhaven import save_table
from sparkhaven.store.layout import LocationKey
from tests.support.tables.intraday_rows import IntradayRows

NAME = "IntradayUser"
SCHEMA = b"""<Table namespace="me" name="T" storageType="NestedPartitionedOnDisk">
  <Column name="Day" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/><Column name="Text" dataType="String"/>
</Table>"""
SAVED, BOTH, LIVE = "2026-01-01", "2026-01-02", "2026-01-03"


def rows(day: str, *numbers: int) -> pa.Table:
    """Rows of a date, one a number."""
    numbered = {"N": pa.array(numbers, pa.int64()), "Text": [f"t{number}" for number in numbers]}
    return pa.table({"Day": [day] * len(numbers), **numbered})


class UserIntraday:
    """A user table ``me.T`` with two saved dates, and a program that appends to its intraday data."""

    def __init__(self, root: Path) -> None:
        self.root, self.location = root, root / NAME / "me" / "T"
        self._db = IntradayRows(root.with_name(f"{root.name}-program"), SCHEMA)
        saved = pa.concat_tables([rows(SAVED, 1, 2), rows(BOTH, 3)])
        save_table(root, "me.T", saved, partition_by="Day")

    def append(self, internal: str, day: str, *numbers: int) -> Path:
        """Data is written before the size that names it."""
        self._db.commit({(internal, day): rows(day, *numbers).drop_columns(["Day"])})
        written = self._db.layout.intraday_location(self._db.table, LocationKey(internal, day))
        there = self.location / internal / day / "T"
        there.mkdir(parents=True, exist_ok=True)
        for path in sorted(written.iterdir(), key=lambda path: path.name == "table.size"):
            if not path.name.startswith("."):
                shutil.copyfile(path, there / f".{path.name}")
                (there / f".{path.name}").replace(there / path.name)
        return there
