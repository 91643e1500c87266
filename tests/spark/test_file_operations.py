"""Spark reads history where it stands after every ordinary file operation, by both readers. Real Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.moves.operations import OPERATIONS, TABLE, Spot, database

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::sparkhaven.store.errors.HistoryWarning")]


def test_spark_reads_what_stands(spark: SparkSession, tmp_path: Path) -> None:
    original = database(tmp_path / "original")
    wrong = {}
    for number, row in enumerate(row for row in OPERATIONS if row.rows is not None):
        base = tmp_path / str(number)
        shutil.copytree(original, base / "db", symlinks=True)
        root = row.do(Spot(base / "db", base / "other"))
        for reader in ("auto", "python"):
            frame = spark.read.format("deephaven").options(root=str(root), reader=reader).load(TABLE)
            values = [line.X for line in frame.collect()]
            if sorted(values, key=lambda value: (value is not None, value)) != row.rows:
                wrong[row.name, reader] = values
    assert wrong == {}
