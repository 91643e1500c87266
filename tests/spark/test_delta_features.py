"""Tables that a real Delta makes with deletion vectors: the rows that a feed takes are those that Spark reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.ingest.delta.rows import taken
from tests.support.spark.delta_features import LIVE, make_tables

pytestmark = pytest.mark.spark


def test_large_vectors_and_files_of_another_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = make_tables(spark, tmp_path, LIVE)
    for name, expected in rows.items():
        got = sorted(row["id"] for row in taken(tmp_path / name, id="long"))
        assert got == [row[0] for row in expected]
    assert len(rows["large"]) == 203_331 and len(rows["clone"]) == len(rows["large"]) + 1
