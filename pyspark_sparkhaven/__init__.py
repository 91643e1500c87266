"""Where Spark finds the data source ``deephaven`` by itself: it looks into all packages named ``pyspark_...``."""

from sparkhaven.jobs.dataframes.source import DeephavenSource as DefaultSource

__all__ = ["DefaultSource"]
