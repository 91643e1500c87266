"""What tests of the quarantine need of a real Delta.

A quarantine that Spark's own Delta writes, as earlier releases did: ours go on from its tables, also at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.rejected_rows import REJECTED
from sparkhaven.writers.quarantine.changes import created
from sparkhaven.writers.quarantine.row_choice import COLUMNS, KEY, OWNER, Chosen, QuarantinedRow
from sparkhaven.writers.quarantine.table import Quarantine
from sparkhaven.writers.spark.spark_tasks import local_uri
from sparkhaven.writers.task import RejectedFile
from tests.support.streams.stream_kit import STREAM, TABLE

_TYPES = {"string": "string", "int64": "bigint", "binary": "binary", "timestamp[us, tz=UTC]": "timestamp"}
REJECTED_DDL = ", ".join(f"`{field.name}` {_TYPES[str(field.type)]}" for field in REJECTED)


def local_pattern(path: Path) -> str:
    """A path for Spark's file formats, which treat paths as patterns: special characters are escaped."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", local_uri(path))


class SparkQuarantine(Quarantine):
    """``spark`` is a session with Delta."""

    def __init__(self, spark: SparkSession, *owner: Any, **settings: Any) -> None:
        super().__init__(*owner, **settings)
        self._spark = spark

    def add(self, files: Sequence[RejectedFile], epoch: int) -> None:
        """Adds the rejected rows of a batch, those of a retry once."""
        spark = self._spark
        rejected = spark.read.schema(REJECTED_DDL).parquet(*(local_pattern(file.path) for file in files))
        values = {name: f.lit(value) for name, value in zip(OWNER, self._owner, strict=True)}
        values |= {field.name: f.col(field.name) for field in REJECTED}
        values |= {"Epoch": f.lit(epoch), "Time": f.timestamp_micros(f.lit(round(self._clock() * 1e6)))}
        rows = rejected.select(
            *(values.get(field.name, f.lit(None)).cast(_TYPES[str(field.type)]).alias(field.name) for field in COLUMNS)
        )
        with self._locked():
            if not self.exists:
                self._change("CREATE TABLE", lambda snapshot: created(snapshot, self._now_ms()))
            if self.announce(epoch):
                rows.write.format("delta").mode("append").save(local_uri(self.directory))
            else:
                merge = (
                    DeltaTable.forPath(spark, local_uri(self.directory))
                    .alias("t")
                    .merge(rows.alias("s"), self._match())
                )
                merge.whenNotMatchedInsertAll().execute()

    def _match(self) -> str:
        owner = (f"t.{name} = '{value}'" for name, value in zip(OWNER, self._owner, strict=True))
        return " AND ".join((*owner, *(f"t.{name} <=> s.{name}" for name in KEY)))


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
