"""Spark shows one snapshot as all other readers do, whether Java or Python reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from tests.contracts.readers.snapshot_readers import NAME, SnapshotReaderContract
from tests.support.spark.readers import Source, sources_of

pytestmark = pytest.mark.spark


class TestSparkBatch(SnapshotReaderContract):
    @pytest.fixture(autouse=True)
    def _registered(self, spark: SparkSession, reader: Source) -> None:
        sparkhaven.register(spark)
        self.spark, self.reader = spark, reader

    def frame(self, root: Path) -> DataFrame:
        """Without loss: Spark has no nanoseconds and no characters."""
        options = {"root": str(root), "instant": "long", "char": "int"}
        frame = self.spark.read.format("deephaven").options(**options).load(NAME)
        assert sources_of(frame) == {self.reader}
        return frame

    def read(self, root: Path) -> pa.Table:
        return self.frame(root).toArrow()

    def read_date(self, root: Path, date: str) -> pa.Table:
        return self.frame(root).where(f"Date = '{date}'").toArrow()

    def count(self, root: Path) -> int:
        return int(self.frame(root).count())
