"""Delta's jars for the Spark that is installed: for programs that read the quarantine, a Delta table, with Spark.

No stream needs them. The quarantine is written without Delta's own code, by runs in Spark too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparkhaven.jobs.session.jars import Artifact, jars
from sparkhaven.readers.spark.releases import installed_spark
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs

VERSION = "4.4.0"
SPARKS = ("4.0", "4.1", "4.2")  # that this version of Delta has a jar for
BESIDE = ("delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")


def delta_jars(fs: Fs, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Delta's jars in the cache, fetched if they are missing.

    SettingsError: they cannot be fetched, or Delta has none for the Spark that is installed.
    """
    release = installed_spark().series
    if release not in SPARKS:
        raise SettingsError(
            "Delta has no jars for the Spark that is installed",
            expected=f"pyspark of one of {', '.join(SPARKS)}",
            found=f"pyspark {release}",
            hint="list and requeue rejected rows without Spark, see `sparkhaven quarantine list --help`",
        )
    names = (f"delta-spark_{release}_2.13", *BESIDE)
    artifacts = [Artifact("io.delta", name, VERSION, alone=True) for name in names]  # the rest comes with Spark
    return jars(fs, f"delta-{VERSION}-spark-{release}", artifacts, environ)
