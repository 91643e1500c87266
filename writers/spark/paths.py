"""Local paths as Spark has to be told them."""

from __future__ import annotations

import re
from pathlib import Path


def local_uri(path: Path) -> str:
    """A local path as a ``file:`` URI: Spark looks for a bare path in its default file system, which may be HDFS.

    Not percent-encoded, since Hadoop takes such URIs as they stand, and with one slash, as Hadoop writes them: Delta
    compares them as text.
    """
    return f"file:{path.absolute()}"


def local_pattern(path: Path) -> str:
    """The same for Spark's file formats, which take paths for patterns: one that means this path alone."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", local_uri(path))
