"""The two outputs of a driver, which spark-submit joins: results on one, progress and errors on the other again.

spark-submit starts the driver with one pipe for both and copies it to its standard output. Its JVM has the standard
error that the user sees, and is asked over the driver's gateway to print there.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class JvmErrors(io.TextIOBase):
    """Standard error by the JVM of spark-submit; ``joined`` is what is left when that has ended."""

    def __init__(self, jvm_errors: Any, joined: TextIO) -> None:
        self._jvm_errors, self._joined = jvm_errors, joined

    def write(self, text: str) -> int:
        from py4j.protocol import Py4JError

        try:
            self._jvm_errors.print(text)
            self._jvm_errors.flush()
        except (Py4JError, OSError):
            return self._joined.write(text)
        return len(text)


def separate_outputs() -> None:
    """Prints standard error by the JVM of spark-submit, if it shares a pipe with standard output."""
    if not os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno()):
        return
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    sys.stderr = JvmErrors(SparkContext._gateway.jvm.java.lang.System.err, sys.stderr)
