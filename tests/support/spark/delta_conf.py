"""Settings of a Spark session that has Delta."""

from __future__ import annotations

from sparkhaven.jobs.session.jars import delta_jars
from sparkhaven.store.io.fs import Fs

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # the log of a small table, read by one task
    "spark.sql.shuffle.partitions": "2",
}


def delta_conf(fs: Fs) -> dict[str, str]:
    """With Delta's jars, fetched if they are missing; SettingsError when they cannot be fetched."""
    return CONF | {"spark.jars": ",".join(map(str, delta_jars(fs)))}
