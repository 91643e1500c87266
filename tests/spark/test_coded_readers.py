"""Spark shows types with a codec as all other readers do."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from tests.contracts.codings.coded_keys import CodedKeyContract
from tests.contracts.codings.coded_readers import CODED_NAME, CodedReaderContract

pytestmark = pytest.mark.spark


def literal(column: str, text: str) -> str:
    """A value as Spark has it: times are nanoseconds, and decimals of more than 38 digits texts."""
    if column in ("Day", "Far"):
        return f"DATE'{text}'"
    if column in ("Clock", "Short"):
        hours, minutes, seconds = text.split(":")
        return str(int((int(hours) * 60 + int(minutes)) * 60 * 10**9 + Decimal(seconds) * 10**9))
    return f"'{Decimal(text).normalize():f}'" if column == "Wide" else f"{text}BD"


class TestSparkBatch(CodedReaderContract, CodedKeyContract):
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

    def numbers(self, root: Path, column: str, texts: list[str], *, null: bool = False) -> list[int]:
        listed = ", ".join(literal(column, text) for text in texts)
        condition = f"{column} in ({listed})" + (f" or {column} is null" if null else "")
        return [row.N for row in self.frame(root).where(condition).select("N").collect()]
