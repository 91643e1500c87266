"""Variables with which a Spark that a test starts as a program of its own starts as fast as the session of a job."""

from __future__ import annotations

import os

from sparkhaven.jobs.session.fast_start import archive_options
from sparkhaven.jobs.session.spark_session import JVM_OPTIONS
from sparkhaven.store.io.fs import Fs


def quick_java() -> dict[str, str]:
    """For every JVM below the process that has them. The class archive does not know a ``SPARK_CONF_DIR``."""
    return {"JDK_JAVA_OPTIONS": " ".join([*JVM_OPTIONS, *archive_options(Fs(), os.environ)])}
