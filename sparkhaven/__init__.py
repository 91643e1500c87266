"""Deephaven's on-disk tables from Python and Spark: the public API, and nothing else.

``open_table``        a snapshot of a table, as Arrow
``sql``               the result of a SELECT over tables, as Arrow
``deephaven_writer``  what ``df.writeStream.foreachBatch(...)`` takes: each micro-batch becomes one epoch
``write_frame``       a batch DataFrame, as one epoch
``merge_frame``       the rows of a frame as history of their dates, sorted, grouped and proved
``read_frame``        a table as a batch DataFrame
``save_table``        rows as a user table, replaced or extended as a whole
``validator``         declares a function that `validate --validator` runs over the rows of a date
``delete_rows``       rows that match a condition, out of intraday and history
``rewrite_columns``   columns of history, computed anew by expressions or functions
``register``          makes ``spark.read`` and ``spark.readStream`` know the format ``deephaven``
``errors``            the errors that they raise
``testing``           for tests: small tables, their comparison with a DataFrame, suites for feeds. Import it by name

The packages below ``sparkhaven`` are the implementation: import from here only. Each name is imported when it is first
used, so reading needs neither Spark nor a JVM. In a checkout, the packages are links to the top-level folders.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkhaven import errors
    from sparkhaven.jobs.dataframes.frame_writer import FrameWriter, deephaven_writer, write_frame
    from sparkhaven.jobs.dataframes.frames import read_frame, register
    from sparkhaven.jobs.dataframes.merge_frame import merge_frame
    from sparkhaven.jobs.operations.row_deletions import delete_rows
    from sparkhaven.readers import Table, open_table
    from sparkhaven.readers.sql.query import sql
    from sparkhaven.writers.rewrites.rewrite_columns import rewrite_columns
    from sparkhaven.writers.users.save import save_table
    from sparkhaven.writers.validation.validators.loading import validator

    __version__: str

__all__ = [
    "FrameWriter",
    "Table",
    "__version__",
    "deephaven_writer",
    "delete_rows",
    "errors",
    "merge_frame",
    "open_table",
    "read_frame",
    "register",
    "rewrite_columns",
    "save_table",
    "sql",
    "validator",
    "write_frame",
]
_ON_USE = {
    "FrameWriter": "jobs.dataframes.frame_writer",
    "Table": "readers",
    "deephaven_writer": "jobs.dataframes.frame_writer",
    "delete_rows": "jobs.operations.row_deletions",
    "merge_frame": "jobs.dataframes.merge_frame",
    "open_table": "readers",
    "read_frame": "jobs.dataframes.frames",
    "register": "jobs.dataframes.frames",
    "rewrite_columns": "writers.rewrites.rewrite_columns",
    "save_table": "writers.users.save",
    "sql": "readers.sql.query",
    "validator": "writers.validation.validators.loading",
    "write_frame": "jobs.dataframes.frame_writer",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and keeps it; AttributeError: the API has no such name."""
    if name == "errors":
        return import_module("sparkhaven.errors")
    if name == "__version__":
        value: Any = _version()
    elif name in _ON_USE:
        value = getattr(import_module(f"sparkhaven.{_ON_USE[name]}"), name)
    else:
        raise AttributeError(f"module 'sparkhaven' has no attribute {name!r}")
    return globals().setdefault(name, value)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sparkhaven")
    except PackageNotFoundError:  # a checkout or zip that is not installed
        return "not installed"


def __dir__() -> list[str]:
    return sorted(__all__)
