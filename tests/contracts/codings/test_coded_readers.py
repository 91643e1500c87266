"""Readers without a JVM show types with a codec alike; Spark does in ``tests/spark``, an engine in
``tests/deephaven``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven import sql
from sparkhaven.readers import open_table
from sparkhaven.readers.arrow.export import export as export_file
from tests.contracts.codings.coded_readers import (
    CODED_NAME,
    CodedReaderContract,
    coded_rows_of,
)
from tests.support.commands import run
from tests.support.writers.export_cases import by_duckdb, by_pyarrow


class TestArrow(CodedReaderContract):
    def read(self, root: Path) -> pa.Table:
        return open_table(root, CODED_NAME).to_arrow()

    def read_date(self, root: Path, day: str) -> pa.Table:
        return open_table(root, CODED_NAME).to_arrow(dates=[day])


class TestBatches(CodedReaderContract):
    """In batches of a few rows, as they go to a file."""

    def read(self, root: Path, **chosen: object) -> pa.Table:
        batches = open_table(root, CODED_NAME).to_batches(batch_rows=4, dictionaries=False, **chosen)
        path = root.parent / "out.parquet"
        export_file(batches, path)
        return pq.read_table(path)

    def read_date(self, root: Path, day: str) -> pa.Table:
        return self.read(root, where=f"Date = '{day}'")


class TestSql(CodedReaderContract):
    def read(self, root: Path) -> pa.Table:
        return sql(root, f"SELECT * FROM {CODED_NAME}")

    def read_date(self, root: Path, day: str) -> pa.Table:
        return sql(root, f"SELECT * FROM {CODED_NAME} WHERE Date = '{day}'")


class ExportContract(CodedReaderContract):
    """Trees of Parquet files as PyArrow reads them, and as DuckDB does but for decimals of more than 38 digits."""

    layout: ClassVar[str]

    def read(self, root: Path, *words: str) -> pa.Table:
        out = root.parent / "-".join((self.layout, *words))
        done = run(root, "export", CODED_NAME, "--layout", self.layout, "--out", str(out), *words)
        assert done.exit_code == 0, done.stderr
        found = by_pyarrow(out, self.layout)
        names = [name for name in self.names if name != "Wide"]
        assert coded_rows_of(by_duckdb(out, self.layout), names) == coded_rows_of(found, names)
        return found

    def read_date(self, root: Path, day: str) -> pa.Table:
        return self.read(root, "--date", day)


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
