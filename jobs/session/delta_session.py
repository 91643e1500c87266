"""Delta Lake in the Spark session, for streams in Spark with a quarantine: pinned jars and settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = "4.4.0"
PACKAGE = f"io.delta:delta-spark_4.2_2.13:{VERSION}"
NAMES = (
    "delta-spark_4.2_2.13",
    "delta-storage",
    "delta-kernel-api",
    "delta-kernel-defaults",
    "delta-kernel-unitycatalog",
)
JARS = tuple(Artifact("io.delta", name, VERSION, alone=True) for name in NAMES)  # the rest comes with Spark
CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # the log of a small table, read by one task
    "spark.sql.shuffle.partitions": "2",
}
_WHY = "Spark writes rejected rows to a Delta table"
_HINT = (
    "run `sparkhaven jars` once with network access; or run `ingest STREAM.toml --once --local`; or set"
    " [bad_rows] max_rows = 0: then a bad row stops its batch"
)


def delta_conf(fs: Fs, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of a session with Delta; its jars are fetched unless they are in the cache.

    SettingsError when they cannot be fetched. Under spark-submit they come from ``--packages``.
    """
    if "PYSPARK_GATEWAY_PORT" in environ:
        return dict(CONF)
    try:
        found = delta_jars(fs, environ)
    except SettingsError as error:
        raise SettingsError(
            f"{_WHY}: {error.what}", where=error.where, expected=error.expected, found=error.found, hint=_HINT
        ) from error
    return CONF | {"spark.jars": ",".join(map(str, found))}


def delta_jars(fs: Fs, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Delta's jars in the cache, fetched if they are missing. SettingsError when they cannot be fetched."""
    return jars(fs, f"delta-{VERSION}", JARS, environ)


def require_delta(spark: SparkSession) -> None:
    """SettingsError if the session lacks Delta's classes, as in a job that is submitted without them."""
    from importlib.util import find_spec

    from py4j.java_gateway import JavaClass

    if find_spec("delta") is None:
        raise SettingsError(
            f"{_WHY}, and the Python package of Delta is not installed",
            expected=f"delta-spark {VERSION}",
            hint="install it beside pyspark, or set [bad_rows] max_rows = 0",
        )
    if not isinstance(spark._jvm.io.delta.tables.DeltaTable, JavaClass):
        raise SettingsError(
            f"{_WHY}, and this Spark session has no Delta",
            where="spark.jars.packages",
            expected=PACKAGE,
            hint=f'submit the job with --jars "$(sparkhaven jars | paste -sd,)" or --packages {PACKAGE}; or set '
            "[bad_rows] max_rows = 0",
        )
