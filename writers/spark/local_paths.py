"""Local paths in the form that Spark needs."""

from __future__ import annotations

from pathlib import Path


def local_uri(path: Path) -> str:
    """A local path as a ``file:`` URI: Spark resolves a bare path in its default file system, which may be HDFS.

    Not percent-encoded, because Hadoop does not decode it, and with one slash, as Hadoop writes it: Delta compares
    these URIs as text.
    """
    return f"file:{path.absolute()}"
