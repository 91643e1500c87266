"""Signals that a driver under spark-submit does not get: they go to the JVM, whose child it is.

Airflow, systemd and Kubernetes send SIGTERM to the process that they have started, which is Spark's JVM. Left alone it
ends at once and takes the driver's connection with it. Here it hands the signal on to the driver, which ends as it
does without spark-submit, and the JVM ends after it with its exit code.
"""

from __future__ import annotations

import os
import signal
from typing import Any

FORWARDED = ("TERM", "INT")


class _Forward:
    """Java's ``sun.misc.SignalHandler`` in this process: what the JVM gets becomes a SIGTERM of ours."""

    def handle(self, received: Any) -> None:
        """Called by the JVM; SIGINT too asks to end after the batch, since a terminal sends it to us as well."""
        os.kill(os.getpid(), signal.SIGTERM)

    class Java:
        """What py4j makes an object of in the JVM."""

        implements = ("sun.misc.SignalHandler",)


def forward_signals() -> None:
    """Makes the JVM of spark-submit hand SIGTERM and SIGINT on to this process, from now until both end."""
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    SparkContext._ensure_initialized()
    gateway = SparkContext._gateway
    ensure_callback_server_started(gateway)
    names = gateway.jvm.sun.misc.Signal
    for name in FORWARDED:
        names.handle(names(name), _Forward())
