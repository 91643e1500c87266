"""Which of the two sources reads the batches of a data frame, and tests that run over both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from sparkhaven.jobs.session.spark_jar import SETTING

Source = Literal["java", "python"]


def sources_of(frame: DataFrame) -> set[Source]:
    """Who reads the tables of a query, from its plan: Python's has the name of the format, Java's that of the table."""
    lines = frame._jdf.queryExecution().optimizedPlan().toString().splitlines()
    return {"python" if "] deephaven" in line else "java" for line in lines if "RelationV2" in line}


@contextmanager
def reader_of(spark: SparkSession, reader: str) -> Iterator[None]:
    """The session's setting, for a while."""
    before = spark.conf.get(SETTING, None)
    spark.conf.set(SETTING, reader)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(SETTING)
        else:
            spark.conf.set(SETTING, before)
