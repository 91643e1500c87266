"""Local paths as Spark has to be told them."""

from __future__ import annotations

from pathlib import Path


def local_uri(path: Path) -> str:
    """A local path as a ``file:`` URI: Spark looks for a bare path in its default file system, which may be HDFS.

    Not percent-encoded: Hadoop takes such URIs as they stand.
    """
    return f"file://{path.absolute()}"
