"""Readers without a JVM show one snapshot alike; Spark does in ``tests/spark``, an engine in ``tests/deephaven``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven import sql
from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.export import export as export_file
from tests.contracts.readers.snapshot_readers import COLUMNS, NAME, RENAMED, TYPES, SnapshotReaderContract, rows_of
from tests.support.commands import run
from tests.support.tables.live_tables import NULLS, Engine
from tests.support.writers.export_cases import by_duckdb, by_pyarrow


class TestArrow(SnapshotReaderContract):
    def read(self, root: Path) -> pa.Table:
        return open_table(root, NAME).to_arrow(COLUMNS)

    def read_date(self, root: Path, date: str) -> pa.Table:
        return open_table(root, NAME).to_arrow(COLUMNS, dates=[date])

    def count(self, root: Path) -> int:
        return open_table(root, NAME).count()


class TestBatches(SnapshotReaderContract):
    """In batches of a few rows, as they go to a file."""

    def read(self, root: Path, **chosen: object) -> pa.Table:
        batches = open_table(root, NAME).to_batches(COLUMNS, batch_rows=4, dictionaries=False, **chosen)
        path = root.parent / "out.parquet"
        export_file(batches, path)
        return pq.read_table(path)

    def read_date(self, root: Path, date: str) -> pa.Table:
        return self.read(root, where=f"Date = '{date}'")

    def count(self, root: Path) -> int:
        return len(self.read(root))


class TestSql(SnapshotReaderContract):
    def read(self, root: Path) -> pa.Table:
        return sql(root, f"SELECT * FROM {NAME}")

    def read_date(self, root: Path, date: str) -> pa.Table:
        return sql(root, f"SELECT * FROM {NAME} WHERE Date = '{date}'")

    def count(self, root: Path) -> int:
        return int(sql(root, f"SELECT count(*) AS n FROM {NAME}")["n"][0].as_py())


class ExportContract(SnapshotReaderContract):
    """Trees of Parquet files, as DuckDB and PyArrow read them."""

    layout: ClassVar[str]

    def read(self, root: Path, *words: str) -> pa.Table:
        out = root.parent / "-".join((self.layout, *words))
        done = run(root, "export", NAME, "--layout", self.layout, "--out", str(out), *words)
        assert done.exit_code == 0, done.stderr
        found = by_duckdb(out, self.layout)
        assert rows_of(by_pyarrow(out, self.layout)) == rows_of(found)
        return found

    def read_date(self, root: Path, date: str) -> pa.Table:
        return self.read(root, "--date", date)

    def count(self, root: Path) -> int:
        return len(self.read(root))


@pytest.mark.slow
class TestNestedTree(ExportContract):
    layout = "nested"


@pytest.mark.slow
class TestFlatTree(ExportContract):
    layout = "flat"


@pytest.mark.slow
class TestKeyValueTree(ExportContract):
    layout = "kv"


@pytest.mark.slow
class TestMetadataTree(ExportContract):
    layout = "metadata"


@pytest.mark.slow
class TestHiveTree(ExportContract):
    layout = "hive"


class TestLiveTables(SnapshotReaderContract):
    """What an engine is given, place by place."""

    def read(self, root: Path, date: str | None = None) -> pa.Table:
        attached = Engine(root, NAME).attach(NAME.replace(".", "_"))
        assert not attached.errors
        dates = [attached.values[place] for place, rows in attached.sizes.items() for _ in range(rows)]
        columns = {}
        for name, kind in TYPES.items():
            null = NULLS.get("B" if name == RENAMED else "I" if pa.types.is_int32(kind) else name)
            columns[name] = pa.array([None if value == null else value for value in attached.column(name)], kind)
        table = pa.table({"Date": dates, **columns})
        return table if date is None else table.filter(pa.compute.equal(table["Date"], date))

    def read_date(self, root: Path, date: str) -> pa.Table:
        return self.read(root, date)

    def count(self, root: Path) -> int:
        return Engine(root, NAME).attach(NAME.replace(".", "_")).count
