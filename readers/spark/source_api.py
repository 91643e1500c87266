"""PySpark's classes for data sources in Python, from the release that is installed; stand-ins for what it lacks.

PySpark 4.2 and later ask a source for batches of a limited size, and tell it of the trigger ``availableNow``. Releases
4.0 and 4.1 do neither: ``readers.spark.batch`` adapts readers to them. PySpark 4.0 gives Arrow batches to no
writer of a stream. Without PySpark, a run in this process
drives the same readers by the same calls (``ingest.feeds.spark_planning``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

__all__ = [
    "HAS_LIMITS",
    "DataSource",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]

HAS_SPARK = find_spec("pyspark") is not None
HAS_LIMITS = HAS_SPARK and find_spec("pyspark.sql.streaming.datasource") is not None

if HAS_SPARK:
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
else:

    class DataSource:  # type: ignore[no-redef]
        """Its ``options`` are those of its user."""

        def __init__(self, options: Mapping[str, str]) -> None:
            self.options = options

    class DataSourceReader:  # type: ignore[no-redef]
        """Plans partitions, and reads one."""

    class DataSourceStreamReader:  # type: ignore[no-redef]
        """Plans batches between offsets, and reads a partition of one."""

        def commit(self, end: dict[str, object]) -> None:
            """A batch is done."""

        def stop(self) -> None:
            """Nothing more is read."""

    class InputPartition:  # type: ignore[no-redef]
        """A part of a batch, as a task gets it."""


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:

    class DataSourceStreamArrowWriter:  # type: ignore[no-redef]
        """Takes the batches of a stream as Arrow."""


if HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:  # type: ignore[no-redef]
        """How much a batch may take."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[misc, no-redef]
        """All that is there."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[misc, no-redef]
        max_rows: int

    @dataclass
    class ReadMaxFiles(ReadLimit):  # type: ignore[misc, no-redef]
        max_files: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[misc, no-redef]
        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A reader that can be told to plan only what is there now."""
