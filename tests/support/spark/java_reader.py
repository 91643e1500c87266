"""Classes of the Spark reader in Java, for tests without Spark."""

from __future__ import annotations

from pathlib import Path

import pyspark

from java.build import JAR, build


def classpath() -> str:
    """Of the reader and Spark; makes the reader's jar where it is not of these sources."""
    build()
    return f"{JAR}:{Path(pyspark.__file__).parent}/jars/*"
