"""Deephaven's on-disk tables from Python and Spark: the public API, and nothing else.

``open_table``        a snapshot of a table, as Arrow
``deephaven_writer``  what ``df.writeStream.foreachBatch(...)`` takes: each micro-batch becomes one epoch
``write_frame``       a batch DataFrame, as one epoch
``errors``            the errors that they raise

The packages ``store``, ``ingest``, ``writers``, ``readers`` and ``jobs`` are the implementation: import from here only.
Reading needs neither Spark nor a JVM; the writers import pyspark when they are first used.
"""

from __future__ import annotations

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
    from jobs.streams.frames import FrameWriter, deephaven_writer, write_frame

try:
    __version__ = version("sparkhaven")
except PackageNotFoundError:  # a checkout or zip that is not installed
    __version__ = "not installed"

__all__ = ["FrameWriter", "Table", "__version__", "deephaven_writer", "errors", "open_table", "write_frame"]


def __getattr__(name: str) -> Any:
    """Imports the writers, which import Spark, when they are first used."""
    if name not in ("FrameWriter", "deephaven_writer", "write_frame"):
        raise AttributeError(f"module 'sparkhaven' has no attribute {name!r}")
    from jobs.streams import frames

    return getattr(frames, name)


def __dir__() -> list[str]:
    return sorted(__all__)
