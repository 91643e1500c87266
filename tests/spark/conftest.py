"""Tests of reads that run over both readers. ``make test-python-reader`` runs all others a second time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.spark.readers import Source, reader_of


@pytest.fixture(params=["java", "python"])
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Source]:
    """Who reads batches in this test: first the one, then the other one."""
    with reader_of(spark, "auto" if request.param == "java" else "python"):
        yield request.param
