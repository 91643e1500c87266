"""Deephaven's on-disk tables from Python and Spark: the public API, and nothing else.

``Database``          the tables below a root: ``tables``, ``table``, ``sql``, ``snapshot``, ``save_table``, ...
``Table``             one of them: whatever a command does with a table, a method does
``Snapshot``          a table at one moment, as Arrow
``open_table``        ``Database(root).table("NS.T").snapshot()``
``register``          makes ``spark.read`` and ``spark.readStream`` know the format ``deephaven``
``deephaven_writer``  what ``df.writeStream.foreachBatch(...)`` takes: each micro-batch becomes one epoch
``validator``         declares a function that ``validate`` runs over the rows of a date
``errors``            the errors that they raise
``feeds``             for feeds of your own: the interface that a class of a stream file implements
``testing``           for tests: small tables, their comparison with a DataFrame, suites for feeds

``sql``, ``save_table``, ``read_frame``, ``write_frame`` and ``merge_frame`` are methods of these in one call.

The packages below ``sparkhaven`` are the implementation: import from here only. Each name is imported when it is first
used, so reading needs neither Spark nor a JVM. In a checkout, the packages are links to the top-level folders.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkhaven import errors, feeds, testing
    from sparkhaven.database import Database, DatabaseSnapshot, open_table, save_table, sql
    from sparkhaven.jobs.dataframes.frame_writer import FrameWriter, deephaven_writer, write_frame
    from sparkhaven.jobs.dataframes.frames import read_frame, register
    from sparkhaven.jobs.operations.merge_frame import merge_frame
    from sparkhaven.readers.arrow.snapshot import Snapshot
    from sparkhaven.table import Table
    from sparkhaven.writers.validation.validators import validator

    __version__: str

__all__ = [
    "Database",
    "DatabaseSnapshot",
    "FrameWriter",
    "Snapshot",
    "Table",
    "__version__",
    "deephaven_writer",
    "errors",
    "feeds",
    "merge_frame",
    "open_table",
    "read_frame",
    "register",
    "save_table",
    "sql",
    "testing",
    "validator",
    "write_frame",
]
_MODULES = "errors", "feeds", "testing"
_ON_USE = {
    "Database": "database",
    "DatabaseSnapshot": "database",
    "FrameWriter": "jobs.dataframes.frame_writer",
    "Snapshot": "readers.arrow.snapshot",
    "Table": "table",
    "deephaven_writer": "jobs.dataframes.frame_writer",
    "merge_frame": "jobs.operations.merge_frame",
    "open_table": "database",
    "read_frame": "jobs.dataframes.frames",
    "register": "jobs.dataframes.frames",
    "save_table": "database",
    "sql": "database",
    "validator": "writers.validation.validators",
    "write_frame": "jobs.dataframes.frame_writer",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and keeps it; AttributeError: the API has no such name."""
    if name in _MODULES:
        return import_module(f"sparkhaven.{name}")
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
