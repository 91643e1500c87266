"""Spark's Kafka connector into a table by ``deephaven_writer``, as a program that can be killed.

``python -m tests.support.kafka.connector_job BOOTSTRAP TOPIC BASE endless|once`` reads with a checkpoint in ``BASE``;
with ``once`` it takes what is there, then removes the checkpoint and begins once more at the earliest offsets, in
batches of another size.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparkhaven.jobs.dataframes.frame_writer import FrameWriter, deephaven_writer
from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.store.io.fs import Fs
from tests.support.kafka.connector_jars import connector_conf

SCHEMA = b"""<Table namespace="Test" name="Trade" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
  <Column name="Text" dataType="String"/>
  <Column name="Raw" dataType="String" symbolTable="None"/>
  <Column name="KafkaPartition" dataType="int"/>
  <Column name="KafkaOffset" dataType="long"/>
  <Column name="KafkaTimestamp" dataType="Instant"/>
</Table>"""
FIELDS = "Id bigint, Text string"


def trades(spark: SparkSession, bootstrap: str, topic: str, per_batch: int) -> DataFrame:
    """Messages with fields of their payload, and where they stand."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    source = spark.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", str(per_batch)).load()
    text = f.col("value").cast("string")
    return source.select(
        f.from_json(text, FIELDS).alias("fields"),
        text.alias("Raw"),
        "topic",
        f.col("partition").alias("KafkaPartition"),
        f.col("offset").alias("KafkaOffset"),
        f.col("timestamp").alias("KafkaTimestamp"),
    ).select("fields.*", "Raw", "topic", "KafkaPartition", "KafkaOffset", "KafkaTimestamp")


def writer_of(base: Path) -> FrameWriter:
    """The writer; the topic is a position only."""
    return deephaven_writer(
        base / "db",
        "Test.Trade",
        "connector",
        schema=SCHEMA,
        internal="KafkaPartition",
        value={"column": "KafkaTimestamp"},
        positions={"topic": "topic", "partition": "KafkaPartition", "offset": "KafkaOffset"},
    )


def main(bootstrap: str, topic: str, base: Path, how: str) -> None:
    """Runs until it is killed, or until all is taken twice."""
    spark = build_session("connector", workers=2, extra=connector_conf(Fs()))
    checkpoint = base / "checkpoint"
    for per_batch in (100,) if how == "endless" else (100, 350):
        with writer_of(base) as writer:
            stream = trades(spark, bootstrap, topic, per_batch).writeStream.foreachBatch(writer)
            stream = stream.option("checkpointLocation", str(checkpoint))
            stream = stream.trigger(availableNow=True) if how == "once" else stream.trigger(processingTime="0 seconds")
            stream.start().awaitTermination()
        print(f"epoch {writer.epoch}", flush=True)
        shutil.rmtree(checkpoint)
    sys.stdout.flush()
    os._exit(0)  # the JVM ends with its parent; a tidy stop takes seconds


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
