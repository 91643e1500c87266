"""Data frames over tables: the data source that Spark knows as ``deephaven``."""
