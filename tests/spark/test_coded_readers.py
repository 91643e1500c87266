"""Spark shows types with a codec as all other readers do."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from tests.contracts.coded_readers import CODED_NAME, CodedReaderContract

pytestmark = pytest.mark.spark


class TestSparkBatch(CodedReaderContract):
    @pytest.fixture(autouse=True)
    def _registered(self, spark: SparkSession) -> None:
        sparkhaven.register(spark)
        self.spark = spark

    def frame(self, root: Path) -> DataFrame:
        """Characters as numbers: Spark has none."""
        return self.spark.read.format("deephaven").options(root=str(root), char="int").load(CODED_NAME)

    def read(self, root: Path) -> pa.Table:
        return self.frame(root).toArrow()

    def read_date(self, root: Path, day: str) -> pa.Table:
        return self.frame(root).where(f"Date = '{day}'").toArrow()
