"""Signals that end a process, also under spark-submit.

Airflow, systemd and Kubernetes send SIGTERM to the process that they have started, which under spark-submit is Spark's
JVM. By default it ends at once, and with it the connection of the driver, its child. Here it forwards the signal to the
driver, which ends as it does without spark-submit; then the JVM ends with the driver's exit code.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

FORWARDED = ("TERM", "INT")


def stopped_by_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set, from now on."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


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
