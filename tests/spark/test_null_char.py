"""Spark reads the null of char that an option names, in each tier and format. Real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.support.tables.null_chars import COUNT, FORMS, NAME, OLD, Rows, rows_with, table_in

pytestmark = pytest.mark.spark

NULL = pytest.mark.parametrize(("options", "null"), [({"nullChar": "0xFFFE"}, None), ({}, OLD)])


def rows_of(frame: DataFrame) -> Rows:
    return [(row.C, row.Cs) for row in frame.orderBy("N").collect()]


@NULL
@pytest.mark.parametrize("form", FORMS)
def test_batch_and_stream(
    spark: SparkSession, tmp_path: Path, form: str, options: dict[str, str], null: int | None
) -> None:
    db = table_in(tmp_path / "db", form, rows_with(OLD))
    given = {"root": str(db.root), "char": "int", **options}
    nulls = COUNT // 2 if null is None else 0
    for reader in ("auto", "python"):
        frame = spark.read.format("deephaven").options(**given, reader=reader).load(NAME)
        assert rows_of(frame) == rows_with(null)
        for condition, count in (
            ("C is null", nulls),
            ("C is not null", COUNT - nulls),
            (f"C = {OLD}", COUNT // 2 - nulls),
        ):
            for _ in range(2):
                assert frame.where(condition).count() == count, condition
        assert frame.agg(f.count("C")).first()[0] == COUNT - nulls
    source = spark.readStream.format("deephaven").options(**given).load(NAME)
    query = source.writeStream.format("memory").queryName("chars").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    assert rows_of(spark.table("chars")) == rows_with(null)
