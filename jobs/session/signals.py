"""Under spark-submit signals go to the JVM, whose child the driver is: here they are forwarded to the driver.

Airflow, systemd and Kubernetes send SIGTERM to the process that they have started, which is Spark's JVM. By default it
ends at once, and with it the driver's connection. Here it forwards the signal to the driver, which ends as it does
without spark-submit; then the JVM ends with the driver's exit code.
"""

from __future__ import annotations

import os
import signal
from typing import Any

FORWARDED = ("TERM", "INT")


class _Forward:
    """Java's ``sun.misc.SignalHandler`` in this process: a signal of the JVM becomes a SIGTERM of this process."""

    def handle(self, received: Any) -> None:
        """Called by the JVM; SIGINT too ends after the batch, since a terminal sends it to this process as well."""
        os.kill(os.getpid(), signal.SIGTERM)

    class Java:
        """The Java interface that py4j implements."""

        implements = ("sun.misc.SignalHandler",)


def forward_signals() -> None:
    """Lets the JVM of spark-submit forward SIGTERM and SIGINT to this process until both end."""
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    SparkContext._ensure_initialized()
    gateway = SparkContext._gateway
    ensure_callback_server_started(gateway)
    names = gateway.jvm.sun.misc.Signal
    for name in FORWARDED:
        names.handle(names(name), _Forward())
