"""What tests of the quarantine need of a real Delta."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.writers.quarantine.quarantine_columns import COLUMNS, QuarantinedRow
from sparkhaven.writers.quarantine.row_choice import Chosen
from sparkhaven.writers.quarantine.table import Quarantine
from tests.support.spark.delta_writer import SparkQuarantine
from tests.support.streams.stream_kit import STREAM, TABLE

NOW = 1_000_000.25


def quarantine(root: Path, fs: Fs | None = None, clock: Callable[[], float] | None = None) -> Quarantine:
    """The quarantine of the test stream at its default place."""
    layout = Layout(root)
    return Quarantine(
        StreamPlace(fs or Fs(), layout, TABLE, STREAM),
        layout.quarantine(STREAM),
        clock=clock or (lambda: NOW),
        file="s.toml",
    )


def spark_quarantine(spark: SparkSession, root: Path) -> SparkQuarantine:
    """The same, written by Delta's own writer."""
    layout = Layout(root)
    place = StreamPlace(Fs(), layout, TABLE, STREAM)
    return SparkQuarantine(spark, place, layout.quarantine(STREAM), clock=lambda: NOW, file="s.toml")


def spark_rows(spark: SparkSession, place: Path) -> list[dict[str, Any]]:
    """All rows of a quarantine as Spark's Delta reads them, by source and position."""
    rows = spark.read.format("delta").load(str(place)).orderBy("SourcePartition", "Position", "SourceTime").collect()
    return [{name: bytes(v) if isinstance(v, bytearray) else v for name, v in row.asDict().items()} for row in rows]


def same_for_spark(spark: SparkSession, quarantined: Quarantine) -> list[QuarantinedRow]:
    """All rows of a quarantine, which are the same as Spark's Delta reads them."""
    rows = sorted(
        quarantined.rows(Chosen()), key=lambda row: (row["SourcePartition"], row["Position"], row["SourceTime"] or -1)
    )
    assert [_comparable(row) for row in rows] == [_comparable(row) for row in spark_rows(spark, quarantined.directory)]
    return rows


def _comparable(row: Mapping[str, Any]) -> list[Any]:
    return [value.timestamp() if hasattr(value := row[name], "timestamp") else value for name in COLUMNS.names]


def places(quarantined: Quarantine, chosen: Chosen = Chosen()) -> list[tuple[str, int, int, int | None]]:  # noqa: B008
    """File, line, epoch and epoch of the requeue of every row."""
    rows = quarantined.rows(chosen)
    return [(Path(r["SourcePartition"]).name, r["Position"], r["Epoch"], r["RequeuedEpoch"]) for r in rows]
