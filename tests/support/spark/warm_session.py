"""A session for tests, with workers and sources that are forks of processes with what they need."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sparkhaven.jobs.session.spark_session import build_session
from tests.support.spark.warm_forks import start_forks


def warm_session(name: str, extra: Mapping[str, str], workers: int | None = 2) -> SparkSession:
    """A session as a job builds it, with ``extra`` settings. SettingsError as from ``build_session``."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARKHAVEN_PYTHON"] = sys.executable
    start_forks()
    spark = build_session(name, workers=workers, extra=extra)
    spark.sparkContext.pythonExec = str(Path(__file__).with_name("warm_python.sh"))
    return spark
