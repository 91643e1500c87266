"""``spark.read`` of the log tables: the rows that the run and the commands have written. Real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, TimestampType

from sparkhaven.jobs.monitor.logs.log_tables import EPOCH, LOG_TABLES
from tests.support.commands import run
from tests.support.streams.log_rows import rows_of
from tests.unit.jobs.streams.test_once_here import make, put

pytestmark = pytest.mark.spark


def load(spark: SparkSession, root: Path, name: str) -> DataFrame:
    return spark.read.format("deephaven").option("root", str(root)).load(f"SparkhavenInternal.{name}")


def test_spark_reads_the_epoch_log(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    root, file = tmp_path / "db", make(tmp_path)
    for number in (1, 2):
        put(tmp_path, number)
    assert run(root, "ingest", file, "--once").exit_code == 0
    frame = load(spark, root, "EpochLog")
    assert [type(frame.schema[name].dataType) for name in ("Timestamp", "Epoch")] == [TimestampType, LongType]
    seen = frame.orderBy("Epoch").select("Namespace", "TableName", "Stream", "Epoch", "Kind", "Rows").collect()
    assert [tuple(row) for row in seen] == [
        ("Test", "Event", "s", 1, "commit", 1),
        ("Test", "Event", "s", 2, "commit", 1),
    ]
    (only,) = frame.where((f.col("Epoch") == 2) & (f.col("Stream") == "s")).collect()
    assert (frame.count(), frame.where("Epoch = 1").count(), frame.count()) == (2, 1, 2)
    other = rows_of(root, EPOCH)[1]
    assert {name: only[name] for name in ("QueryId", "SchemaId", "Date", "Locations", "Generation")} == {
        name: other[name] for name in ("QueryId", "SchemaId", "Date", "Locations", "Generation")
    }
    assert only["Timestamp"].timestamp() == pytest.approx(other["Timestamp"].timestamp(), abs=1e-5)


def test_spark_reads_every_log_table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    root, file = tmp_path / "db", make(tmp_path)
    put(tmp_path, 1)
    assert run(root, "ingest", file, "--once").exit_code == 0
    read = 0
    for table in LOG_TABLES:
        if (root / "Intraday" / "SparkhavenInternal" / table.name).exists():
            frame, rows = load(spark, root, table.name), len(rows_of(root, table))
            counts = frame.count(), frame.where("Timestamp < timestamp'2000-01-01'").count(), frame.count()
            assert counts == (rows, 0, rows), table.name
            read += 1
    assert read >= 2
