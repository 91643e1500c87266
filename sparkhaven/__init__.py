"""Deephaven's on-disk tables from Python and Spark: the public API, and nothing else.

``open_table``        a snapshot of a table, as Arrow
``sql``               the result of a SELECT over tables, as Arrow
``deephaven_writer``  what ``df.writeStream.foreachBatch(...)`` takes: each micro-batch becomes one epoch
``write_frame``       a batch DataFrame, as one epoch
``read_frame``        a table as a batch DataFrame
``register``          makes ``spark.read`` and ``spark.readStream`` know the format ``deephaven``
``errors``            the errors that they raise
``testing``           small tables for tests, and their comparison with a DataFrame; to be imported by its name

The packages ``store``, ``ingest``, ``writers``, ``readers`` and ``jobs`` are the implementation: import from here only.
Reading needs neither Spark nor a JVM; what needs them imports pyspark when it is first used, and ``sql`` DuckDB.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import store

if Path(str(store.__file__)).parent.parent != Path(__file__).parent.parent:
    raise ImportError(
        f"another package is named `store`: found {store.__file__}, expected it beside {Path(__file__).parent}; "
        "remove that directory from PYTHONPATH, or uninstall the package"
    )

from readers import Table, open_table
from sparkhaven import errors

if TYPE_CHECKING:
    from jobs.dataframes.frame_writer import FrameWriter, deephaven_writer, write_frame
    from jobs.dataframes.frames import read_frame, register
    from readers.sql.query import sql

try:
    __version__ = version("sparkhaven")
except PackageNotFoundError:  # a checkout or zip that is not installed
    __version__ = "not installed"

__all__ = [
    "FrameWriter",
    "Table",
    "__version__",
    "deephaven_writer",
    "errors",
    "open_table",
    "read_frame",
    "register",
    "sql",
    "write_frame",
]
_ON_USE = {
    "FrameWriter": "jobs.dataframes.frame_writer",
    "deephaven_writer": "jobs.dataframes.frame_writer",
    "read_frame": "jobs.dataframes.frames",
    "register": "jobs.dataframes.frames",
    "sql": "readers.sql.query",
    "write_frame": "jobs.dataframes.frame_writer",
}


def __getattr__(name: str) -> Any:
    """Imports what needs Spark or DuckDB when it is first used."""
    if name not in _ON_USE:
        raise AttributeError(f"module 'sparkhaven' has no attribute {name!r}")
    return getattr(import_module(_ON_USE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
