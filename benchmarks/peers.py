"""How Spark's own pipelines run beside ours: each in several ways, of which the fastest counts.

As it comes, with zstd, and tuned: by the parallel collector, without the statistics that Delta takes of each file, and
from Kafka with larger fetches. What a path has written is synced at its end, and each trigger takes its share of that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from sparkhaven.jobs.session.spark_session import build_session
from sparkhaven.store.io.fs import Fs
from tests.support.spark.delta_conf import delta_conf

SINKS = ("parquet", "delta")
AS_IT_COMES, TUNED = "as it comes", "tuned"
CODEC = "spark.sql.parquet.compression.codec"
STOCK_JVM = {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}  # peers compile and collect as Spark does by itself
WAYS: Mapping[str, Mapping[str, str]] = {
    AS_IT_COMES: {},
    "zstd": {CODEC: "zstd"},
    TUNED: {
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.databricks.delta.stats.collect": "false",
    },
}
LARGE_FETCHES = {
    "max.poll.records": "100000",
    "max.partition.fetch.bytes": str(16 << 20),
    "fetch.max.bytes": str(64 << 20),
    "receive.buffer.bytes": str(1 << 20),
}


def session(
    way: str, jars: Iterable[Path] = (), *, delta: bool = False, extra: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """A session of a peer, with these jars and those of Delta if it needs them; ``extra`` settings go before all."""
    conf, classes = {**STOCK_JVM, "spark.sql.shuffle.partitions": "2"}, [str(jar) for jar in jars]
    if delta:
        conf |= delta_conf(Fs())
        classes.append(conf["spark.jars"])
    if classes:
        conf["spark.jars"] = ",".join(classes)
    return build_session("peer", memory="4g", extra={**conf, **WAYS[way], **extra})


def consumer(way: str) -> dict[str, str]:
    """Options of Spark's Kafka source for a way."""
    return {f"kafka.{name}": text for name, text in LARGE_FETCHES.items()} if way == TUNED else {}


def streamed(rows: DataFrame, sink: str, work: Path, name: str) -> list[float]:
    """Seconds of each trigger of a stream into ``work/name``, each with its share of the sync at the end."""
    writer = rows.writeStream.format(sink).option("checkpointLocation", str(work / f"{name}-checkpoint"))
    query = writer.option("path", str(work / name)).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
    share = synced(work / name) / len(seconds)
    return [trigger + share for trigger in seconds]


def synced(path: Path) -> float:
    """Seconds that a file, or all below a directory, takes to be on the disk."""
    begun = time.perf_counter()
    for file in [*(path.rglob("*") if path.is_dir() else ()), path, path.parent]:
        opened = os.open(file, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    return time.perf_counter() - begun


def fastest(seconds_of: Mapping[str, float], name: str) -> float | None:
    """The least seconds of the ways of a peer; None: it did not run."""
    return min((seconds for path, seconds in seconds_of.items() if path.startswith(f"{name}, ")), default=None)
