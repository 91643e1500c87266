"""Spark shows types with a codec as all other readers do, whether Java or Python reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import sparkhaven
from tests.contracts.codings.coded_keys import CodedKeyContract
from tests.contracts.codings.coded_readers import CODED_NAME, CodedReaderContract
from tests.support.spark.readers import Source, reader_of, sources_of

pytestmark = pytest.mark.spark

UNFIT = frozenset({"Wide"})  # more digits than Spark's reader of Parquet has, which Java uses for history


def literal(column: str, text: str) -> str:
    """A value as Spark has it: times are nanoseconds, and decimals of more than 38 digits texts."""
    if column in ("Day", "Far"):
        return f"DATE'{text}'"
    if column in ("Clock", "Short"):
        hours, minutes, seconds = text.split(":")
        return str(int((int(hours) * 60 + int(minutes)) * 60 * 10**9 + Decimal(seconds) * 10**9))
    return f"'{Decimal(text).normalize():f}'" if column == "Wide" else f"{text}BD"


class SparkBatchContract(CodedReaderContract, CodedKeyContract):
    """``reader``: who has to read."""

    reader: ClassVar[Source]

    @pytest.fixture(autouse=True)
    def _registered(self, spark: SparkSession) -> Iterator[None]:
        with reader_of(spark, "auto" if self.reader == "java" else "python"):
            sparkhaven.register(spark)
            self.spark = spark
            yield

    def frame(self, root: Path, columns: list[str]) -> DataFrame:
        """Characters as numbers: Spark has none."""
        options = {"root": str(root), "char": "int", "columns": json.dumps(columns)}
        return self.spark.read.format("deephaven").options(**options).load(CODED_NAME)

    def shown(self, root: Path) -> DataFrame:
        """All columns that the reader has to show."""
        frame = self.frame(root, self.names)
        assert sources_of(frame) == {self.reader}
        return frame

    def read(self, root: Path) -> pa.Table:
        return self.shown(root).toArrow()

    def read_date(self, root: Path, day: str) -> pa.Table:
        return self.shown(root).where(f"Date = '{day}'").toArrow()

    def numbers(self, root: Path, column: str, texts: list[str], *, null: bool = False) -> list[int]:
        listed = ", ".join(literal(column, text) for text in texts)
        condition = f"{column} in ({listed})" + (f" or {column} is null" if null else "")
        frame = self.frame(root, ["N", column])
        assert sources_of(frame) == ({"python"} if column in UNFIT else {self.reader})
        return [row.N for row in frame.where(condition).select("N").collect()]


class TestByJava(SparkBatchContract):
    reader = "java"
    lacks = UNFIT


class TestByPython(SparkBatchContract):
    reader = "python"
