"""The path of a feed of files: a plain path, or a pattern with ``*``, ``?``, ``[…]``, and ``**`` for any directories.

What is there under a name is taken by that name: ``feed[1]`` is the directory ``feed[1]``, if there is one.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs

ANY_DEPTH = "**"
_MAGIC = frozenset("*?[")


def split_pattern(fs: Fs, path: str) -> tuple[Path, tuple[str, ...]]:
    """The directory above the first wildcard, and the parts from there on (none: a plain path)."""
    parts = Path(path).parts
    root = Path()
    for index, part in enumerate(parts):
        if _MAGIC & set(part) and fs.stat(root / part, follow=False) is None:
            rest = parts[index:]
            return root, tuple(p for n, p in enumerate(rest) if p != ANY_DEPTH or rest[n - 1 : n] != (ANY_DEPTH,))
        root /= part
    return root, ()


def fits(name: str, part: str) -> bool:
    """Whether a name is that of a part of a pattern, or matches it."""
    return name == part or fnmatchcase(name, part)


def missing_directory(root: Path, kind: type[SparkhavenError]) -> SparkhavenError:
    """The error for a feed whose directory is not there."""
    braces = ". {a,b} is not a pattern. Write one stream for each, or a pattern of *, ? and […]"
    return kind(
        "the feed's directory does not exist",
        where=root,
        expected="a directory",
        found="nothing",
        hint='make or mount it (it may be empty), correct feed.path, or set missing_directory = "wait" in [feed]'
        + (braces if "{" in str(root) else ""),
    )
