"""The pipelines of a team with Spark: a source or function of Spark's own, and a sink of Parquet or Delta.

Each runs in the ways of ``benchmarks.peers``, of which the fastest counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.feeds.trades import AVRO_SCHEMA, MESSAGE, SOURCES, SPARK_FIELDS
from benchmarks.peers import AS_IT_COMES, consumer, session, streamed
from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.store.io.fs import Fs
from tests.support.kafka.connector_jars import VERSION, connector_jars

FUNCTIONS = {"avro": "spark-avro", "protobuf": "spark-protobuf"}  # jars with from_avro and from_protobuf


def function_jars(fs: Fs, form: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The jar of Spark's function for a format, fetched if it is missing. SettingsError when it cannot be."""
    if form not in FUNCTIONS:
        return []
    name = FUNCTIONS[form]
    return jars(fs, f"{name}-{VERSION}", [Artifact("org.apache.spark", f"{name}_2.13", VERSION, alone=True)], environ)


def session_of(form: str, sink: str, way: str) -> SparkSession:
    """A session that can read the feed and write to the sink."""
    classes = function_jars(Fs(), form)
    if form in FUNCTIONS:
        classes += connector_jars(Fs())
    return session(way, classes, delta="delta" in (form, sink))


def parsed(spark: SparkSession, form: str, work: Path, bootstrap: str, rows: int, way: str) -> DataFrame:
    """The rows of a feed, ``rows`` a trigger."""
    if form in FUNCTIONS:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        source = source.option("subscribe", form).option("startingOffsets", "earliest")
        values = source.option("maxOffsetsPerTrigger", str(rows)).options(**consumer(way)).load()
        return values.select(_from_payload(form, work).alias("row")).select("row.*")
    source = spark.readStream.option("maxFilesPerTrigger", str(SOURCES))
    if form == "delta":
        return source.format("delta").load(str(work / "delta-feed"))
    source = source.schema(SPARK_FIELDS).option("header", "true")
    feed = str(work / f"{form}-feed")
    return source.csv(feed) if form == "csv" else source.parquet(feed)


def _from_payload(form: str, work: Path) -> f.Column:
    if form == "avro":
        from pyspark.sql.avro.functions import from_avro

        return from_avro("value", AVRO_SCHEMA)
    from pyspark.sql.protobuf.functions import from_protobuf

    return from_protobuf("value", MESSAGE, str(work / "trade.desc"))


def run_peer(work: Path, form: str, sink: str, way: str, bootstrap: str, rows: int) -> list[float]:
    """Seconds of each trigger."""
    spark = session_of(form, sink, way)
    rows_ = parsed(spark, form, work, bootstrap, rows, way)
    seconds = streamed(rows_, sink, work, sink_directory(form, sink, way))
    spark.stop()
    return seconds


def sink_directory(form: str, sink: str, way: str) -> str:
    """Name of the directory that a path writes to."""
    return f"{form}-{sink}-{way.replace(' ', '-')}"


def write_delta(work: Path, triggers: int) -> list[float]:
    """The Delta table that is a feed: a version for each two files of the Parquet feed."""
    spark = session_of("delta", "delta", AS_IT_COMES)
    files = sorted(str(path) for path in (work / "parquet-feed").iterdir())
    for first in range(0, SOURCES * triggers, SOURCES):
        rows = spark.read.schema(SPARK_FIELDS).parquet(*files[first : first + SOURCES])
        rows.write.format("delta").mode("append").save(str(work / "delta-feed"))
    spark.stop()
    return []
