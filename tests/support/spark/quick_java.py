"""Variables with which a Spark that a test starts as a program of its own starts as fast as the session of a job."""

from __future__ import annotations

import os
from pathlib import Path

from sparkhaven.jobs.session.fast_start import archive_options, python_launcher
from sparkhaven.jobs.session.spark_session import JVM_OPTIONS
from sparkhaven.store.io.fs import Fs
from tests.support.spark.warm_forks import ADDRESS


def quick_java() -> dict[str, str]:
    """For every JVM below the process that has them. The class archive does not know a ``SPARK_CONF_DIR``."""
    return {"JDK_JAVA_OPTIONS": " ".join([*JVM_OPTIONS, *archive_options(Fs(), os.environ)])}


def warm_python() -> dict[str, str]:
    """For a Spark of this Python whose workers have our packages from elsewhere, as from a zip."""
    warm = str(Path(__file__).with_name("warm_python.sh"))
    return {"PYSPARK_PYTHON": warm, "SPARKHAVEN_PYTHON": python_launcher(Fs(), os.environ), ADDRESS: ""}
