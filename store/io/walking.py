"""The files below a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.io.fs import Fs


def files_below(fs: Fs, path: Path) -> Iterator[Path]:
    """Every file in a directory and in those below it, sorted; the path itself if it is a file."""
    found = fs.stat(path)
    if found is not None and not found.is_dir:
        yield path
        return
    for name in fs.names(path):
        yield from files_below(fs, path / name)
